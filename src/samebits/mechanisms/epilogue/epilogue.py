"""Hypotheses that sum right and finish otherwise: bias, epilogue, a per-channel factor and shift."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import list_in_words
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.problems.problem import Epilogue
from samebits.problems.windows import name_axes

# In shares of the largest bias: the error of rounding it to 5 bits, or to an 8-bit step that a sum's scale gives.
_COARSEST_BIAS = 2.0**-5
# Standard deviations of a count of signs; chance exceeds them once in 160 results.
_SIGMAS_OF_SIGNS = 2.5
# What networks clip to.
_USUAL_CLIPS = ((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (0.0, math.inf))


def list_epilogue_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """What is known to go wrong after the sums."""
    if problem.direction != "forward":
        return
    if problem.bias:
        yield _bias(CauseCode.DROPPED_ATTRIBUTE, "leaves the bias out", lambda b: np.zeros_like(b))
        yield _bias(CauseCode.FUSION, "adds the bias twice", lambda b: b + b)
        yield _bias(CauseCode.FUSION, "subtracts the bias", lambda b: -b)
        if problem.c_out > 1:
            yield _bias(CauseCode.STRIDED_VIEW, "adds the first bias to all channels", lambda b: np.full_like(b, b[0]))
            for by in (1, -1):
                yield _bias(
                    CauseCode.AXIS_ORDER,
                    f"adds the bias of the channel {by:+d} away",
                    lambda b, by=by: np.roll(b, -by),
                )
        yield from _list_bias_places(problem)
        if problem.then:
            yield _then(CauseCode.FUSION, "adds the bias after the epilogue", lambda o, s: _late_bias(o, s))
    yield from _list_other_epilogues(problem.then)


def _list_other_epilogues(then: Epilogue | None) -> Iterator[Hypothesis]:
    """The epilogue left out, with one bound of its own or other bounds; or one that nobody asked for."""
    if then is not None:
        yield _then(CauseCode.FUSION, f"leaves out the {then.name}", lambda o, s: o.sum_with_bias(s))
        if then.name == "clip" and np.isfinite(then.low):
            yield _then(
                CauseCode.FUSION,
                "loses the clip's upper bound",
                lambda o, s: np.maximum(o.sum_with_bias(s), then.low),
            )
        if then.name == "clip" and np.isfinite(then.high):
            yield _then(
                CauseCode.FUSION,
                "loses the clip's lower bound",
                lambda o, s: np.minimum(o.sum_with_bias(s), then.high),
            )
        if then.name == "clip":
            yield from _list_other_clips(then)
        if then.name == "relu":
            yield _then(CauseCode.FUSION, "clips at 6 as well (relu6)", lambda o, s: np.clip(o.sum_with_bias(s), 0, 6))
    else:
        yield _then(
            CauseCode.FUSION,
            "applies a relu that was not asked for",
            lambda o, s: np.maximum(o.sum_with_bias(s), 0),
        )
        yield _then(CauseCode.FUSION, "clips to 0 ... 6 unasked", lambda o, s: np.clip(o.sum_with_bias(s), 0, 6))


def _list_other_clips(then: Epilogue) -> Iterator[Hypothesis]:
    """The bounds that are usual elsewhere, or the declared ones mirrored, in place of the declared."""
    own = (then.low, then.high)
    known = {own, (then.low, math.inf), (-math.inf, then.high), (-math.inf, math.inf)}
    for low, high in dict.fromkeys([*_USUAL_CLIPS, (-then.high, then.high), (0.0, then.high)]):
        if low < high and (low, high) not in known:
            says = f"clips to {low:g} ... {high:g} in place of {then.low:g} ... {then.high:g}"
            yield _then(CauseCode.FUSION, says, lambda o, s, a=low, b=high: np.clip(o.sum_with_bias(s), a, b))


def list_saturation_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Results of a wider format clipped at the largest number of float16."""
    if find_format(problem.out).largest > find_format("float16").largest:
        says = "clips its results at the largest number of float16"
        yield Hypothesis(CauseCode.OVERFLOW, "downgrade", says, _saturate_in_float16)


