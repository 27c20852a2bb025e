"""Results that are NaN, infinite or saturated where the truth is otherwise, recognised by these values alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.measuring import mark_left_of_overflow
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.acceptance import bound_prediction
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.mechanisms.facts.wrong_regions import find_box
from samebits.numbers.format import find_format
from samebits.sums.bounds import accumulator_format

# Powers of two that sums in float16 may have been multiplied by.
_MOST_SHIFTED = 12


@dataclass(frozen=True)
class _Odd:
    """The outputs (`marked`) whose kind of value is not the truth's, and whether all others are within their bound."""

    observation: Observation
    given: Floats
    truth: Floats
    marked: npt.NDArray[np.bool_]
    others_fine: bool
    any_others: bool

    @property
    def values(self) -> Floats:
        return self.given[self.marked]

    @property
    def truths(self) -> Floats:
        return self.truth[self.marked]

    @property
    def counted(self) -> str:
        """How many, and where, in words."""
        return f"{int(self.marked.sum()):,} outputs, {describe_places(self.observation.problem, self.marked)}"


def explain_odd_values(observation: Observation) -> Mechanism | None:
    """The mechanism of NaN, infinities and saturated values in place of the true ones; None where there are none."""
    odd = _find_odd(observation)
    if odd is None:
        return None
    return _explain_lost_nan(odd) or _explain_saturation(odd) or _explain_nonfinite(odd)


def _find_odd(observation: Observation) -> _Odd | None:
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    over = observation.distances.over_bound
    odd = np.isfinite(given) != np.isfinite(truth)
    both = ~np.isfinite(given) & ~np.isfinite(truth)
    odd |= both & (np.isnan(given) != np.isnan(truth)) | (both & ~np.isnan(given) & (given != truth))
    # Next to the largest number either side may overflow; a sum well beyond it is infinite.
    possible = mark_left_of_overflow(observation.problem, observation.result, observation.truth, observation.magnitudes)
    odd &= (over > 1.0) | possible | (np.isinf(truth) & _mark_overflowing(observation))
    if not odd.any():
        return None
    others = ~odd & ~both
    return _Odd(observation, given, truth, odd, bool((over[others] <= 1.0).all()), bool(others.any()))


def _mark_overflowing(observation: Observation) -> npt.NDArray[np.bool_]:
    """Where the exact sum, less the error of adding, is beyond the largest number of the result's format."""
    problem, format_ = observation.problem, find_format(observation.problem.out)
    exact = observation.bare_sums()
    if problem.bias:
        exact = exact + observation.operands["bias"].astype(np.float64).reshape(problem.bias_shape)
    with np.errstate(all="ignore"):
        unit = float(accumulator_format(problem).unit_roundoff)
        error = (problem.reduction_length + 2) * unit * observation.magnitudes
        return np.abs(exact) - error > float(format_.largest) * (1 + float(format_.unit_roundoff))


def _explain_lost_nan(odd: _Odd) -> Mechanism | None:
    """Numbers where the declared result is NaN."""
    finite = np.isfinite(odd.values)
    if not (odd.others_fine and np.isnan(odd.truths).all() and finite.any()) or np.isnan(odd.values).any():
        return None
    if odd.observation.problem.then is not None and finite.all() and len(np.unique(odd.values)) <= 2:
        values = " or ".join(f"{v:g}" for v in np.unique(odd.values))
        says = f"turns NaN into {values}: its clip or relu returns the operand that is a number"
        return _found("wrong", CauseCode.NAN_SEMANTICS, says, f"{odd.counted}; all others are within their bound")
    if all(np.isfinite(a.astype(np.float64)).all() for a in odd.observation.operands.values()):
        return None
    if _skips_nonfinite(odd):
        says = "leaves out products of NaN or infinities, as where zeros among the other operand are skipped"
        return _found("wrong", CauseCode.NAN_SEMANTICS, says, f"{odd.counted}; all others are within their bound")
    if not finite.all():
        return None
    says = "loses NaN: returns numbers where the declared sum of these operands is NaN"
    return _found("wrong", None, says, odd.counted)


def _skips_nonfinite(odd: _Odd) -> bool:
    """Whether the numbers in place of NaN are the sums of the products that are finite."""
    observation = odd.observation
    finite = {n: np.where(np.isfinite(a), a, np.zeros_like(a)) for n, a in observation.operands.items()}
    whole = observation.whole()
    predicted = observation.sum_instead(finite, whole)
    away = np.abs(whole.pick(odd.given) - predicted)
    marked = whole.pick(odd.marked & np.isfinite(odd.given))
    return bool((away <= bound_prediction(observation, whole, predicted, 0.0))[marked].all())


def _explain_saturation(odd: _Odd) -> Mechanism | None:
    """The largest number where the declared result is infinite."""
    largest = float(find_format(odd.observation.problem.out).largest)
    saturated = np.isinf(odd.truths).all() and (odd.values == np.copysign(largest, odd.truths)).all()
    if not saturated or not odd.others_fine:
        return None
    says = f"saturates at {largest:g} where the result is infinite"
    return _found("downgrade", CauseCode.OVERFLOW, says, f"{odd.counted}; all others are within their bound")


