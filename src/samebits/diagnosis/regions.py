"""Faults of a part of the result: a tail, a group, a batch item, everything from an index on, unwritten memory, NaN."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from samebits.bounds import accumulator_format
from samebits.diagnosis.lineup import Explanation, LineUp
from samebits.diagnosis.measuring import Distances
from samebits.diagnosis.places import describe_places
from samebits.findings import Evidence, Verdict
from samebits.formats.format import find_format
from samebits.suspects import Study
from samebits.suspects.study import Floats

# Of a part that is wrong some outputs are right by chance.
_LEAST_FILLED = 0.75
_MOST_OF_ALL = 0.9
_FLUSHES = "takes subnormal numbers for zero"
# Before a fault that goes on to the end, so much must be right.
_LEAST_BEFORE, _FEWEST_BEFORE = 0.1, 20
# Orders of addition differ in accuracy by a few times, narrower sums by thousands.
_HEALTHY_TIMES = 8.0
# bfloat16 throughout loses about 2^-8 of a sum that does not cancel; another function is off by its own size.
_SMALL_LOSS = 2.0**-4
# Of sums kept in less most are visibly worse than plain ones.
_LEAST_NOISY = 0.25


def explain_values(study: Study, distances: Distances) -> Explanation | None:
    """Results that are no numbers, saturated or zero where the truth is otherwise, all others being healthy."""
    given, truth = study.result.astype(np.float64), study.truth.astype(np.float64)
    over = distances.over_bound
    odd = np.isfinite(given) != np.isfinite(truth)
    both = ~np.isfinite(given) & ~np.isfinite(truth)
    odd |= both & (np.isnan(given) != np.isnan(truth)) | (both & ~np.isnan(given) & (given != truth))
    # Next to the largest number either side may overflow; a sum well beyond it has no number.
    odd &= (over > 1.0) | (np.isinf(truth) & _mark_overflowing(study))
    if not odd.any():
        return None
    others = ~odd & ~both
    fine = bool((over[others] <= 1.0).all())
    where, count = describe_places(study.problem, odd), int(odd.sum())
    at = given[odd]
    clipped = study.problem.then is not None
    if clipped and np.isnan(truth[odd]).all() and np.isfinite(at).all() and fine and len(np.unique(at)) <= 2:
        values = " or ".join(f"{v:g}" for v in np.unique(at))
        says = f"turns NaN into {values}: its clip or relu returns the operand that is a number"
        return _found("wrong", "nan-semantics", says, f"{count:,} outputs, {where}; all others are within their bound")
    lost = fine and np.isnan(truth[odd]).all() and np.isfinite(at).all()
    if lost and not all(np.isfinite(a.astype(np.float64)).all() for a in study.operands.values()):
        says = "loses NaN: returns numbers where the declared sum of these operands is NaN"
        return _found("wrong", None, says, f"{count:,} outputs, {where}")
    if np.isinf(truth[odd]).all() and np.isfinite(at).all() and fine:
        largest = float(find_format(study.problem.out).largest)
        if (np.abs(at) == largest).all():
            says = f"saturates at {largest:g} where the result is infinite"
            evidence = f"{count:,} outputs, {where}; all others are within their bound"
            return _found("downgrade", "overflow", says, evidence)
    return _explain_nonfinite(study, odd, given, truth, healthy=fine and bool(others.any()))


def _mark_overflowing(study: Study) -> npt.NDArray[np.bool_]:
    """Where the exact sum, less the error of adding, is beyond the largest number of the result's format."""
    problem, format_ = study.problem, find_format(study.problem.out)
    exact = study.bare_sums()
    if problem.bias:
        exact = exact + study.operands["bias"].astype(np.float64).reshape(1, -1, *(1,) * problem.rank)
    with np.errstate(all="ignore"):
        error = (problem.reduction_length + 2) * float(accumulator_format(problem).unit_roundoff) * study.magnitudes
        return np.abs(exact) - error > float(format_.largest) * (1 + float(format_.unit_roundoff))


