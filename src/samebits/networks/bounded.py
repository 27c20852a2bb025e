"""Arrays with the error that arithmetic in a format may have put on them: a unit's output is compared with these.

Every rule gives the exact function of the values in float64 and an upper bound of how far a computation of it, with
each operation rounded in the declared format, in any order, can be from there. Rules are those of standard error
analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 2 and 3): |f(a + e) - f(a)| from the
largest slope of f, plus the roundings of f itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.numbers.format import Format

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bounded:
    """Values in float64, and how far the computed ones may be from them.

    `magnitude` is the sum of the magnitudes of the terms that a value is the sum of, `growth` the roundings, times the
    unit roundoff, that such a term may have passed: what is added to a sum of products may be added to it first.
    """

    value: Floats
    error: Floats
    magnitude: Floats
    growth: float = 0.0


@dataclass(frozen=True)
class Arithmetic:
    """The unit roundoff of a format, its smallest subnormal number and its smallest normal one."""

    unit: float
    least: float
    normal: float

    @property
    def least_power(self) -> float:
        """Below this a power of e may become 0: OpenCL allows it below the smallest normal number (section 7.5.3).

        oneDNN makes 2^n exp(r), with |r| <= ln(2)/2, as 2 * 2^(n - 1) exp(r) and puts 2^(n - 1) together from n - 1, so
        that it loses those below sqrt(2) times that number (cpu/x64/injectors/jit_uni_eltwise_injector.cpp).
        """
        return 2 * self.normal


def arithmetic_in(format_: Format, *, unit: float = 0.0) -> Arithmetic:
    """The arithmetic of a format, with a larger unit roundoff if one is given."""
    normal = 2.0**format_.smallest_normal_exponent
    return Arithmetic(max(float(format_.unit_roundoff), unit), float(format_.smallest_subnormal), normal)


def exactly(array: np.ndarray) -> Bounded:
    """An array that was really fed: no error."""
    value = array.astype(np.float64)
    return Bounded(value, np.zeros_like(value), np.abs(value))


def rounded(a: Arithmetic, value: Floats, error: Floats, roundings: float = 1.0) -> Bounded:
    """A value after an operation that rounds `roundings` times relative to it."""
    with np.errstate(over="ignore", invalid="ignore"):
        own = roundings * a.unit * (np.abs(value) + error) + roundings * a.least
        # Infinity is not rounded.
        own = np.where(np.isinf(value) & np.isfinite(error), 0.0, own)
        return Bounded(value, error + own, np.abs(value) + error)


def add(a: Arithmetic, x: Bounded, y: Bounded, sign: float = 1.0) -> Bounded:
    """x + y, or x - y; where one is a sum of products the other may have been added to that anywhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = x.value + sign * y.value
        magnitude = x.magnitude + y.magnitude
        error = x.error + y.error + x.growth * y.magnitude + y.growth * x.magnitude
        own = a.unit * (4 * magnitude if x.growth or y.growth else np.abs(value) + error) + a.least
        return Bounded(value, _settle(value, error + own, x, y), magnitude, x.growth + y.growth)


