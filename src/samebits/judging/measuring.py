"""Distances of a result from the truth, element by element, and from another result."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Difference, Error, ExactData, WorstElement
from samebits.findings.words.place_words import describe_places
from samebits.numbers import count_ulps, find_format
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention
from samebits.problems.lowering import state_index
from samebits.problems.problem import Epilogue
from samebits.problems.windows import locate_keys, locate_row, locate_window
from samebits.sums.bounds import accumulator_format
from samebits.sums.truth.convolution import round_to_nearest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distances:
    """Per element: absolute distance from the truth, in representable numbers, and as a share of the bound.

    `unbounded` marks outputs for which no finite bound exists.
    """

    absolute: Floats
    ulp: Floats
    over_bound: Floats
    unbounded: npt.NDArray[np.bool_] | None = None

    @property
    def within_bound(self) -> bool:
        """Whether no output is beyond its bound."""
        return bool((self.over_bound <= 1.0).all())

    @property
    def is_beyond(self) -> bool:
        """Whether some output is beyond a bound that is finite."""
        beyond = self.over_bound > 1.0
        return bool((beyond if self.unbounded is None else beyond & ~self.unbounded).any())

    def mark_beyond(self, bound: Floats) -> npt.NDArray[np.bool_]:
        """Finite errors beyond another bound; infinite ones may be overflow and are left out."""
        return np.isfinite(self.absolute) & (self.absolute > bound)


def measure_distances(
    problem: AnyProblem, result: np.ndarray, truth: np.ndarray, bound: Floats, magnitudes: Floats
) -> Distances:
    """Distances of `result` from `truth`; equal infinities and NaN against NaN are 0, other non-finite ones infinite.

    Where no finite bound exists anything but the true value is infinitely beyond it. Where the bound reaches past the
    largest number, overflow on one side only is just within it, and so is what is left of partial sums that overflow
    (`magnitudes` are the sums of magnitudes, which no partial sum exceeds).
    """
    absolute = measure_absolute(result, truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(absolute == 0, 0.0, absolute / bound)
    over[(absolute > 0) & ~np.isfinite(bound)] = np.inf
    if isinstance(problem, Problem):
        # Of formulas the values on the way are looked at, and a mean of finite values is finite.
        over[_mark_overflow(problem, result, truth, bound)] = 1.0
        over[(absolute > 0) & mark_left_of_overflow(problem, result, truth, magnitudes)] = 1.0
    return Distances(absolute, count_ulps(result, truth, find_format(problem.out)), over, ~np.isfinite(bound))


def _mark_overflow(problem: Problem, result: np.ndarray, truth: np.ndarray, bound: Floats) -> npt.NDArray[np.bool_]:
    """True where just one of the two is finite, and is so large that its bound allows for the other's overflow."""
    format_ = find_format(problem.out)
    largest = float(format_.largest)
    a, b = result.astype(np.float64), truth.astype(np.float64)
    finite = np.where(np.isfinite(a), a, b)
    other = np.where(np.isfinite(a), b, a)
    overflowed = (
        np.isinf(other) & (np.signbit(other) == np.signbit(finite)) if format_.has_infinity else np.isnan(other)
    )
    reaches = np.abs(finite) + np.where(np.isfinite(bound), bound, 0.0) >= largest
    return (np.isfinite(a) != np.isfinite(b)) & overflowed & reaches


def mark_left_of_overflow(
    problem: Problem, result: np.ndarray, truth: np.ndarray, magnitudes: Floats
) -> npt.NDArray[np.bool_]:
    """True where partial sums could leave the range of the declared formats and become what the result holds there.

    The positive terms of a sum s with magnitudes S add up to (S + s) / 2, the negative ones to (S - s) / 2, and each
    partial sum lies between: it is beyond neither times 1 + n u, as each of its roundings adds at most u times the
    magnitudes in it (Jeannerod and Rump 2013, as in `bounds`). An infinity needs terms of its sign that reach so far,
    NaN needs both, and where a bound of the epilogue is what is left, either. A result of another format than the
    accumulator's is rounded before a bias is added.
    """
    accumulator, format_ = accumulator_format(problem), find_format(problem.out)
    largest = float(min(accumulator.largest, format_.largest) if problem.bias else accumulator.largest)
    share = 1 + (problem.reduction_length + 2) * float(accumulator.unit_roundoff)
    least, most = _enclose_sums(problem, truth, magnitudes)
    with np.errstate(over="ignore", invalid="ignore"):
        up = ~((magnitudes / 2 + most / 2) * share < largest)
        down = ~((magnitudes / 2 - least / 2) * share < largest)
    values = result.astype(np.float64)
    # Without infinities a format says NaN for them.
    both = up & down if format_.has_infinity else up | down
    left = (np.isposinf(values) & up) | (np.isneginf(values) & down) | (np.isnan(values) & both)
    if problem.then is not None:
        for limit in (problem.then.low, problem.then.high):
            left |= (values == round_to_nearest(limit, problem.out).astype(np.float64)) & (up | down)
    return left