def _explain_nonfinite(
    study: Study, odd: npt.NDArray[np.bool_], given: Floats, truth: Floats, *, healthy: bool
) -> Explanation | None:
    """Infinities and NaN where the truth is finite: overflow if the sums can reach beyond float16, else garbage."""
    if not np.isfinite(truth[odd]).all():
        return None
    where, count = describe_places(study.problem, odd), int(odd.sum())
    if (study.magnitudes[odd] >= float(accumulator_format(study.problem).largest) / 2).all():
        says = "adds in an order whose partial sums leave the range of the declared formats"
        return _found(
            "rounding", "overflow", says, f"{count:,} outputs are no numbers, {where}; another order may be finite"
        )
    half = float(find_format("float16").largest)
    finite = np.isfinite(given)
    in_half = bool((study.magnitudes[odd] > half).all() and (not finite.any() or np.abs(given[finite]).max() <= half))
    # A part that is healthy but for a tail was not computed in float16.
    part = healthy and 1 < count < _MOST_OF_ALL * odd.size and count >= _LEAST_FILLED * _find_box(odd).sum()
    if in_half and not part:
        reached = study.magnitudes[~odd & np.isfinite(study.magnitudes)]
        says = "lets intermediate sums overflow float16's range (65,504)"
        evidence = (
            f"{count:,} outputs are infinite or NaN, {where}; the magnitudes they add reach"
            f" {study.magnitudes[odd].max():.3g}, those of the others {reached.max(initial=0):.3g}"
        )
        return _found("downgrade", "overflow", says, evidence)
    if healthy:
        says = "returns memory that was never written, or lets NaN leak in from it"
        evidence = f"{count:,} outputs are no numbers, {where}; all others are within their bound"
        return _found("wrong", "uninitialized-memory", says, evidence)
    return None


def explain_zeros(study: Study, distances: Distances) -> Explanation | None:
    """Zeros in place of subnormal results, and nothing else beyond its bound."""
    given, truth = study.result.astype(np.float64), study.truth.astype(np.float64)
    least = 2.0 ** find_format(study.problem.out).smallest_normal_exponent
    beyond = distances.over_bound > 1.0
    lost = (given == 0) & (truth != 0) & (np.abs(truth) < least)
    if not beyond.any() or (beyond & ~lost).any():
        return None
    evidence = f"{int(lost.sum()):,} outputs are zero, the truth is below {least:.3g}; others are within their bound"
    return _found("downgrade", "subnormals", _FLUSHES, evidence)


def explain_flush(study: Study, distances: Distances) -> Explanation | None:
    """Losses that taking subnormal operands, products or sums for zero can cause, where nothing else explains them."""
    problem = study.problem
    format_ = find_format(problem.out)
    given, truth = study.result.astype(np.float64), study.truth.astype(np.float64)
    least = 2.0**format_.smallest_normal_exponent
    largest = [float(np.abs(a.astype(np.float64)).max()) for n, a in study.operands.items() if n != "bias"]
    with np.errstate(all="ignore"):
        # Every product and sum loses less than the smallest normal number, an operand that times the other operand.
        lost = least * (2 * problem.reduction_length + 2 + problem.reduction_length * sum(largest))
    beyond = distances.over_bound > 1.0
    zeros = int(((given == 0) & (truth != 0)).sum())
    small = any(((a != 0) & (np.abs(a.astype(np.float64)) < least)).any() for a in study.operands.values())
    # float16's smallest normal number is no small thing: such a bound would excuse anything.
    if (
        not beyond.any()
        or format_.exponent_bits < 8
        or not (zeros or small)
        or not (distances.absolute <= study.bound + lost).all()
        or not np.isfinite(lost)
    ):
        return None
    evidence = (
        f"{int(beyond.sum()):,} outputs are farther from the truth than rounding can take them, but no farther than"
        f" losing numbers below {least:.3g} can; {zeros:,} are zero where the truth is not"
    )
    return _found("downgrade", "subnormals", _FLUSHES, evidence)