def multiply(a: Arithmetic, x: Bounded, y: Bounded) -> Bounded:
    """x y; a factor that is known exactly may have been multiplied into a sum's terms."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = x.value * y.value
        error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
        magnitude = x.magnitude * y.magnitude
        growth = x.growth + y.growth
        own = a.unit * (4 * magnitude if growth else np.abs(value) + error) + a.least
        own = np.where(_is_nought(x) | _is_nought(y), 0.0, own)
        return Bounded(value, _settle(value, error + own, x, y), magnitude, growth)


def _is_nought(x: Bounded) -> npt.NDArray[np.bool_]:
    """Where a value is surely 0: a product with it, and a share of it, are not rounded."""
    return (x.value == 0) & (x.error == 0) & (x.magnitude == 0)


def _settle(value: Floats, error: Floats, x: Bounded, y: Bounded) -> Floats:
    """The error, or 0 where infinities went in (a mask of -inf): they absorb any finite number."""
    certain = np.isinf(value) & np.isfinite(x.error) & np.isfinite(y.error)
    return np.where(certain, 0.0, error)


def divide(a: Arithmetic, x: Bounded, y: Bounded) -> Bounded:
    """x / y, three roundings allowed: a reciprocal may be multiplied instead."""
    with np.errstate(all="ignore"):
        value = x.value / y.value
        room = np.maximum(np.abs(y.value) - y.error, 0.0)
        error = (x.error + np.abs(value) * y.error) / room
        error = np.where((x.error == 0) & (y.error == 0), 0.0, error)
        if x.growth and not y.error.any():
            scaled = x.magnitude / np.abs(y.value)
            return Bounded(value, error + 4 * a.unit * scaled + a.least, scaled, x.growth)
        found = rounded(a, value, error, 3.0)
        return Bounded(value, np.where(_is_nought(x) & (room > 0), 0.0, found.error), found.magnitude)


def apply_slope(
    a: Arithmetic,
    x: Bounded,
    function: Callable[[Floats], Floats],
    slope: float | Floats,
    *,
    relative: float,
    absolute: float = 0.0,
) -> Bounded:
    """An elementwise function whose slope is at most `slope`, computed within so many units relative and absolute."""
    with np.errstate(all="ignore"):
        value = function(x.value)
        found = rounded(a, value, slope * x.error, relative)
        return Bounded(value, found.error + absolute * a.unit, found.magnitude)


def step(function: Callable[[Floats], Floats], x: Bounded) -> Bounded:
    """A function that never falls and does not round: what it may return lies between its values at both ends."""
    with np.errstate(invalid="ignore"):
        value = function(x.value)
        error = np.maximum(function(x.value + x.error) - value, value - function(x.value - x.error))
        return Bounded(value, np.where(x.error > 0, error, 0.0), np.abs(value))


def take_root(a: Arithmetic, x: Bounded) -> Bounded:
    """The square root; a value below zero by no more than its own error may be zero or positive."""
    with np.errstate(all="ignore"):
        high = x.value + x.error
        value = np.sqrt(np.where((x.value < 0) & (high >= 0), 0.0, x.value))
        low = np.sqrt(np.maximum(x.value - x.error, 0.0))
        error = np.maximum(value - low, np.sqrt(high) - value)
        return rounded(a, value, np.where(x.error > 0, error, 0.0), 3.0)


def raise_power(a: Arithmetic, x: Bounded, y: Bounded) -> Bounded:
    """x to the power of y, element by element.

    Of a base above zero the corners of both intervals bound it. Else a whole power y is off by at most
    (|x| + e)^y - |x|^y (the binomial theorem), and of any other nothing is known.
    """
    with np.errstate(all="ignore"):
        whole = (y.error == 0) & (y.value == np.rint(y.value))
        base = np.where(~whole & (x.value < 0) & (x.value + x.error >= 0), 0.0, x.value)
        value = base**y.value
        low, high = np.abs(x.value) - x.error, np.abs(x.value) + x.error
        corners = [b**p for b in (low, high) for p in (y.value - y.error, y.value + y.error)]
        near = np.max([np.abs(c - np.abs(value)) for c in corners], axis=0)
        across = np.where(whole & (y.value >= 0), high**y.value - np.abs(base) ** y.value, np.inf)
        error = np.where(low > 0, near, across)
        error = np.where((x.error == 0) & (y.error == 0), 0.0, error)
        return rounded(a, value, error, 2.0 if (y.value == 2).all() else 32.0)


def choose(function: Callable[..., Floats], *inputs: Bounded) -> Bounded:
    """A function that returns one of its inputs (maximum, clip ...): the largest error of any, no rounding."""
    value = function(*(x.value for x in inputs))
    error = inputs[0].error
    for other in inputs[1:]:
        error = np.maximum(error, other.error)
    return Bounded(value, np.broadcast_to(error, value.shape), np.abs(value))


def move(function: Callable[[np.ndarray], np.ndarray], x: Bounded) -> Bounded:
    """A function that only moves or repeats elements."""
    return Bounded(function(x.value), function(x.error), function(x.magnitude), x.growth)


def take_mean(a: Arithmetic, x: Bounded, axes: tuple[int, ...], *, divides: bool = True) -> Bounded:
    """The mean, or the sum, over axes that are kept with size 1; added in any order."""
    count = int(np.prod([x.value.shape[i] for i in axes], dtype=np.int64))
    share = 1.0 / count if divides and count else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        value = x.value.sum(axes, keepdims=True) * share
        summed = np.abs(x.value).sum(axes, keepdims=True) * share
        error = x.error.sum(axes, keepdims=True) * share
        growth = (count + 2) * a.unit
        return Bounded(value, error + growth * (summed + error) + (count + 2) * a.least, np.abs(value) + error)


def standardize(a: Arithmetic, x: Bounded, axes: tuple[int, ...], epsilon: float) -> Bounded:
    """(x - mean) / sqrt(variance + epsilon) over axes; the variance in two passes, or as the mean of squares.

    The mean of squares less the square of the mean loses (n + 4) u times the mean of squares, which is allowed.
    """
    count = int(np.prod([x.value.shape[i] for i in axes], dtype=np.int64))
    growth = (count + 4) * a.unit
    with np.errstate(all="ignore"):
        mean = x.value.mean(axes, keepdims=True)
        centred = x.value - mean
        spread = (centred**2).mean(axes, keepdims=True) + epsilon
        squares = (x.value**2).mean(axes, keepdims=True)
        size = np.abs(x.value).mean(axes, keepdims=True)
        error = x.error + x.error.mean(axes, keepdims=True) + growth * size + a.unit * np.abs(centred)
        fed = 2 * (np.abs(centred) * x.error).mean(axes, keepdims=True) + (x.error**2).mean(axes, keepdims=True)
        lost = np.minimum((growth * squares + fed) / spread, 1.0)
        value = centred / np.sqrt(spread)
        # A relative error d of the variance is at most (1 - d)^-1/2 - 1 of the result.
        relative = 1.0 / np.sqrt(1.0 - lost) - 1.0
        moved = error / np.sqrt(spread) * (1.0 + relative) + np.abs(value) * relative
        # Of a variance that may be all error nothing is known, of a mean's own element neither.
        moved = np.where(lost < 1.0, moved, np.inf)
        return rounded(a, value, moved, 6.0)


def take_softmax(a: Arithmetic, x: Bounded, axis: int) -> Bounded:
    """exp(x) / sum exp(x) along an axis; the largest is subtracted first. Masked elements may be infinite or huge."""
    _, powers, total, share, of_sum = _sum_powers(a, x, axis)
    with np.errstate(all="ignore"):
        value = powers / total
        moved = np.where(of_sum < 1.0, (share + value * of_sum) / (1.0 - of_sum), np.inf)
        found = rounded(a, value, moved, 3.0)
        lost = np.where(powers < a.least_power, a.least_power, 0.0)
        return Bounded(value, found.error + lost, found.magnitude)


def take_log_softmax(a: Arithmetic, x: Bounded, axis: int) -> Bounded:
    """x - max - log(sum exp(x - max)) along an axis: the sum's relative error becomes the logarithm's absolute one."""
    shifted, _, total, _, of_sum = _sum_powers(a, x, axis)
    with np.errstate(all="ignore"):
        logarithm = np.log(total)
        value = shifted - logarithm
        # The largest, whatever it is off, goes in twice and cancels; 3 units of the logarithm itself.
        own = np.where(of_sum < 1.0, -np.log1p(-of_sum), np.inf) + 3 * a.unit * np.abs(logarithm)
        spread = x.error + x.error.max(axis, keepdims=True)
        return rounded(a, value, spread + own + a.unit * np.abs(shifted), 1.0)


def _sum_powers(a: Arithmetic, x: Bounded, axis: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """x less its largest; exp of that; their sum; how far each power, and the sum, may be off, as shares of the sum."""
    with np.errstate(all="ignore"):
        largest = x.value.max(axis, keepdims=True)
        shifted = x.value - largest
        powers = np.exp(shifted)
        total = powers.sum(axis, keepdims=True)
        # How far the largest may be off, the rounded difference, 6 units of exp itself, and the sum's own roundings.
        above = (x.value + x.error).max(axis, keepdims=True) - largest
        below = largest - (x.value - x.error).max(axis, keepdims=True)
        exponent = shifted * (1.0 - a.unit) + x.error + np.maximum(above, below)
        share = (np.exp(exponent) * (1.0 + 6 * a.unit) - powers) / total
        return shifted, powers, total, share, share.sum(axis, keepdims=True) + x.value.shape[axis] * a.unit