def _explain_nonfinite(odd: _Odd) -> Mechanism | None:
    """Infinities and NaN where the truth is finite: overflow if the sums can reach so far, else garbage."""
    observation = odd.observation
    if not np.isfinite(odd.truths).all() and not _can_all_overflow(odd):
        return None
    if _can_all_overflow(odd):
        says = "adds in an order whose partial sums leave the range of the declared formats"
        return _found(
            "rounding", CauseCode.OVERFLOW, says, f"NaN or infinite: {odd.counted}; another order may be finite"
        )
    right_elsewhere = odd.others_fine and odd.any_others
    if _can_be_half_overflow(odd, right_elsewhere):
        reached = observation.magnitudes[odd.marked]
        others = observation.magnitudes[~odd.marked & np.isfinite(observation.magnitudes)]
        says = "lets intermediate sums overflow float16's range (65,504)"
        evidence = (
            f"NaN or infinite: {odd.counted}; the magnitudes they add reach {reached.max():.3g}, those of the others"
            f" {others.max(initial=0):.3g}"
        )
        return _found("downgrade", CauseCode.OVERFLOW, says, evidence)
    if right_elsewhere:
        says = "returns NaN or infinities as of memory that was never written, or lets NaN leak in from it"
        evidence = f"NaN or infinite: {odd.counted}; all others are within their bound"
        return _found("wrong", CauseCode.UNINITIALIZED_MEMORY, says, evidence)
    return None


def _can_all_overflow(odd: _Odd) -> bool:
    """Whether partial sums could leave the declared range at every marked output, and all others are fine."""
    observed = odd.observation
    possible = mark_left_of_overflow(observed.problem, observed.result, observed.truth, observed.magnitudes)
    return bool(possible[odd.marked].all()) and not np.isfinite(odd.values).any() and odd.others_fine


def _can_be_half_overflow(odd: _Odd, right_elsewhere: bool) -> bool:
    """Whether float16 sums could have overflowed at all marked outputs, and these do not just fill a box."""
    half = float(find_format("float16").largest)
    if right_elsewhere and _are_those_beyond(odd, half):
        return True
    finite = odd.given[np.isfinite(odd.given)]
    in_half = bool((odd.observation.magnitudes[odd.marked] > half).all()) and np.abs(finite).max(initial=0.0) <= half
    # A part that is right but for a tail was not computed in float16.
    count, size = int(odd.marked.sum()), odd.marked.size
    filled = count >= thresholds.LEAST_FILLED * find_box(odd.marked).sum()
    part = right_elsewhere and 1 < count < thresholds.MOST_OF_ALL * size and filled
    return in_half and not part


def _are_those_beyond(odd: _Odd, most: float) -> bool:
    """Whether infinities of the right sign stand where the result is larger than a number, and nowhere else.

    The number is float16's largest, or that divided by a power of two by which sums were multiplied on the way.
    """
    infinite = bool((odd.values == np.copysign(np.inf, odd.truths)).all())
    if not infinite or int(odd.marked.sum()) < thresholds.FEWEST_TELLING or odd.marked.all():
        return False
    low, high = float(np.abs(odd.truth[~odd.marked]).max()), float(np.abs(odd.truths).min())
    near = 2 * float(find_format("float16").unit_roundoff)
    limits = (most / 2.0**n for n in range(_MOST_SHIFTED + 1))
    return low <= high and any(low <= limit * (1 + near) and high >= limit * (1 - near) for limit in limits)


def _found(verdict: Verdict, cause: CauseCode | None, says: str, evidence: str) -> Mechanism:
    return Mechanism(cause, verdict, says, "bound", evidence=(Evidence("structure", evidence),))


_SAYS = "takes subnormal numbers for zero"
# Narrower exponent ranges have smallest normal numbers that are no small thing: such a bound would excuse anything.
_LEAST_EXPONENT_BITS = 8


def explain_lost_subnormals(observation: Observation) -> Mechanism | None:
    """Zeros in place of subnormal results, and nothing else beyond its bound."""
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    least = 2.0 ** find_format(observation.problem.out).smallest_normal_exponent
    beyond = observation.distances.over_bound > 1.0
    lost = (given == 0) & (truth != 0) & (np.abs(truth) < least)
    if not beyond.any() or (beyond & ~lost).any():
        return None
    return _found_small(
        f"{int(lost.sum()):,} outputs are zero, the truth is below {least:.3g}; others are within their bound"
    )


def explain_flush(observation: Observation) -> Mechanism | None:
    """Losses that taking subnormal operands, products or sums for zero can cause, where nothing else explains them."""
    problem, format_ = observation.problem, find_format(observation.problem.out)
    if format_.exponent_bits < _LEAST_EXPONENT_BITS:
        return None
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    least = 2.0**format_.smallest_normal_exponent
    largest = [float(np.abs(a.astype(np.float64)).max()) for n, a in observation.operands.items() if n != "bias"]
    with np.errstate(all="ignore"):
        # Every product and sum loses less than the smallest normal number, an operand that times the other operand.
        lost = least * (2 * problem.reduction_length + 2 + problem.reduction_length * sum(largest))
    beyond = observation.distances.over_bound > 1.0
    zeros = int(((given == 0) & (truth != 0)).sum())
    operands = observation.operands.values()
    small = any(((a != 0) & (np.abs(a.astype(np.float64)) < least)).any() for a in operands)
    explained = np.isfinite(lost) and bool((observation.distances.absolute <= observation.bound + lost).all())
    if not beyond.any() or not (zeros or small) or not explained:
        return None
    return _found_small(
        f"{int(beyond.sum()):,} outputs are farther from the truth than rounding can take them, but no farther than"
        f" losing numbers below {least:.3g} can; {zeros:,} are zero where the truth is not"
    )


def _found_small(evidence: str) -> Mechanism:
    return Mechanism(CauseCode.SUBNORMALS, "downgrade", _SAYS, "bound", evidence=(Evidence("structure", evidence),))