def explain_region(study: Study, suspects: LineUp) -> Explanation | None:
    """A part of the outputs that is beyond its bound while all others are as good as a plain sum's."""
    given, truth = study.result.astype(np.float64), study.truth.astype(np.float64)
    wrong = suspects.distances.over_bound > 1.0
    count = int(wrong.sum())
    if count == 0:
        return None
    if not given.any():
        evidence = f"{count:,} of {wrong.size:,} outputs are beyond their bound, and all are zero"
        return _found("wrong", None, "returns zeros only, as if nothing had been computed or written", evidence)
    where = describe_places(study.problem, wrong)
    values = given[wrong]
    what = "zeros" if (values == 0).mean() > _LEAST_FILLED else "other values"
    evidence = f"{count:,} of {wrong.size:,} outputs are beyond their bound, {where}; all others are within theirs"
    impossible = np.abs(values) > 4 * study.magnitudes[wrong] + 1e-300
    sample, first = study.choose_sample(), int(np.flatnonzero(wrong)[0])
    tail = np.arange(wrong.size).reshape(wrong.shape) >= first
    if not _is_far_off(given[wrong], truth[wrong]):
        return None
    healthy_before = first >= max(_FEWEST_BEFORE, _LEAST_BEFORE * wrong.size)
    if healthy_before and count >= _LEAST_FILLED * tail.sum() and not _is_whole_part(study, first):
        if not suspects.is_as_close_as_a_plain_sum(sample, tail, times=_HEALTHY_TIMES):
            return None
        says = f"returns {what} from output {first:,} of {wrong.size:,} on"
        return _found("wrong", "index-overflow", says, evidence)
    box = _find_box(wrong)
    if (
        box.all()
        or box.sum() * _LEAST_FILLED > count
        or not suspects.is_as_close_as_a_plain_sum(sample, box, times=_HEALTHY_TIMES)
    ):
        return None
    if not np.isfinite(values).all() or impossible.mean() > 0.5:
        says = "returns memory that was never written: values that no sum of these products can have"
        return _found("wrong", "uninitialized-memory", says, evidence)
    batch = np.flatnonzero(wrong.any(axis=tuple(range(1, wrong.ndim))))
    whole_items = box.all(axis=tuple(range(1, wrong.ndim))).sum() == len(batch)
    others = study.problem.direction != "grad_weight" and list(batch) == list(range(1, len(wrong)))
    if whole_items and others and len(batch) > 1:
        says = f"computes batch item 0 right and returns {what} for all others"
        return _found("wrong", "strided-view", says, evidence)
    return _found("wrong", "shape-specific-kernel", f"returns {what} for a part of the result", evidence)


def _is_far_off(given: Floats, truth: Floats) -> bool:
    """Whether values are off by a good part of their own size, as less precision never is."""
    if not np.isfinite(given).all():
        return True
    return bool(np.linalg.norm(given - truth) > _SMALL_LOSS * np.linalg.norm(truth))


def explain_noise(study: Study, suspects: LineUp) -> Explanation | None:
    """Small errors all over the result, beyond what any order in the declared formats gives: by elimination, the sums
    are kept in less.
    """
    given, truth = study.result.astype(np.float64), study.truth.astype(np.float64)
    finite = np.isfinite(given) & np.isfinite(truth)
    beyond = suspects.distances.over_bound > 1.0
    size = float(np.linalg.norm(truth[finite]))
    if not finite.all() or not beyond.any() or size == 0:
        return None
    lost = float(np.linalg.norm((given - truth)[finite])) / size
    single = (suspects.distances.absolute > _SMALL_LOSS * study.magnitudes).any()
    if lost > _SMALL_LOSS or single or suspects.share_worse_than_plain(study.choose_sample()) < _LEAST_NOISY:
        return None
    bias = float(np.mean(np.sign(given - truth) * np.sign(truth)))
    says = "keeps its sums in less than the declared formats, in a way that no suspect reproduces"
    evidence = (
        f"{int(beyond.sum()):,} of {beyond.size:,} outputs are beyond the bound of any order of addition, by a relative"
        f" {lost:.2g} in all; another function would be farther off, rounded operands were tried"
        f" ({'results are too small' if bias < 0 else 'results are too large'} in {(1 + abs(bias)) / 2:.0%} of outputs)"
    )
    return Explanation(
        "downgrade", "low-precision-accumulator", says, "statistics", evidence=[Evidence("statistic", evidence)]
    )


def _is_whole_part(study: Study, first: int) -> bool:
    """Whether a flat index begins a channel, an item or a row: a part that a kernel handles by itself."""
    shape = study.problem.out_shape
    return any(first % math.prod(shape[i:]) == 0 for i in range(1, len(shape)) if math.prod(shape[i:]) > 1)


def _find_box(wrong: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """All outputs whose index along every axis is that of some wrong one."""
    box = np.ones_like(wrong)
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        box &= wrong.any(axis=others, keepdims=True)
    return box


def _found(verdict: Verdict, cause: str | None, says: str, evidence: str) -> Explanation:
    return Explanation(verdict, cause, says, "bounds", evidence=[Evidence("structure", evidence)])