def _saturate_in_float16(observation: Observation, sample: Sample) -> Floats:
    """Results as float16 holds them where it has no infinity, not rounded."""
    largest = float(find_format("float16").largest)
    return np.clip(observation.apply_epilogue(observation.sum_with_bias(sample)), -largest, largest)


def _list_bias_places(problem: Problem) -> Iterator[Hypothesis]:
    """The bias along another axis of as many places, or of an output whose channels stand last in memory."""
    shape, count = problem.out_shape, problem.c_out
    if problem.stated is not None or count < 2:
        return
    names = name_axes(problem)
    for axis in (a for a in range(len(shape)) if a != 1 and shape[a] == count):
        at = np.arange(count).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        yield _bias_at(problem, f"adds the bias along {names[axis]} and not along the channels", at)
    at = np.arange(math.prod(shape)).reshape(shape) % count
    yield _bias_at(problem, "adds the bias as if channels stood last in memory", at)


def _bias_at(problem: Problem, says: str, at: npt.NDArray[np.intp]) -> Hypothesis:
    """Adds to every output the bias of another channel, whose index `at` gives."""

    def predict(observation: Observation, sample: Sample) -> Floats:
        bias = observation.operands["bias"].astype(np.float64)
        added = sample.pick(np.broadcast_to(bias[at], observation.problem.out_shape))
        return observation.finish(_bare(observation, sample) + added, sample, np.zeros_like(bias))

    # Another kernel may add it, to what is stored.
    unit = float(find_format(problem.out).unit_roundoff)
    return Hypothesis(CauseCode.FUSION, "wrong", says, predict, unit=unit)


def list_rounded_bias(problem: Problem) -> Iterator[Hypothesis]:
    """A bias a little off the one on record: as 8 bits store it, else as one that was rounded to some grid."""
    if problem.direction == "forward" and problem.bias:
        yield Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", "adds the bias as stored in 8 bits with one step",
                         _add_bias_in_steps)  # fmt: skip
        says = "adds a bias that is off by less than its rounding to few digits may make it"
        yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, _fit_bias, fitted=True,
                         say_fit=_say_bias)  # fmt: skip


