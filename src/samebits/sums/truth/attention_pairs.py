"""Rows of attention in pairs of float64 numbers, about 2^-85 of the values off: settles what float64 leaves open.

A pair is a sum high + low that is not evaluated. Sums and products of pairs are those of Dekker (1971) and Knuth; each
is off by less than 2^-102 of its magnitude (Joldes, Muller and Popescu, Tight and rigorous error bounds for basic
building blocks of double-word arithmetic, ACM Trans. Math. Softw. 44(2), 2017). Scores are Ogita, Rump and Oishi's
Dot2: off by less than u^2 of the dot product's value and (n u)^2 of its magnitudes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.microkernel import fused_multiply_add
from samebits.sums.truth.rounding import encode_pair, two_sum

_PER_LN2 = 1.4426950408889634
# ln(2) in three parts; the first has 21 trailing zeros, so that its product with a whole number up to 1100 is exact.
_LN2 = tuple(float.fromhex(h) for h in ("0x1.62e42fefa0000p-1", "0x1.cf79abc9e3b3ap-40", "-0x1.ff0342542fc33p-94"))
_HALVINGS, _TERMS = 8, 11
# Of exp of a pair: 2^8 times the error of the series, and those of eight squares, each below 2^-102.
EXP_ERROR = 2.0**-90
# exp of less is below 2^-200 of the largest weight.
_LOWEST = -140.0
_LOST = 2.0**-200
_UNIT = 2.0**-53
# A larger share says that the scores themselves are not known well enough.
_LARGEST_SHARE = 2.0**-60
_SMALLEST_REACH, _LARGEST_REACH = 2.0**-600, 2.0**900


def split_pair(value: Fraction) -> tuple[float, float]:
    """The pair nearest to an exact number."""
    high = float(value)
    return high, float(value - Fraction(high))


@compiled
def _multiply_exactly(a, b):
    """a * b as a rounded product and its exact error."""
    product = a * b
    return product, fused_multiply_add(a, b, -product)


@compiled
def _add(a, a_low, b, b_low):
    high, low = two_sum(a, b)
    more, rest = two_sum(a_low, b_low)
    high, low = two_sum(high, low + more)
    return two_sum(high, low + rest)


@compiled
def _multiply(a, a_low, b, b_low):
    high, low = _multiply_exactly(a, b)
    return two_sum(high, low + (a * b_low + a_low * b))


@compiled
def _divide(a, a_low, b, b_low):
    first = a / b
    high, low = _multiply(b, b_low, first, 0.0)
    high, low = _add(a, a_low, -high, -low)
    second = high / b
    high2, low2 = _multiply(b, b_low, second, 0.0)
    high, low = _add(high, low, -high2, -low2)
    third = high / b
    first, second = two_sum(first, second)
    return _add(first, second, third, 0.0)


@compiled
def _exp(t, t_low):
    """exp of a pair in -140 to 0."""
    steps = np.rint(t * _PER_LN2)
    high, low = _add(t - steps * _LN2[0], t_low, -0.0, 0.0)
    product, error = _multiply_exactly(-steps, _LN2[1])
    high, low = _add(high, low, product, error)
    high, low = _add(high, low, -steps * _LN2[2], 0.0)
    part = 0.00390625
    high, low = high * part, low * part
    total, total_low = 1.0, 0.0
    for i in range(_TERMS, 0, -1):
        total, total_low = _multiply(total, total_low, high, low)
        total, total_low = _divide(total, total_low, float(i), 0.0)
        total, total_low = _add(total, total_low, 1.0, 0.0)
    for _ in range(_HALVINGS):
        total, total_low = _multiply(total, total_low, total, total_low)
    power = 2.0**steps
    return total * power, total_low * power


@compiled
def _score(q, k, added, scale, scale_low, cap):
    """One score as a pair; `cap` 0 is none."""
    high, low = 0.0, 0.0
    for i in range(q.size):
        product, error = _multiply_exactly(q[i], k[i])
        high, more = two_sum(high, product)
        low += error + more
    high, low = two_sum(high, low)
    high, low = _multiply(high, low, scale, scale_low)
    if cap > 0.0:
        sign = -1.0 if high < 0.0 else 1.0
        t, t_low = _divide(-2.0 * sign * high, -2.0 * sign * low, cap, 0.0)
        e, e_low = (0.0, 0.0) if t < _LOWEST else _exp(t, t_low)
        top, top_low = _add(1.0, 0.0, -e, -e_low)
        bottom, bottom_low = _add(1.0, 0.0, e, e_low)
        high, low = _divide(top, top_low, bottom, bottom_low)
        high, low = _multiply(sign * high, sign * low, cap, 0.0)
    return _add(high, low, added, 0.0)


@compiled
def _norm(values):
    """The root of the sum of squares, which neither overflows nor underflows before it has to."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for value in values:
        total += (value / largest) * (value / largest)
    return largest * np.sqrt(total)