def _enclose_sums(problem: Problem, truth: np.ndarray, magnitudes: Floats) -> tuple[Floats, Floats]:
    """The least and the largest exact sums that the truth allows; a clipped truth, or NaN, limits nothing.

    An infinite truth is a sum beyond the largest number; where an infinite operand made it nothing is to be excused.
    """
    values, format_ = truth.astype(np.float64), find_format(problem.out)
    tells = ~np.isnan(values) & (problem.then is None)
    largest = float(format_.largest)
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.clip(values, -largest, largest)
        error = 2 * float(format_.unit_roundoff) * np.abs(near) + float(format_.smallest_subnormal)
        least = np.where(tells & (values > -np.inf), np.maximum(near - error, -magnitudes), -magnitudes)
        most = np.where(tells & (values < np.inf), np.minimum(near + error, magnitudes), magnitudes)
    return least, most


def measure_likely(distances: Distances, likely: Floats | None) -> float | None:
    """The largest error as a share of the probabilistic bound; None without one, or where errors are not finite."""
    if likely is None or not np.isfinite(distances.absolute).all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(distances.absolute == 0, 0.0, distances.absolute / likely)
    return float(over.max())


def measure_norm(values: Floats) -> float:
    """The L2 norm, with the same bits on any number of threads: a BLAS would sum in another order on each."""
    # Scaled, so that squares of numbers near the largest do not overflow.
    scale = float(np.abs(values).max(initial=0.0))
    if not 0.0 < scale < math.inf:
        return scale
    return scale * math.sqrt(float(np.sum(np.square(values / scale))))


def summarize_error(distances: Distances, truth: np.ndarray, likely: Floats | None = None) -> Error:
    """The largest of each distance, and the relative L2 norm of the error over finite true values."""
    values = truth.astype(np.float64)
    finite = np.isfinite(values) & np.isfinite(distances.absolute)
    norm, wrong = measure_norm(values[finite]), measure_norm(distances.absolute[finite])
    rel_l2 = wrong / norm if norm else (0.0 if wrong == 0 else np.inf)
    return Error(
        max_abs=float(distances.absolute.max()),
        max_ulp=float(distances.ulp.max()),
        rel_l2=rel_l2 if finite.all() else np.inf,
        max_over_bound=float(distances.over_bound.max()),
        max_over_likely=measure_likely(distances, likely),
    )


def find_worst(problem: AnyProblem, result: np.ndarray, truth: np.ndarray, distances: Distances) -> WorstElement | None:
    """The element with the largest share of its bound (ties: the most ulp), or None where all are true."""
    if not distances.absolute.any():
        return None
    shares = distances.over_bound
    candidates = np.flatnonzero(shares.ravel() == shares.max())
    flat = int(candidates[distances.ulp.ravel()[candidates].argmax()])
    index = tuple(int(i) for i in np.unravel_index(flat, result.shape))
    own = _state_index(problem, index)
    if isinstance(problem, Problem):
        window = locate_window(problem.stated or problem, own)
    else:
        window = locate_keys(problem, own) if isinstance(problem, Attention) else locate_row(problem, own)
    return WorstElement(
        index=list(own),
        value=float(result[index]),
        truth=float(truth[index]),
        ulp=float(distances.ulp[index]),
        over_bound=float(shares[index]),
        window=window,
    )


def describe_exact(
    problem: AnyProblem, differing: npt.NDArray[np.bool_], result: np.ndarray, truth: np.ndarray
) -> ExactData:
    """What differs on exact integers: how many outputs, where, and the first of them."""
    places = np.argwhere(differing)
    first = tuple(int(i) for i in places[0]) if len(places) else None
    return ExactData(
        differing=len(places),
        elements=result.size,
        where=describe_places(problem, differing),
        first_index=list(_state_index(problem, first)) if first else None,
        first_value=float(result[first]) if first else None,
        first_truth=float(truth[first]) if first else None,
    )


