"""What comparing the sides of one problem found (schema samebits.comparison/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.causes import CauseCode, Verdict
from samebits.findings.json_text import Count, Share
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding

# `file` is what one of two files says otherwise; `open` what stayed undetermined, and why.
EvidenceKind = Literal["replay", "probe", "structure", "statistic", "setting", "file", "open"]
Certainty = Literal["bits", "bounds", "statistics", "open"]


# Sum of magnitudes, error, bound, probabilistic bound.
_PARTS_OF_A_POINT = 4


class Evidence(msgspec.Struct, frozen=True):
    """One fact that speaks for a verdict."""

    kind: EvidenceKind
    says: str


class Error(msgspec.Struct, frozen=True):
    """Distance from the truth over all outputs; an infinite or undefined one is null in JSON.

    `max_ulp` counts representable numbers of the result's format (0: correctly rounded); `max_over_bound` is the
    largest error divided by its own a-priori bound, which proves; `max_over_likely` divided by the bound that
    independent roundings exceed with a probability of 1e-9, which does not (null where none was computed).
    """

    max_abs: float | None
    max_ulp: float | None
    rel_l2: float | None
    max_over_bound: float | None
    max_over_likely: float | None = None


class ErrorPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Where a side's errors are, for drawing: the result as `rows` by `columns`, pooled to a few dozen cells.

    `cells` hold the largest share of the bound in each part (null: no finite bound); `points` are some outputs, each
    its sum of magnitudes, its error, its bound and its probabilistic bound.
    """

    row_axis: str
    column_axis: str
    rows: int
    columns: int
    cells: list[list[float | None]]
    points: list[list[float | None]]

    def __post_init__(self) -> None:
        if len({len(row) for row in self.cells}) > 1:
            raise ValueError("the rows of a picture's cells have different lengths")
        if any(len(point) != _PARTS_OF_A_POINT for point in self.points):
            raise ValueError(f"a picture's points have {_PARTS_OF_A_POINT} numbers each")


class WorstElement(msgspec.Struct, frozen=True):
    """The output with the largest share of its bound: where it is, what it reads, what it is and should be.

    `window` lists, per axis of the operand it gathers from, the half-open range that the output reads.
    """

    index: list[int]
    value: float | None
    truth: float | None
    ulp: float | None
    over_bound: float | None
    window: dict[str, list[list[int]]]


class ExactData(msgspec.Struct, frozen=True):
    """What a side did with small integers whose every partial sum is exact."""

    differing: Count
    elements: Count
    where: str | None
    first_index: list[int] | None
    first_value: float | None
    first_truth: float | None


class Replay(msgspec.Struct, frozen=True):
    """The share of elements that a recipe reproduced bit for bit, and of how many."""

    matched: Share
    elements: Count

    @property
    def count(self) -> int:
        """How many elements were reproduced."""
        return round(self.matched * self.elements)

    @property
    def is_whole(self) -> bool:
        """Whether every element was."""
        return self.matched == 1.0


class Failure(msgspec.Struct, frozen=True):
    """Why a side has no result."""

    kind: Literal["unsupported", "crash", "timeout", "out-of-memory", "error"]
    says: str


class Varying(msgspec.Struct, frozen=True, kw_only=True):
    """Calls on the same operands that do not all return the same bits.

    `other` counts those that return other bits than most, `faulty` those whose result deviates from the truth;
    `outputs` counts those, of all `elements`, whose bits vary, and `where` says which.
    """

    calls: int
    other: int
    faulty: int
    outputs: int
    elements: int
    where: str | None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the results that are compared, an engine's or a recorded one.

    `where` says in words which outputs are beyond their bound; `says` what the side does, as the predicate of a
    sentence; `bits` names those of its result. Two evidence levels: `certainty` is that of the verdict,
    `cause_certainty` that of the cause (and of `says`), for a bound can prove that another function was computed while
    which fault did it is inferred. `repeats` tells whether calls on the same operands gave the same bits, where there
    were several, `calls` how many, exact integers and the operands in question together, and `varying` what they gave
    if they differ.
    """

    name: str
    engine: str | None
    version: str | None = None
    device: str | None = None
    settings: dict[str, str] = {}
    verdict: Verdict
    cause: CauseCode | None = None
    says: str | None = None
    certainty: Certainty | None = None
    cause_certainty: Certainty | None = None
    recipe: str | None = None
    replay: Replay | None = None
    error: Error | None = None
    bits: str | None = None
    values: list[float | None] | None = None
    worst: WorstElement | None = None
    where: str | None = None
    exact_data: ExactData | None = None
    failure: Failure | None = None
    repeats: bool | None = None
    calls: int | None = None
    varying: Varying | None = None
    evidence: list[Evidence] = []
    picture: ErrorPicture | None = None


class Difference(msgspec.Struct, frozen=True):
    """How two sides differ from each other."""

    a: str
    b: str
    differing: Count
    max_abs: float | None
    max_ulp: float | None


class Fix(msgspec.Struct, frozen=True):
    """A setting or change that makes the sides agree: tried (`verified`), or by what `source` says.

    `text` is the engine's text with it, `changes` how many settings differ, `same_bits` whether the sides then agree in
    every bit, `also` what else it does. Where other sides must change too, `together_with` has their texts. Times are
    medians of runs in turns, as a caller sees them.
    """

    engine: str
    setting: str
    why: str
    verified: bool
    verdict_after: Verdict | None
    source: str | None = None
    text: str | None = None
    changes: int | None = None
    same_bits: bool | None = None
    also: str | None = None
    together_with: list[str] = []
    time_before_s: float | None = None
    time_after_s: float | None = None


class Comparison(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """One problem, its sides, and what is to be thought of them.

    Of a log, `line` is where the mismatch begins, and `more` are the log's other mismatches.
    """

    _rows: ClassVar[str] = "sides"
    schema: Literal["samebits.comparison/1"] = "samebits.comparison/1"
    problem: str
    verdict: Verdict
    cause: CauseCode | None = None
    summary: str
    data: str
    outputs: int
    reduction_length: int
    truth: list[float | None] | None = None
    settled: dict[str, int]
    sides: list[Side]
    differences: list[Difference]
    evidence: list[Evidence] = []
    fixes: list[Fix] = []
    line: int | None = None
    more: list[Comparison] = []
    samebits_version: str
    made: Made | None = None
