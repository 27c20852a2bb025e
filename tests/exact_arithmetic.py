"""Convolutions in exact integer arithmetic, by their definition: the oracle that the truth is compared with.

Every float is an integer multiple of 2^-1100, so arrays become Python integers and sums of products are exact. Nothing
here is shared with the package but the rounding of one number to a format, which has its own oracles.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from samebits.numbers.format import find_format
from samebits.numbers.scalar import round_to_format

SCALE_BITS = 1100


def integers_from_floats(array: np.ndarray) -> np.ndarray:
    """Finite values as Python integers, in units of 2^-1100."""

    def convert(value: float) -> int:
        numerator, denominator = value.as_integer_ratio()
        return (numerator << SCALE_BITS) // denominator

    return np.array([convert(float(v)) for v in array.astype(np.float64).ravel()], object).reshape(array.shape)


def exact_sums(problem, operands) -> np.ndarray:
    """The exact sums of the problem in units of 2^-2200, an object array of Python integers."""
    arrays = {name: integers_from_floats(values) for name, values in operands.items()}
    large, small = _sides(problem, arrays)
    taps = itertools.product(*(range(k) for k in problem.w[2:]))
    weights = arrays.get("w")
    for tap in taps:
        window = _windows(problem, large, tap)
        for g in range(problem.groups):
            s = slice(g * problem.w[0] // problem.groups, (g + 1) * problem.w[0] // problem.groups)
            c = slice(g * problem.w[1], (g + 1) * problem.w[1])
            _add_tap(problem, (window, small, weights), (s, c, tap))
    result = {"large": large, "small": small, "w": weights}[_result_side(problem)]
    result = _crop(problem, large) if result is large else result
    if problem.bias:
        channels = (1, -1) + (1,) * problem.rank
        result = result + (arrays["bias"] * 2**SCALE_BITS).reshape(channels)
    return result


def correctly_rounded(problem, operands) -> np.ndarray:
    """The exact sums, rounded once to the result's format (no epilogue), as float64 values."""
    format_ = find_format(problem.out)
    unit = 2 ** (2 * SCALE_BITS)
    sums = exact_sums(problem, operands)
    return np.array([round_to_format(Fraction(int(v), unit), format_) for v in sums.ravel()]).reshape(sums.shape)


def _result_side(problem) -> str:
    if problem.direction == "grad_weight":
        return "w"
    return "large" if (problem.direction == "forward") == problem.is_transposed else "small"


def _sides(problem, arrays):
    """Padded array on the side with the stride's multiples, and the array on the other; zeros where the result goes."""
    n = problem.x[0]
    small_shape = (n, problem.w[0], *(a.size_small for a in problem.axes))
    large_shape = (n, problem.w[1] * problem.groups, *(a.size_large for a in problem.axes))
    names = ("dy", "x") if problem.is_transposed else ("x", "dy")
    side = _result_side(problem)
    if side == "w":
        arrays["w"] = _zeros(problem.w)
    large = arrays[names[0]] if side != "large" else _zeros(large_shape)
    small = arrays[names[1]] if side != "small" else _zeros(small_shape)
    pads = [(0, 0), (0, 0)]
    for a in problem.axes:
        reach = (a.size_small - 1) * a.stride + (a.kernel - 1) * a.dilation + 1
        pads.append((a.pad_begin, max(reach - a.pad_begin - a.size_large, 0)))
    # np.pad would put NumPy integers among Python's, and those overflow.
    padded = _zeros([size + begin + end for size, (begin, end) in zip(large.shape, pads, strict=True)])
    padded[tuple(slice(b, b + size) for size, (b, _) in zip(large.shape, pads, strict=True))] = large
    return padded, small


def _zeros(shape) -> np.ndarray:
    return np.array([0] * math.prod(shape), object).reshape(shape)


def _windows(problem, large, tap):
    """The part of the padded large side that a tap meets, one element per small position."""
    spatial = tuple(
        slice(t * a.dilation, t * a.dilation + (a.size_small - 1) * a.stride + 1, a.stride)
        for t, a in zip(tap, problem.axes, strict=True)
    )
    return large[(slice(None), slice(None), *spatial)]


def _add_tap(problem, sides, where):
    window, small, weights = sides
    s, c, tap = where
    side = _result_side(problem)
    part = window[:, c]
    if side == "small":
        small[:, s] += np.tensordot(part, weights[(s, slice(None), *tap)], (1, 1)).transpose(_channel_second(problem))
    elif side == "large":
        part += np.tensordot(small[:, s], weights[(s, slice(None), *tap)], (1, 0)).transpose(_channel_second(problem))
    else:
        axes = (0, *range(2, 2 + problem.rank))
        weights[(s, slice(None), *tap)] += np.tensordot(small[:, s], part, (axes, axes))


def _channel_second(problem):
    return (0, problem.rank + 1, *range(1, problem.rank + 1))


def _crop(problem, large):
    spatial = tuple(slice(a.pad_begin, a.pad_begin + a.size_large) for a in problem.axes)
    return large[(slice(None), slice(None), *spatial)]
