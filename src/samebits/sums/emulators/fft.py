"""Convolution by Fourier transforms of the whole padded plane, extended with zeros to powers of two.

Radix-2 decimation in time (Cooley and Tukey, 1965) along each spatial axis, last one first: values in bit-reversed
sequence, then butterflies a + t b, a - t b with twiddle factors t rounded to float32. A complex product is
(ar br - ai bi, ar bi + ai br), every multiplication and addition rounded to float32. The spectrum of the data is
multiplied by the conjugate of the weights' and summed over channels in order; the inverse transform conjugates before
and after, and divides by the number of points at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.problems import Problem
from samebits.sums.emulators.as_forward import as_forward, pad_or_crop
from samebits.sums.recipes.recipe import Recipe

Complex = tuple[np.ndarray, np.ndarray]  # real and imaginary part, float32
_MOST_POINTS = 2**26


def compute_fft(problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.float32]:
    """The sums of a problem by Fourier transforms, without bias, in the problem's shape.

    Raises RecipeError unless the accumulator is float32 rounded to nearest, or where the planes are too large.
    """
    if recipe.accumulator.format != "float32" or recipe.accumulator.mode != "nearest_even" or recipe.flush.results:
        raise RecipeError("fft needs a float32 accumulator, rounded to nearest_even, and flushes nothing")
    forward = as_forward(problem, operands)
    x = pad_or_crop(forward.x, forward.pads).astype(np.float32)
    taps = forward.w.shape[3:]
    reach = [(n - 1) * d + 1 for n, d in zip(taps, forward.dilation, strict=True)]
    points = [1 << (n - 1).bit_length() for n in x.shape[3:]]
    batch, groups, depth = x.shape[:3]
    rows = forward.w.shape[1]
    if np.prod(points, dtype=np.int64) * groups * depth * max(batch, rows) > _MOST_POINTS:
        raise RecipeError("fft: the planes of this problem are too large to emulate")
    spread = np.zeros((*forward.w.shape[:3], *reach), np.float32)
    spread[(slice(None),) * 3 + tuple(slice(None, None, d) for d in forward.dilation)] = forward.w
    data = transform_planes(_extend(x, points))
    weights = transform_planes(_extend(spread, points))
    total: Complex | None = None
    for d in range(depth):
        one = (data[0][:, :, None, d], data[1][:, :, None, d])
        two = (weights[0][None, :, :, d], -weights[1][None, :, :, d])
        product = multiply(one, two)
        total = product if total is None else (total[0] + product[0], total[1] + product[1])
    assert total is not None
    back = transform_planes((total[0], -total[1]))
    plane = back[0] / np.float32(np.prod(points))
    kept = tuple(slice(0, (o - 1) * s + 1, s) for o, s in zip(forward.outputs, forward.stride, strict=True))
    return forward.restore(plane[(slice(None),) * 3 + kept])


def multiply(a: Complex, b: Complex) -> Complex:
    """The product of complex numbers, each of its operations rounded to float32."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def transform_planes(values: Complex) -> Complex:
    """The transform along all axes from the fourth on, the last one first."""
    for axis in reversed(range(3, values[0].ndim)):
        real, imaginary = (np.ascontiguousarray(np.moveaxis(v, axis, -1)) for v in values)
        real, imaginary = _transform_last((real, imaginary))
        values = np.moveaxis(real, -1, axis), np.moveaxis(imaginary, -1, axis)
    return values


def twiddles(size: int) -> Complex:
    """exp(-2 pi i k / size) for the first half of k, computed in float64 and rounded to float32."""
    angle = -2.0 * np.pi * np.arange(size // 2) / size
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def reverse_bits(size: int) -> npt.NDArray[np.int64]:
    """Indices 0 ... size - 1 with their bits in reverse."""
    width = size.bit_length() - 1
    return np.array([int(f"{i:0{width}b}"[::-1], 2) if width else 0 for i in range(size)])


def _transform_last(values: Complex) -> Complex:
    size = values[0].shape[-1]
    order = reverse_bits(size)
    real, imaginary = values[0][..., order], values[1][..., order]
    half = 1
    while half < size:
        shape = (*real.shape[:-1], size // (2 * half), 2, half)
        a, b = real.reshape(shape), imaginary.reshape(shape)
        turned = multiply((a[..., 1, :], b[..., 1, :]), twiddles(2 * half))
        real = np.stack([a[..., 0, :] + turned[0], a[..., 0, :] - turned[0]], axis=-2).reshape(real.shape)
        imaginary = np.stack([b[..., 0, :] + turned[1], b[..., 0, :] - turned[1]], axis=-2).reshape(real.shape)
        half *= 2
    return real, imaginary


def _extend(values: np.ndarray, points: list[int]) -> Complex:
    widths = [(0, 0)] * 3 + [(0, p - n) for p, n in zip(points, values.shape[3:], strict=True)]
    real = np.pad(values, widths).astype(np.float32)
    return real, np.zeros_like(real)
