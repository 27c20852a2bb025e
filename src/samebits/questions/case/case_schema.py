"""What a case file holds (schema samebits.case/1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from samebits.findings.json_text import Count


class ArrayContents(msgspec.Struct, frozen=True, kw_only=True):
    """One array: least and largest of its finite values (null where there are none), and how many are not finite.

    Its role is `array` where no problem is named and it is called as no operand is.
    """

    name: str
    role: Literal["operand", "result", "array"]
    shape: list[int]
    dtype: str
    least: float | None
    largest: float | None
    not_finite: Count


class CaseContents(msgspec.Struct, frozen=True, kw_only=True):
    """A case file's problem, operands and results; of a file without a problem those that its shapes allow."""

    schema: Literal["samebits.case/1"] = "samebits.case/1"
    path: str
    problem: str | None
    allowed_problems: list[str] = []
    arrays: list[ArrayContents]
    samebits_version: str