@compiled
def _weigh(q, k, added, scale, scale_low, cap):
    """Weights of a row as pairs, the largest 1, their sum, and the share that they may be off by."""
    keys = k.shape[0]
    weights = np.empty((keys, 2))
    most, most_low = -np.inf, 0.0
    norm = 0.0
    for j in range(keys):
        norm = max(norm, _norm(k[j]))
        weights[j, 0], weights[j, 1] = _score(q, k[j], added[j], scale, scale_low, cap)
        if weights[j, 0] > most or (weights[j, 0] == most and weights[j, 1] > most_low):
            most, most_low = weights[j, 0], weights[j, 1]
    steps = (q.size + 2.0) * _UNIT
    # The dot product, its scale, cap and mask, and the difference to the largest.
    share = 1.1 * steps * steps * scale * _norm(q) * norm + 2.0**-98 * (abs(most) - _LOWEST + cap)
    share += EXP_ERROR * (1.0 + 4.0 * cap)
    total, total_low = 0.0, 0.0
    for j in range(keys):
        t, t_low = _add(weights[j, 0], weights[j, 1], -most, -most_low)
        weights[j, 0], weights[j, 1] = _exp(t, t_low) if t >= _LOWEST else (0.0, 0.0)
        total, total_low = _add(total, total_low, weights[j, 0], weights[j, 1])
    return weights, total, total_low, share + (keys + 4.0) * (2.0**-101 + _LOST)


@compiled
def settle_row(q, k, v, added, scale, scale_low, cap, columns, f, codes, settled):
    """Writes to `codes` those of a row's outputs in some columns, and to `settled` whether they are certain.

    k, v and what is added are those of the keys that the row sees.
    """
    keys = k.shape[0]
    weights, total, total_low, share = _weigh(q, k, added, scale, scale_low, cap)
    if not total > 0.0:
        # Scores beyond float64.
        settled[:] = False
        return
    for c in range(columns.size):
        column = columns[c]
        high, low, reach = 0.0, 0.0, 0.0
        for j in range(keys):
            reach = max(reach, abs(v[j, column]))
            if weights[j, 0] > 0.0:
                a, a_low = _multiply(weights[j, 0], weights[j, 1], v[j, column], 0.0)
                high, low = _add(high, low, a, a_low)
        high, low = _divide(high, low, total, total_low)
        error = 2.1 * share * reach
        cell = np.empty(1)
        down = encode_pair(high, low - error, f, cell)
        up = encode_pair(high, low + error, f, cell)
        if (down | up) & ~(np.uint64(1) << np.uint64(f.sign)) == 0:
            down = up = np.uint64(0)
        codes[c] = down
        # The errors of products of smaller numbers than these may be lost.
        is_held = (_SMALLEST_REACH < reach < _LARGEST_REACH or reach == 0.0) and abs(high) < np.inf
        settled[c] = share < _LARGEST_SHARE and down == up and is_held
