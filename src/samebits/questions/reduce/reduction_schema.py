"""A fault made small: the smallest problem that shows it, and when it is there (schema samebits.reduction/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.comparison_schema import Evidence
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding


class OtherEngine(msgspec.Struct, frozen=True):
    """The smallest problem on another engine, version or setting. `right` is null where it does not take it."""

    engine: str
    version: str | None
    right: bool | None
    says: str = ""


class FaultyVersions(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of one engine, in their sequence: the first faulty one and that before it, and where it is right again.

    `first` is null where the oldest one asked is faulty already, `right_again` where the newest still is.
    """

    first: str | None = None
    right_before: str | None = None
    right_again: str | None = None
    asked: list[str] = []


class Reduction(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """One engine's fault at its smallest. `problem` and `fault` are null where there is none.

    `fault` is a verdict (`wrong`, `downgrade`, `undecided`: beyond its bound, nothing proves why) or how the engine
    failed (`crash`, `timeout`, `error`); `data` what it was seen on: exact integers, random normal operands, or those
    of the case. `condition` is true of every faulty neighbour; `exceptions` are neighbours that fulfil it and are right
    all the same: where there are none it is exact, as far as was asked. `repeats`: asked again, the smallest problem
    gives the same bits. Of `calls` on the same operands at `start` `faulty_calls` showed the fault; where it comes and
    goes, every other problem was called `calls_each` times. `reproduced` says whether the script failed as it should
    when run.
    """

    _lines: ClassVar[tuple[str, ...]] = ("reproducer",)
    schema: Literal["samebits.reduction/1"] = "samebits.reduction/1"
    start: str
    engine: str
    version: str | None = None
    device: str | None = None
    settings: dict[str, str] = {}
    problem: str | None
    fault: str | None
    data: Literal["integers", "normal", "given"]
    is_smallest: bool | None = None
    repeats: bool | None = None
    where: str | None = None
    first_index: list[int] | None = None
    first_value: float | None = None
    first_truth: float | None = None
    condition: str | None = None
    is_exact: bool | None = None
    wrong_neighbours: int = 0
    right_neighbours: int = 0
    exceptions: list[str] = []
    right_with: list[str] = []
    others: list[OtherEngine] = []
    versions: FaultyVersions | None = None
    reproducer: str | None = None
    reproduced: bool | None = None
    benchdnn: str | None = None
    summary: str
    evidence: list[Evidence] = []
    calls: int | None = None
    faulty_calls: int | None = None
    calls_each: int = 1
    problems_asked: int = 0
    time_s: float
    samebits_version: str
    made: Made | None = None
