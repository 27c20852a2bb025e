"""What comparing engines on a whole network found (schema samebits.model/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.causes import CauseCode, Verdict
from samebits.findings.comparison_schema import Certainty, Evidence, Failure, Fix, Replay
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding


class OwnError(msgspec.Struct, frozen=True):
    """How far a unit's output is from the truth on what this side really fed it; infinite ones are null in JSON.

    `max_over_bound` is null where no bound of the unit's operators is known.
    """

    max_over_bound: float | None
    max_ulp: float | None
    max_abs: float | None


class InheritedError(msgspec.Struct, frozen=True):
    """How far the truth on what this side fed the unit is from the truth on what the first side fed it."""

    max_abs: float | None


class UnitSide(msgspec.Struct, frozen=True, kw_only=True):
    """One unit on one side. `says` is the predicate of a sentence; `recipe` and `replay` where they were looked for.

    `is_judged` is false where nobody knows how far an operator of the unit may round: then it says nothing of the side.
    """

    name: str
    verdict: Verdict
    certainty: Certainty | None = None
    cause: CauseCode | None = None
    cause_certainty: Certainty | None = None
    says: str | None = None
    own: OwnError | None = None
    inherited: InheritedError | None = None
    recipe: str | None = None
    replay: Replay | None = None
    is_judged: bool = True
    share: float | None = None
    evidence: list[Evidence] = []


class UnitFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of a network: the operators in it, the problem it computes, and what each side made of it.

    `inputs` and `outputs` are the values it reads and makes, constants excepted. `problem` is that of its product
    alone; null where the unit has none, or several. `differing` counts outputs whose bits are not the same on all
    sides.
    """

    name: str
    operators: list[str]
    problem: str | None
    outputs: list[str]
    elements: int
    differing: int
    sides: list[UnitSide]
    inputs: list[str] = []


class Taps(msgspec.Struct, frozen=True):
    """Whether observing values in between changed the result, and which were therefore left unobserved.

    Where `settled` is false the search for these was given up: some of them may be observed after all.
    """

    changed_bits: bool
    left_out: list[str]
    settled: bool = True


class ModelSide(msgspec.Struct, frozen=True, kw_only=True):
    """One engine on the whole network. `repeats` tells whether a second run gave the same bits.

    `deviating` counts units beyond their bounds, `unjudged` those of which nothing is known, `unjudged_operations` the
    operations that are in none but these. A recorded side has no `engine`; `joined` counts its products that are judged
    together with others, as values in between are not on record. `file` is that of a side with one of its own.
    """

    name: str
    engine: str | None
    file: str | None = None
    version: str | None = None
    device: str | None = None
    settings: dict[str, str] = {}
    verdict: Verdict
    cause: CauseCode | None = None
    first: str | None = None
    deviating: int = 0
    unjudged: int = 0
    unjudged_operations: int = 0
    joined: int = 0
    repeats: bool | None = None
    replayed: int | None = None
    failure: Failure | None = None
    evidence: list[Evidence] = []


class OutputDifference(msgspec.Struct, frozen=True):
    """How one output of the network differs between two sides; `rel_l2` is relative to the first."""

    output: str
    a: str
    b: str
    differing: int
    elements: int
    max_abs: float | None
    max_ulp: float | None
    rel_l2: float | None


class ModelComparison(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """A network, its units, the sides, and what is to be thought of them.

    `first` is the first unit where a side deviates; where none does, the first whose bits differ. `amplification` is
    by how much the relative difference grows from there to the outputs. What makes a value that cannot be observed may
    be in several units; sides may have units of their own. `operations` counts every operation once.
    """

    _rows: ClassVar[str] = "units"
    schema: Literal["samebits.model/1"] = "samebits.model/1"
    model: str
    operations: int = 0
    verdict: Verdict
    cause: CauseCode | None = None
    summary: str
    first: str | None = None
    units: list[UnitFinding]
    taps: Taps
    amplification: float | None = None
    fixes: list[Fix] = []
    sides: list[ModelSide]
    outputs: list[OutputDifference]
    evidence: list[Evidence] = []
    data: str
    saved: list[str] = []
    samebits_version: str
    made: Made | None = None
