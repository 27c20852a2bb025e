"""An exact sum of float64 products: one long fixed-point number that every product fits into (Kulisch's accumulator).

Products of float64 numbers are multiples of 2^-2148 and smaller than 2^2048; 136 limbs of 32 bits hold 2^64 of them. A
limb is a signed 64-bit integer, so that carries may wait: each product adds less than 2^35 to a limb, so they are
settled every 2^28 products.
"""

from __future__ import annotations

import numpy as np

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.truth.rounding import bits_of_float, encode

LIMBS = 140
LOWEST_EXPONENT = -2150
PRODUCTS_BETWEEN_CARRIES = 2**28
_MASK = np.int64(0xFFFFFFFF)


@compiled
def _split_float(value, cell):
    """(negative, significand, exponent) of a finite float64."""
    bits = bits_of_float(value, cell)
    field = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    significand = fraction | (np.int64(1) << 52) if field else fraction
    return bits < 0, significand, max(field, 1) - 1075


@compiled
def _add_piece(limbs, position, piece, sign):
    """Adds sign * piece * 2^position, for 0 <= piece < 2^54, in two halves of 27 bits."""
    for half in range(2):
        part = (piece >> (27 * half)) & 0x7FFFFFF
        at = position + 27 * half
        limb = at >> 5
        part <<= at & 31
        limbs[limb] += sign * (part & _MASK)
        limbs[limb + 1] += sign * (part >> 32)


@compiled
def add_product(limbs, a, b, cell):
    """limbs += a * b, exactly, for finite a and b."""
    negative_a, ma, ea = _split_float(a, cell)
    negative_b, mb, eb = _split_float(b, cell)
    if ma == 0 or mb == 0:
        return
    sign = -1 if negative_a != negative_b else 1
    position = ea + eb - LOWEST_EXPONENT
    high_a, low_a = ma >> 27, ma & 0x7FFFFFF
    high_b, low_b = mb >> 27, mb & 0x7FFFFFF
    _add_piece(limbs, position, low_a * low_b, sign)
    _add_piece(limbs, position + 27, high_a * low_b, sign)
    _add_piece(limbs, position + 27, low_a * high_b, sign)
    _add_piece(limbs, position + 54, high_a * high_b, sign)


@compiled
def carry(limbs):
    """Brings every limb but the last into [0, 2^32); the last keeps the sign of the whole."""
    for i in range(LIMBS - 1):
        limbs[i + 1] += limbs[i] >> 32
        limbs[i] &= _MASK


@compiled
def encode_sum(limbs, f):
    """The code nearest to the accumulated sum; leaves the limbs carried and non-negative."""
    carry(limbs)
    negative = limbs[LIMBS - 1] < 0
    if negative:
        for i in range(LIMBS):
            limbs[i] = -limbs[i]
        carry(limbs)
    top = LIMBS - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return np.uint64(0)
    # The three top limbs hold at least 65 bits of the sum; 62 of them and a sticky bit decide the rounding.
    length = 0
    while limbs[top] >> length != 0:
        length += 1
    significand = limbs[top]
    exponent = 32 * top
    sticky = False
    for i in range(top - 1, -1, -1):
        room = 62 - length
        taken = min(max(room, 0), 32)
        if taken > 0:
            significand = (significand << taken) | (limbs[i] >> (32 - taken))
            exponent -= taken
            length += taken
        if limbs[i] & ((np.int64(1) << (32 - taken)) - 1):
            sticky = True
    return encode(negative, significand, exponent + LOWEST_EXPONENT, sticky, f)
