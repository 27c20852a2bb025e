"""What comparing two traces of runs found (schema samebits.diff/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.comparison_schema import Evidence
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding

# inputs: what came in differed already; operation: same inputs, other result; structure: only one run has it.
DifferenceKind = Literal["inputs", "operation", "structure"]
# Where differing inputs come from.
InputReason = Literal[
    "random state",
    "order of the data",
    "order within a batch",
    "data",
    "initial values",
    "arguments",
    "noted values",
    "number format",
]


class FirstDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first operation whose bits differ: where it stands in the run, and what kind of difference it is.

    `operation` has no shapes, `what` has them, as the first run has it; `other` is the second run's where it differs.
    `index_a` and `index_b` are its places in the two runs.
    """

    operation: str
    what: str
    other: str | None = None
    step: int
    direction: str
    module: str
    line: str
    process: str
    kind: DifferenceKind
    reason: InputReason | None = None
    index_a: int | None = None
    index_b: int | None = None


class SettingDifference(msgspec.Struct, frozen=True):
    """A setting or version that was not the same in both runs, and how to make it so where that is known."""

    name: str
    a: str
    b: str
    set: str | None


class RunDiff(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """Two runs compared, operation by operation.

    `compared` counts operations that both runs have, `differing` those of them whose bits differ, `only_a` and `only_b`
    those that one run has alone. `drawn` is what one run alone drew random numbers with before they part.
    """

    _rows: ClassVar[str] = "settings"
    schema: Literal["samebits.diff/1"] = "samebits.diff/1"
    a: str
    b: str
    same: bool
    summary: str
    first: FirstDifference | None
    settings: list[SettingDifference]
    compared: int
    differing: int
    only_a: int
    only_b: int
    captured: str | None = None
    drawn: FirstDifference | None = None
    evidence: list[Evidence] = []
    samebits_version: str
    made: Made | None = None