def list_fitted_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Hypotheses with fitted numbers, which come last: limits, a shift for every channel, a factor and a shift."""
    if problem.direction == "forward" and problem.then is None:
        yield Hypothesis(CauseCode.FUSION, "wrong", "limits its results", _limit, fitted=True, say_fit=_say_limits)
    if problem.direction == "forward":
        unit = float(find_format(problem.out).unit_roundoff)
        if not problem.bias:
            says = "adds a number of its own to each channel, as a bias would that the problem does not name"
            yield Hypothesis(CauseCode.FUSION, "wrong", says, _fit_shifts, unit=2 * unit, fitted=True)
        says = "scales and shifts channels by numbers of their own (a normalisation folded wrongly)"
        yield Hypothesis(CauseCode.FUSION, "wrong", says, _fit_channels, unit=2 * unit, fitted=True)


def _bare(observation: Observation, sample: Sample) -> Floats:
    return sample.pick(observation.bare_sums())


def _late_bias(observation: Observation, sample: Sample) -> Floats:
    return (
        observation.apply_epilogue(_bare(observation, sample))
        + observation.operands["bias"].astype(np.float64)[sample.rows][:, None]
    )


def _find_limits(observation: Observation) -> tuple[float, float]:
    """The least and the largest value where several outputs have them; infinite where one alone has."""
    given = observation.result.astype(np.float64)
    given = given[np.isfinite(given)]
    if not given.size:
        return -math.inf, math.inf
    low, high = float(given.min()), float(given.max())
    # Sums of their own do not meet in the very largest number.
    shared = [np.count_nonzero(given == limit) > 1 for limit in (low, high)]
    return low if shared[0] else -math.inf, high if shared[1] else math.inf


def _limit(observation: Observation, sample: Sample) -> Floats:
    return np.clip(observation.sum_with_bias(sample), *_find_limits(observation))


def _say_limits(observation: Observation, _: Sample) -> str:
    low, high = _find_limits(observation)
    ends = [
        f"at {low:g} from below" if math.isfinite(low) else "",
        f"at {high:g} from above" if math.isfinite(high) else "",
    ]
    return f" {' and '.join(filter(None, ends))}, unasked"


def _then(cause: CauseCode, says: str, values: Callable[[Observation, Sample], Floats]) -> Hypothesis:
    return Hypothesis(cause, "wrong", says, values)


def _bias(cause: CauseCode, says: str, change: Callable[[np.ndarray], np.ndarray]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.finish(
            _bare(observation, sample), sample, change(observation.operands["bias"].astype(np.float64))
        )

    def alter(observation: Observation) -> tuple[Problem, dict[str, np.ndarray]]:
        bias = observation.operands["bias"]
        return observation.problem, {**observation.operands, "bias": change(bias).astype(bias.dtype)}

    return Hypothesis(cause, "wrong", says, predict, alter)


def _fit_shifts(observation: Observation, sample: Sample) -> Floats | None:
    """T + b for each channel, as `_fit_channels`."""
    return _fit_channels(observation, sample, _solve_shift)


def _solve_shift(sums: Floats, given: Floats) -> tuple[float, float]:
    """A factor of 1, and the shift that brings sums nearest to the given results."""
    return 1.0, float((given - sums).mean())


def _solve_channel(sums: Floats, given: Floats) -> tuple[float, float]:
    """The factor and the shift that bring sums nearest to the given results."""
    # Columns of one size, or the solver would drop the smaller.
    size = float(np.abs(sums).max()) or 1.0
    factor, shift = np.linalg.lstsq(np.stack([sums, np.full(len(sums), size)], axis=1), given, rcond=None)[0]
    return float(factor), float(shift) * size


def _fit_channels(
    observation: Observation, sample: Sample, solve: Callable[[Floats, Floats], tuple[float, float]] = _solve_channel
) -> Floats | None:
    """a T + b for each channel, fitted to the result; None where with so few values a fit would be no surprise.

    Channels with hardly any unclipped value are left as they are.
    """
    sums = observation.sum_with_bias(sample)
    given = sample.pick(observation.result).astype(np.float64)
    usable = mark_unclipped(observation.problem, given) & np.isfinite(sums)
    # The channels of some products are positions.
    turned = observation.problem.stated is not None and observation.terms.rows_operand == "x"
    if turned:
        sums, given, usable = sums.T, given.T, usable.T
    fitted, rows = given.copy(), np.flatnonzero(usable.sum(axis=1) >= thresholds.FEWEST_PER_CHANNEL)
    for r in rows:
        factor, shift = solve(sums[r][usable[r]], given[r][usable[r]])
        if factor == 0 or np.ptp(given[r][usable[r]]) == 0:
            return None
        fitted[r] = factor * sums[r] + shift
    if len(rows) < len(sums) / 2:
        return None
    return observation.apply_epilogue(fitted.T if turned else fitted)


def _add_bias_in_steps(observation: Observation, sample: Sample) -> Floats:
    own = observation.operands["bias"].astype(np.float64)
    step = float(np.abs(own).max()) / 127 or 1.0
    return observation.finish(_bare(observation, sample), sample, np.rint(own / step) * step)


def _fit_bias(observation: Observation, sample: Sample) -> Floats | None:
    """The result with a fitted bias a little off the recorded one; None where it is far off, or cannot be found."""
    off = _find_bias_errors(observation, sample)
    if off is None:
        return None
    own = observation.operands["bias"].astype(np.float64)
    if np.abs(off).max() > _COARSEST_BIAS * np.abs(own).max() or not off.any():
        return None
    sums = observation.sum_with_bias(sample)
    if (
        observation.distances.within_bound
        and _most_lose(off, sums.mean(axis=1))
        and not _most_lose(off, own[sample.rows])
    ):
        return None  # Truncated sums look like this.
    return observation.apply_epilogue(sums + off[:, None])


def _most_lose(off: Floats, of: Floats) -> bool:
    """Whether what is off takes away from something, in more rows than chance would have it."""
    told = off * of != 0
    count, lost = int(told.sum()), int((off[told] * of[told] < 0).sum())
    return lost > count / 2 + _SIGMAS_OF_SIGNS * math.sqrt(count) / 2


def _find_bias_errors(observation: Observation, sample: Sample) -> Floats | None:
    """The error of each row's bias in a sample; 0 in rows with too few usable outputs, None where most have too few."""
    sums = observation.sum_with_bias(sample)
    given = sample.pick(observation.result).astype(np.float64)
    usable = mark_unclipped(observation.problem, given) & np.isfinite(sums) & np.isfinite(given)
    told = usable.sum(axis=1) >= thresholds.FEWEST_PER_CHANNEL
    if told.mean() < 1 / 2:
        return None
    away = np.where(usable, given - sums, 0.0)
    return np.where(told, away.sum(axis=1) / np.maximum(usable.sum(axis=1), 1), 0.0)


