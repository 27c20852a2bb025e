"""One unit on one side: its own error against the truth on what it was really fed, and the verdict on that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from samebits import thresholds
from samebits.findings import Certainty, Evidence, Verdict, worst_verdict
from samebits.findings.causes import CauseCode
from samebits.findings.comparison_schema import Replay
from samebits.findings.model_schema import OwnError
from samebits.findings.words.place_words import describe_indices
from samebits.judging.measuring import measure_absolute
from samebits.networks.bounded import Floats
from samebits.networks.model_sentences import (
    say_digits_kept,
    say_no_bound,
    say_other_shape,
    say_unit_beyond,
    say_unit_moved,
    say_unit_proved,
    say_unit_unrounded,
    say_unit_within,
    say_unlimited,
)
from samebits.networks.network import Network
from samebits.networks.unit_reference import HALVES, OutputReference, refer_unit
from samebits.networks.units import Unit
from samebits.numbers import count_ulps, find_format
from samebits.numbers.format import FORMATS
from samebits.numbers.ulps import mark_differing_bits

# So many outputs are measured at once.
_AT_ONCE = 2**16


@dataclass(frozen=True)
class UnitJudgement:
    """The verdict on one unit of one side, and what it rests on.

    Where `is_judged` is False nothing is known of how its operators may round: it is `undecided`, and spreads no doubt.
    """

    verdict: Verdict
    certainty: Certainty
    own: OwnError | None
    cause: CauseCode | None = None
    cause_certainty: Certainty | None = None
    says: str | None = None
    recipe: str | None = None
    replay: Replay | None = None
    share: float | None = None
    evidence: tuple[Evidence, ...] = ()
    # Whether it is farther from the truth than a plain computation, on the whole: worth a search, no verdict.
    is_unusual: bool = False
    is_judged: bool = True
    # Whether the engine computes the unit's product wrongly by itself, on exact integers.
    is_wrong_alone: bool = False
    # True where the output is beyond its bound, by output.
    beyond: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


def judge_unit(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Mapping[str, np.ndarray],
    references: Mapping[str, OutputReference],
) -> UnitJudgement:
    """The verdict on what one side returned (`seen` has the unit's inputs and outputs) before its cause is known.

    Beyond its bound a unit is `wrong` where bfloat16 throughout could not take it so far, else `undecided`.
    """
    judged = [_judge_output(seen[v], references[v]) for v in unit.outputs]
    own = _join_errors([j[1] for j in judged if j[1] is not None])
    verdict = worst_verdict([j[0] for j in judged])
    beyond = {v: mask for v, (_, _, mask) in zip(unit.outputs, judged, strict=True) if mask is not None and mask.any()}
    if unknown := [references[v].unknown for v in unit.outputs if references[v].bound is None]:
        said = Evidence("structure", say_no_bound(unknown))
        return UnitJudgement("undecided", "open", own, evidence=(said,), is_judged=False)
    if any(_is_unknown(seen[v], references[v]) for v in unit.outputs) and not beyond:
        said = Evidence("structure", say_unlimited(unit.operators))
        return UnitJudgement("undecided", "open", own, evidence=(said,), is_judged=False)
    if not beyond:
        level: Certainty = "bits" if verdict == "identical" else "bounds"
        share = own.max_over_bound if own else None
        unusual = any(_is_unusual(seen[v], references[v]) for v in unit.outputs)
        said = Evidence("statistic", say_unit_within(share))
        return UnitJudgement(verdict, level, own, evidence=(said,), is_unusual=unusual)
    if (kept := _judge_unrounded(network, folded, unit, seen, beyond)) is not None:
        return kept
    narrow = refer_unit(network, folded, unit, seen, narrow=True)
    proved = [v for v in beyond if _is_another_function(seen[v], references[v], narrow[v])]
    count, total = sum(int(m.sum()) for m in beyond.values()), sum(m.size for m in beyond.values())
    share = own.max_over_bound if own else None
    where = ", ".join(dict.fromkeys(filter(None, map(describe_indices, beyond.values()))))
    shapes = [(seen[v].shape, references[v].truth.shape) for v in beyond]
    if other := next((pair for pair in shapes if pair[0] != pair[1]), None):
        said = Evidence("structure", say_other_shape(*other))
        return UnitJudgement("wrong", "bounds", own, evidence=(said,), beyond=beyond)
    if not proved:
        said = say_unit_beyond(count, total, share, where)
        return UnitJudgement("undecided", "open", own, evidence=(Evidence("statistic", said),), beyond=beyond)
    moved = not any(o.any() for o in (references[v].bound for v in proved) if o is not None)
    said = say_unit_moved(count, total, unit.operators, where) if moved else say_unit_proved(count, total, where)
    return UnitJudgement("wrong", "bounds", own, evidence=(Evidence("structure", said),), beyond=beyond)


def _judge_unrounded(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Mapping[str, np.ndarray],
    beyond: Mapping[str, np.ndarray],
) -> UnitJudgement | None:
    """The verdict on a unit that is within its bound if what it was fed had more digits than its format holds.

    Compilers compute float16 and bfloat16 in float32, and round between operations only where somebody looks.
    """
    if not any(seen[v].dtype.name in HALVES and v not in network.inputs for v in unit.inputs):
        return None
    references = refer_unit(network, folded, unit, seen, unrounded=True)
    judged = [_judge_output(seen[v], references[v]) for v in unit.outputs]
    if any(mask is None or mask.any() for _, _, mask in judged):
        return None
    own = _join_errors([error for _, error, _ in judged if error is not None])
    count, total = sum(int(m.sum()) for m in beyond.values()), sum(m.size for m in beyond.values())
    return UnitJudgement(
        "rounding", "bounds", own, CauseCode.EXCESS_PRECISION, "statistics", say_digits_kept(),
        evidence=(Evidence("statistic", say_unit_unrounded(count, total)),),
    )  # fmt: skip


def _judge_output(result: np.ndarray, reference: OutputReference) -> tuple[Verdict, OwnError | None, np.ndarray | None]:
    """Verdict, error, and where the output is beyond its bound."""
    if reference.bound is None:
        return "undecided", None, None
    truth = reference.truth
    if result.shape != truth.shape:
        return "wrong", None, np.ones(result.shape, bool)
    if result.dtype.name not in FORMATS:
        # Whole numbers may be larger than float64 holds: where nothing may differ they are compared as they are.
        other = result != truth.astype(result.dtype)
        differs = other & ~_is_allowed(result, reference)
        return ("wrong" if differs.any() else "rounding" if other.any() else "identical"), None, differs
    over, ulps, absolute, beyond, differs = 0.0, 0.0, 0.0, np.empty(result.size, bool), False
    arrays = (result, truth.astype(result.dtype), reference.value, np.broadcast_to(reference.bound, result.shape))
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    # A part at a time, which stays in a core's cache.
    for start in range(0, result.size, _AT_ONCE):
        part = _measure_part(*(array[start : start + _AT_ONCE] for array in flat))
        beyond[start : start + _AT_ONCE] = part.over > 1.0
        over, absolute = max(over, float(part.over.max())), max(absolute, float(part.absolute.max()))
        ulps, differs = max(ulps, part.ulps), differs or part.differs
    own = OwnError(max_over_bound=over, max_ulp=ulps, max_abs=absolute)
    beyond = beyond.reshape(result.shape)
    # Zeros of two signs are other bits, 0 apart.
    return ("undecided" if beyond.any() else "rounding" if differs else "identical"), own, beyond


class _Measured(NamedTuple):
    """How far a part of a result is from the truth: by element in shares of the bound and as numbers, and in all."""

    over: Floats
    absolute: Floats
    ulps: float
    differs: bool


def _measure_part(result: np.ndarray, truth: np.ndarray, value: Floats, bound: Floats) -> _Measured:
    absolute = _measure(result, truth, value)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(absolute == 0, 0.0, absolute / bound)
    if not np.isfinite(over).all():
        over = np.nan_to_num(over, nan=np.inf, posinf=np.inf)
    differs = bool(mark_differing_bits(result, truth).any())
    ulps = float(count_ulps(result, truth, find_format(result.dtype.name)).max()) if differs else 0.0
    return _Measured(over, absolute, ulps, differs)


def _is_allowed(result: np.ndarray, reference: OutputReference) -> np.ndarray:
    """Where whole numbers may be others than the truth, and are no farther from it than that."""
    assert reference.bound is not None
    away = np.abs(result.astype(np.float64) - reference.value)
    return (reference.bound > 0) & (away <= reference.bound)


def _measure(result: np.ndarray, truth: np.ndarray, value: Floats) -> Floats:
    """How far a result is from the exact value; 0 where it is the rounded one, overflow and NaN included."""
    absolute = measure_absolute(result, truth)
    given = result.astype(np.float64)
    with np.errstate(invalid="ignore"):
        away = np.abs(given - value)
    finite = absolute > 0
    if not np.isfinite(away).all():
        finite &= np.isfinite(value) & np.isfinite(given)
    return np.where(finite, away, absolute)


def _is_unusual(result: np.ndarray, reference: OutputReference) -> bool:
    """Whether errors are many times what roundings of a plain sum come to: see `thresholds.UNUSUAL_TIMES`."""
    if not np.isfinite(reference.usual) or result.dtype.name not in FORMATS:
        return False
    away = result.astype(np.float64) - reference.value
    away = away[np.isfinite(away)]
    return away.size > 0 and float(np.sqrt((away**2).mean())) > thresholds.UNUSUAL_TIMES * reference.usual


def _is_another_function(result: np.ndarray, reference: OutputReference, narrow: OutputReference) -> bool:
    if narrow.bound is None or result.shape != reference.truth.shape:
        return result.shape != reference.truth.shape
    if result.dtype.name not in FORMATS:
        return bool(((result != narrow.truth.astype(result.dtype)) & ~_is_allowed(result, narrow)).any())
    absolute = _measure(result, reference.truth.astype(result.dtype), reference.value)
    nan_lost = np.isnan(reference.value) & np.isfinite(result.astype(np.float64))
    nan_made = np.isnan(result.astype(np.float64)) & np.isfinite(reference.value) & np.isfinite(narrow.bound)
    return bool((np.isfinite(absolute) & (absolute > narrow.bound)).any() or nan_lost.any() or nan_made.any())


def _is_unknown(result: np.ndarray, reference: OutputReference) -> bool:
    """Whether some element differs from the rounded truth where its error has no finite bound."""
    if reference.bound is None or result.dtype.name not in FORMATS or not np.isinf(reference.bound).any():
        return False
    absolute = _measure(result, reference.truth.astype(result.dtype), reference.value)
    return bool((np.isinf(reference.bound) & (absolute > 0)).any())


def _join_errors(errors: list[OwnError]) -> OwnError | None:
    def largest(name: str) -> float | None:
        return max((getattr(e, name) for e in errors), default=None)

    return OwnError(largest("max_over_bound"), largest("max_ulp"), largest("max_abs")) if errors else None
