"""What a guard saw while a network ran or trained (schema samebits.guard/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.causes import CauseCode, Verdict
from samebits.findings.comparison_schema import Certainty, Evidence
from samebits.findings.shown import ShownFinding

# Which result of a layer.
Direction = Literal["forward", "grad_input", "grad_weight"]


class GuardedResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of one layer: how often it was looked at, and how near to its bounds it came.

    `outputs` were compared with the truth over all `checks`, `draws` of them drawn independently and uniformly.
    """

    layer: str
    direction: Direction
    seen: int
    checks: int
    outputs: int
    draws: int
    breaches: int
    max_over_bound: float | None
    max_over_likely: float | None


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is not what its layer says, at the `call`-th time that it was seen.

    `outputs` of those `checked` are beyond the bound that the verdict rests on; null where the whole result was held
    against the largest number that it can have. `case` is where the sums in question were kept.
    """

    layer: str
    direction: Direction
    call: int
    verdict: Verdict
    cause: CauseCode | None
    certainty: Certainty
    outputs: int | None
    checked: int | None
    max_over_bound: float | None
    max_over_likely: float | None
    says: str
    case: str | None = None


class GuardReport(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """What a guard saw of a module. `share` of the results were checked; `time_s` of `running_s` seconds went to it.

    `left_out` says of layers, or of a layer's results, why they could not be checked.
    """

    _rows: ClassVar[str] = "results"
    schema: Literal["samebits.guard/1"] = "samebits.guard/1"
    module: str
    verdict: Verdict
    cause: CauseCode | None = None
    summary: str
    share: float
    checks: int
    outputs: int
    time_s: float
    running_s: float
    results: list[GuardedResult]
    breaches: list[Breach] = []
    left_out: dict[str, str] = {}
    evidence: list[Evidence] = []
    samebits_version: str