def _state_index(problem: AnyProblem, index: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an output in what was stated."""
    return state_index(problem, index) if isinstance(problem, Problem) else index


def compare_results(problem: AnyProblem, a: tuple[str, np.ndarray], b: tuple[str, np.ndarray]) -> Difference:
    """How two named results differ; NaN agrees with NaN, and zeros of two signs are different bits 0 apart."""
    format_ = find_format(problem.out)
    return Difference(
        a=a[0],
        b=b[0],
        differing=int(mark_differing_bits(a[1], b[1]).sum()),
        max_abs=float(measure_absolute(a[1], b[1]).max()),
        max_ulp=float(count_ulps(a[1], b[1], format_).max()),
    )


def mark_outside(problem: Problem, result: np.ndarray) -> npt.NDArray[np.bool_]:
    """True where a result lies outside of what its epilogue can return; NaN never does."""
    if problem.then is None:
        return np.zeros(result.shape, bool)
    values, (low, high) = result.astype(np.float64), _round_clip(problem, problem.then)
    return (values < low) | (values > high)


def _round_clip(problem: Problem, then: Epilogue) -> tuple[float, float]:
    """A clip's bounds as a result has them."""
    return float(round_to_nearest(then.low, problem.out)), float(round_to_nearest(then.high, problem.out))


def mark_unclipped(problem: Problem, values: np.ndarray) -> npt.NDArray[np.bool_]:
    """True where a value of a result is finite and no clip can have made it, so that it shows the sum behind it."""
    wide = values.astype(np.float64)
    if problem.then is None:
        return np.isfinite(wide)
    low, high = _round_clip(problem, problem.then)
    return np.isfinite(wide) & (wide > low) & (wide < high)


def measure_absolute(a: np.ndarray, b: np.ndarray) -> Floats:
    """|a - b|; 0 where both are the same infinity or NaN, infinite where only one is a number."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(first - second)
    if np.isfinite(distance).all():
        return np.asarray(distance)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    # Of arrays without axes arithmetic makes plain numbers.
    return np.asarray(np.nan_to_num(np.where(same, 0.0, distance), nan=np.inf, posinf=np.inf))


def has_narrow_operands(problem: Problem) -> bool:
    """Whether a transform of these operands may multiply numbers of 16 bits and keep what is declared."""
    return find_format(problem.dtype).precision <= find_format("float16").precision


def estimate_transform_noise(problem: Problem, magnitudes: Floats, *, in_halves: bool = False) -> Floats:
    """How far a transform's rounding may take any output, from the largest sum of magnitudes in its row.

    A transform's error follows the largest values of a plane and not the terms of the output itself, so that outputs
    whose products are all zero get some too. An estimate (`thresholds.TRANSFORM_NOISE`): it only withholds `wrong`.
    With `in_halves` the transform multiplies numbers of 16 bits (`thresholds.HALF_TRANSFORM_NOISE`).
    """
    share = thresholds.TRANSFORM_NOISE * float(accumulator_format(problem).unit_roundoff)
    if in_halves:
        share = max(share, thresholds.HALF_TRANSFORM_NOISE)
    rows = 0 if problem.direction == "grad_weight" else 1
    others = tuple(i for i in range(magnitudes.ndim) if i != rows)
    finite = np.where(np.isfinite(magnitudes), magnitudes, 0.0)
    return np.broadcast_to(share * finite.max(axis=others, keepdims=True), magnitudes.shape)


def find_factor(own: Floats, other: Floats) -> float | None:
    """The number, other than 1, by which all of one are the other's, to within what float32 rounds; None for none.

    Numbers that are zero or not finite on both sides do not count; fewer than the threshold of others tell nothing.
    """
    told = np.isfinite(own) & np.isfinite(other)
    if not np.array_equal(own[told] == 0, other[told] == 0):
        return None
    told &= own != 0
    if told.sum() < thresholds.FEWEST_TELLING:
        return None
    with np.errstate(over="ignore", under="ignore"):
        ratios = own[told] / other[told]
    factor = float(np.median(ratios))
    room = 4 * float(find_format("float32").unit_roundoff)
    if not 0 < abs(factor) < math.inf or abs(factor - 1) <= room or not (np.abs(ratios / factor - 1) <= room).all():
        return None
    return factor
