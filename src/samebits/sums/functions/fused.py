"""Fused multiply-adds of float32 on whole arrays, rounded once, on any processor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.numbers.array import add_to_odd

Numbers = np.ndarray | np.float32 | float


def multiply_add(a: Numbers, b: Numbers, c: Numbers) -> np.ndarray:
    """a b + c of float32 numbers, rounded once; shapes broadcast.

    The product is exact in float64, and a sum that is rounded to odd there rounds to float32 as the exact one does.

    >>> bool(multiply_add(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1)) == 2**-11 + 2**-24)
    True
    """
    arrays = np.broadcast_arrays(*(np.asarray(v, np.float32).astype(np.float64) for v in (a, b, c)))
    with np.errstate(all="ignore"):
        product = arrays[0] * arrays[1]
        finite = np.isfinite(product) & np.isfinite(arrays[2])
        total = np.where(finite, add_to_odd(np.where(finite, product, 0.0), np.where(finite, arrays[2], 0.0)), 0.0)
        return np.where(finite, total, product + arrays[2]).astype(np.float32)


def evaluate(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    """A polynomial by Horner's rule, each step one fused multiply-add; the highest coefficient comes first."""
    value: np.ndarray = np.full(x.shape, coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        value = multiply_add(value, x, coefficient)
    return value
