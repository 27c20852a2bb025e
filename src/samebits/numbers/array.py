"""Rounding whole float64 arrays to a format, in all modes. The scalar form says what each step means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.numbers.format import FLOAT64, Format
from samebits.numbers.scalar import DOWNWARD, MODES, NEAREST_AWAY, NEAREST_EVEN, NEAREST_IF_ODD, TOWARD_ZERO, UPWARD


def round_array_to_format(
    values: npt.NDArray[np.float64], format_: Format, mode: str = NEAREST_EVEN
) -> npt.NDArray[np.float64]:
    """The numbers of `format_` that float64 `values` round to, as float64, any shape; the rule of `round_to_format`.

    Exact: scaling by powers of two loses nothing, and the rounding itself is to an integer below 2^53.
    """
    if mode not in MODES:
        raise ValueError(f"unknown rounding mode {mode!r}; one of {', '.join(MODES)}")
    values = np.asarray(values, np.float64)
    if format_ is FLOAT64:
        return values.copy()
    magnitude = np.abs(values)
    finite = np.isfinite(values)
    _, exponent = np.frexp(np.where(finite, magnitude, 0.0))
    quantum = np.maximum(exponent - 1 - format_.fraction_bits, format_.smallest_quantum_exponent)
    scaled = np.ldexp(np.where(finite, magnitude, 0.0), -quantum)
    rounded = np.ldexp(_round_integers(scaled, np.signbit(values), mode), quantum)
    rounded = np.where(rounded > float(format_.largest), _overflow(np.signbit(values), format_, mode), rounded)
    beyond = magnitude if format_.has_infinity else np.full_like(magnitude, np.nan)
    return np.copysign(np.where(finite, rounded, beyond), values)


def measure_spacing(values: npt.NDArray[np.float64], format_: Format) -> npt.NDArray[np.float64]:
    """The distance between the numbers of a format at each value's size, that of subnormal numbers below."""
    _, exponents = np.frexp(values)
    return np.ldexp(1.0, np.maximum(exponents - format_.precision, format_.smallest_quantum_exponent))


def add_to_odd(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """a + b rounded to odd in float64: rounding that to a format of at most 51 bits rounds the exact sum once.

    Arrays of one shape, finite, no sum overflowing. An inexact sum becomes whichever of its two neighbours has an odd
    last bit (Boldo and Melquiond 2008), so that it never lies halfway between two numbers of a narrower format.
    """
    total = a + b
    shared = total - a
    error = (a - (total - shared)) + (b - shared)
    even = total.view(np.int64) & 1 == 0
    towards = np.nextafter(total, np.copysign(np.inf, error))
    return np.where((error != 0) & even, towards, total)


def _round_integers(scaled: np.ndarray, negative: np.ndarray, mode: str) -> np.ndarray:
    floor = np.floor(scaled)
    rest = scaled - floor
    if mode == NEAREST_EVEN:
        return np.rint(scaled)
    if mode == NEAREST_AWAY:
        return floor + (rest >= 0.5)
    if mode == NEAREST_IF_ODD:
        return floor + ((floor % 2 == 1) & (rest >= 0.5))
    away = ((mode == UPWARD) & ~negative) | ((mode == DOWNWARD) & negative)
    return floor + (away & (rest > 0))


def _overflow(negative: np.ndarray, format_: Format, mode: str) -> np.ndarray:
    limit = np.inf if format_.has_infinity else np.nan
    to_largest = (mode == TOWARD_ZERO) | ((mode == UPWARD) & negative) | ((mode == DOWNWARD) & ~negative)
    return np.where(to_largest, float(format_.largest), limit)
