"""Rounding one exact number to a format, in all modes: readable, in fractions. `array` is its fast form."""

from __future__ import annotations

import math
from fractions import Fraction

from samebits.numbers.format import Format

# IEEE 754's, and one that OpenVINO's class of bfloat16 numbers has (`bits + ((bits & 0x10000) >> 1)`): where the last
# bit kept is odd to the nearest number, halves away from zero; where it is even toward zero.
NEAREST_EVEN, NEAREST_AWAY, TOWARD_ZERO, UPWARD, DOWNWARD, NEAREST_IF_ODD = MODES = (
    "nearest_even",
    "nearest_away",
    "toward_zero",
    "upward",
    "downward",
    "nearest_if_odd",
)


def round_to_format(value: Fraction | float, format_: Format, mode: str = NEAREST_EVEN) -> float:
    """The number of `format_` that `value` rounds to, as a float (which holds every format's numbers exactly).

    IEEE 754-2019, section 4.3; overflow as its section 7.4 (nearest: infinity; directed: infinity or the largest
    number, whichever the direction says), and NaN in place of infinity where the format has none. A value that rounds
    to zero keeps its sign. NaN and infinities pass through. Raises ValueError for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"unknown rounding mode {mode!r}; one of {', '.join(MODES)}")
    if isinstance(value, float) and not math.isfinite(value):
        return value if format_.has_infinity or math.isnan(value) else math.nan
    negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
    magnitude = abs(Fraction(value))
    quantum = Fraction(2) ** _quantum_exponent(magnitude, format_)
    rounded = _round_integer(magnitude / quantum, negative, mode) * quantum
    if rounded > format_.largest:
        return _overflow(negative, format_, mode)
    result = float(rounded)
    return -result if negative else result


def _quantum_exponent(magnitude: Fraction, format_: Format) -> int:
    """The exponent of the spacing of the format's numbers around `magnitude`."""
    if not magnitude:
        return format_.smallest_quantum_exponent
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    return max(exponent - format_.fraction_bits, format_.smallest_quantum_exponent)


def _round_integer(scaled: Fraction, negative: bool, mode: str) -> int:
    """A non-negative number rounded to an integer; `negative` tells the sign it will get."""
    floor = math.floor(scaled)
    rest = scaled - floor
    if mode == NEAREST_EVEN:
        return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))
    if mode == NEAREST_AWAY:
        return floor + (rest >= Fraction(1, 2))
    if mode == NEAREST_IF_ODD:
        return floor + (floor % 2 == 1 and rest >= Fraction(1, 2))
    away = (mode == UPWARD and not negative) or (mode == DOWNWARD and negative)
    return floor + (away and rest > 0)


def _overflow(negative: bool, format_: Format, mode: str) -> float:
    to_largest = mode == TOWARD_ZERO or (mode == UPWARD and negative) or (mode == DOWNWARD and not negative)
    limit = float(format_.largest) if to_largest else (math.inf if format_.has_infinity else math.nan)
    return -limit if negative else limit
