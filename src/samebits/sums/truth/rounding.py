"""Rounding an exact value to the nearest number of a format, ties to even, straight to the format's bits.

Compiled and separate from `samebits.numbers`, whose array rounding serves what the truth is asked to judge.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from samebits.numbers.format import Format
from samebits.sums.tiles.compiled_cache import compiled

# The significand that is rounded; any more bits only say whether something follows.
_KEPT = 62


class Codes(NamedTuple):
    """What rounding must know of a format; codes are its bits without the sign."""

    precision: int
    quantum: int  # exponent of the smallest positive number
    largest: int
    overflow: int
    nan: int
    sign: int  # position of the sign bit


def codes_of_format(format_: Format) -> Codes:
    """The rounding constants of a format."""
    return Codes(
        format_.precision, format_.smallest_quantum_exponent, format_.largest_code,
        format_.overflow_code, format_.nan_code, format_.width_bits - 1,
    )  # fmt: skip


@compiled
def encode(negative, significand, exponent, sticky, f):
    """The code nearest to significand * 2^exponent, plus a bit more where `sticky` (less than one unit of it).

    `significand` is below 2^63 and, where sticky, at least 2^(precision + 1). Zero gives +0; what is below half of the
    smallest number gives a zero of its own sign.
    """
    if significand == 0 and not sticky:
        return np.uint64(0)
    length = 0
    while length < 63 and (significand >> length) != 0:
        length += 1
    quantum = max(exponent + length - f.precision, f.quantum)
    shift = quantum - exponent
    if shift <= 0:
        kept = significand << -shift
    elif shift > 63:
        kept = np.int64(0)
    else:
        kept = significand >> shift
        rest = significand & ((np.int64(1) << shift) - 1)
        half = np.int64(1) << (shift - 1)
        if rest > half or (rest == half and (sticky or kept & 1)):
            kept += 1
    steps = quantum - f.quantum
    # kept is at least 2^(precision - 1) here unless quantum is the smallest, so the largest number has one step less
    # than its exponent field says.
    beyond = steps >= f.largest >> (f.precision - 1)
    code = f.overflow if beyond else min((steps << (f.precision - 1)) + kept, f.overflow)
    return np.uint64(code) | (np.uint64(1 if negative else 0) << np.uint64(f.sign))


@compiled
def bits_of_float(value, cell):
    """The bits of a float64; `cell` is a one-element float64 scratch array."""
    cell[0] = value
    return cell.view(np.int64)[0]


@compiled
def two_sum(a, b):
    """a + b as a rounded sum and its exact error (Knuth, TAOCP volume 2, section 4.2.2, theorem B)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


@compiled
def encode_each(values, f, out):
    """Writes to `out` the code nearest to each of `values`; infinities and NaN are what the format has for them."""
    cell = np.empty(1)
    for i in range(values.size):
        value = values[i]
        if abs(value) < np.inf:
            out[i] = encode_pair(value, 0.0, f, cell)
        elif np.isnan(value):
            out[i] = f.nan
        else:
            out[i] = np.uint64(f.overflow) | (np.uint64(1 if value < 0.0 else 0) << np.uint64(f.sign))


@compiled
def encode_pair(high, low, f, cell):
    """The code nearest to high + low, exactly; both finite, their float64 sum finite.

    For formats narrower than float64 the sum is first rounded to odd, which keeps enough for the second rounding to
    be right (Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd, IEEE Transactions on Computers 57(4), 2008: 2 bits more than the target suffice).
    """
    high, low = two_sum(high, low)
    bits = bits_of_float(high, cell)
    if f.precision == 53:
        return np.uint64(0) if high == 0.0 else np.uint64(bits)
    if low != 0.0 and bits & 1 == 0:
        bits += 1 if (low > 0.0) == (high > 0.0) else -1
    field = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    significand = fraction | (np.int64(1) << 52) if field else fraction
    return encode(bits < 0, significand, max(field, 1) - 1075, False, f)


def encode_fraction(value: Fraction, f: Codes, power: int = 0) -> int:
    """The code nearest to value * 2^power; what is below half of the smallest number gives a zero of its own sign."""
    numerator, denominator = abs(value.numerator), value.denominator
    shift = _KEPT - (numerator.bit_length() - denominator.bit_length())
    quotient, rest = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
    if quotient.bit_length() > _KEPT:
        rest |= quotient & 1
        quotient, shift = quotient >> 1, shift - 1
    return int(encode(value < 0, np.int64(quotient), power - shift, rest != 0, f))