def _say_bias(observation: Observation, sample: Sample) -> str:
    off = _find_bias_errors(observation, sample)
    return "" if off is None else f" (by up to {np.abs(off).max():.3g})"


def say_scaled_channels(observation: Observation, rows: npt.NDArray[np.intp]) -> str | None:
    """What is done to some output channels of a forward convolution, where each is multiplied and shifted.

    A factor or a shift that changes no output by more than twice its bound is none. None where there is neither, and
    where a channel has too few outputs that no clip hides.
    """
    sample = Sample(observation.terms, rows, observation.whole().positions)
    sums, bounds = observation.sum_with_bias(sample), sample.pick(observation.bound)
    given = sample.pick(observation.result).astype(np.float64)
    usable = mark_unclipped(observation.problem, given) & np.isfinite(sums)
    if usable.sum(axis=1).min() < thresholds.FEWEST_PER_CHANNEL:
        return None
    solved = [_solve_channel(a[u], b[u]) for a, b, u in zip(sums, given, usable, strict=True)]
    limits = [2 * float(bound[u].max()) for bound, u in zip(bounds, usable, strict=True)]
    sizes = [float(np.abs(a[u]).max()) for a, u in zip(sums, usable, strict=True)]
    is_scaled = [abs(factor - 1) * z > limit for (factor, _), z, limit in zip(solved, sizes, limits, strict=True)]
    is_shifted = [abs(shift) > limit for (_, shift), limit in zip(solved, limits, strict=True)]
    if not any(is_scaled) and not any(is_shifted):
        return None
    which = f"channel{'s' if len(rows) > 1 else ''} {list_in_words(rows)}"
    if len(set(zip(is_scaled, is_shifted, strict=True))) > 1:
        return f"scales and shifts {which} by numbers of their own"
    factors, shifts = (_say_numbers([pair[i] for pair in solved]) for i in (0, 1))
    again = "it" if len(rows) == 1 else "them"
    if is_scaled[0] and is_shifted[0]:
        return f"multiplies {which} by {factors} and adds {shifts} to {again}"
    return f"multiplies {which} by {factors}" if is_scaled[0] else f"adds {shifts} to {which}"


def _say_numbers(numbers: list[float]) -> str:
    low, high = f"{min(numbers):.7g}", f"{max(numbers):.7g}"
    return low if low == high else f"numbers of their own ({low} to {high})"
