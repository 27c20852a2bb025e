"""One output at a time, for those that a float64 sum cannot decide: double-double, then exact; infinities and NaN."""

from __future__ import annotations

import numpy as np

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.microkernel import fused_multiply_add
from samebits.sums.tiles.rows import load
from samebits.sums.truth.exact_accumulator import LIMBS, PRODUCTS_BETWEEN_CARRIES, add_product, carry, encode_sum
from samebits.sums.truth.rounding import encode_pair, two_sum

# How an output was settled; indices into the counts that every call adds to.
BY_ROUNDING_TEST, BY_EXACTNESS, BY_DOUBLE_DOUBLE, EXACTLY, AS_SPECIAL = range(5)
WAYS = ("rounding_test", "exactness", "double_double", "exactly", "special")
# Below this a float64 product's own rounding error may be subnormal, so that it is no float64 (2^-1074 * 2^106).
_SMALLEST_SPLIT = 2.0**-968


@compiled
def _find_line(c, where, d, n):
    """Where line `n` of plane `d` of an output's terms lies: (rows offset, source offset, first, last).

    The terms of an output are a box of depth x terms[0] x terms[1] x terms[2]; a line of it runs along the last axis:

        plane d    . . . . .   line 0: r0 = 0, r1 = 0
                   . x x x x   line 1: r0 = 0, r1 = 1
                   . x x x x   line 2: r0 = 1, r1 = 0

    Of line 1 here first..last-1 = 1..4 lie in the source; `.` is padding and no term. Term r2 is the product of the
    values at rows offset + r2 * rows_strides[5] and at source offset + r2 * source_term_step[2] * source_strides[5].
    A line that lies outside has no terms: first = last = 0.
    """
    group, row, item, i0, i1, i2, rows_offset = where
    r0, r1 = (n, 0) if c.terms[1] == 1 else (n // c.terms[1], n % c.terms[1])
    at0 = c.source_start[0] + i0 * c.source_output_step[0] + r0 * c.source_term_step[0]
    at1 = c.source_start[1] + i1 * c.source_output_step[1] + r1 * c.source_term_step[1]
    at2 = c.source_start[2] + i2 * c.source_output_step[2]
    if at0 < 0 or at0 >= c.source_size[0] or at1 < 0 or at1 >= c.source_size[1]:
        return 0, 0, 0, 0
    first, last, step = 0, c.terms[2], c.source_term_step[2]
    while first < last and not 0 <= at2 + first * step < c.source_size[2]:
        first += 1
    while first < last and not 0 <= at2 + (last - 1) * step < c.source_size[2]:
        last -= 1
    r_at = rows_offset + group * c.rows_strides[0] + row * c.rows_strides[1] + d * c.rows_strides[2]
    r_at += r0 * c.rows_strides[3] + r1 * c.rows_strides[4]
    s_at = group * c.source_strides[0] + item * c.source_strides[1] + d * c.source_strides[2]
    s_at += at0 * c.source_strides[3] + at1 * c.source_strides[4] + at2 * c.source_strides[5]
    return r_at, s_at, first, last


@compiled
def _sum_plainly(c, where, rows, rows_table, source, source_table, start):
    """Sum2 of products that are exact in float64: high, low, sum of magnitudes, number of terms, whether low is exact.

    Non-finite terms make the sum of magnitudes non-finite; the other numbers then mean nothing.
    """
    high, low, magnitude, spilled = start, 0.0, abs(start), 0.0
    terms = 1
    row_step, source_step = c.rows_strides[5], c.source_term_step[2] * c.source_strides[5]
    for d in range(c.depth):
        for n in range(c.terms[0] * c.terms[1]):
            r_at, s_at, first, last = _find_line(c, where, d, n)
            for r2 in range(first, last):
                product = load(rows, r_at + r2 * row_step, rows_table) * load(
                    source, s_at + r2 * source_step, source_table
                )
                terms += 1
                magnitude += abs(product)
                high, error = two_sum(high, product)
                low += error
                spilled += abs(error)
    return high, low, magnitude, terms, spilled == 0.0


@compiled
def _sum_twice(c, where, rows, rows_table, source, source_table, start):
    """Sum2 of all terms: high, low, sum of magnitudes, number of terms, and flags of what happened.

    Errors of products (by fused multiply-add; zero for float32 operands) and of additions go to `low` (Ogita, Rump and
    Oishi, Accurate sum and dot product, SIAM J. Sci. Comput. 26(6), 2005, algorithm 5.3).
    """
    high, low, magnitude = start, 0.0, abs(start)
    terms = 1
    exact, extreme = True, False
    not_a_number = np.isnan(start)
    up, down = start == np.inf, start == -np.inf
    row_step, source_step = c.rows_strides[5], c.source_term_step[2] * c.source_strides[5]
    for d in range(c.depth):
        for n in range(c.terms[0] * c.terms[1]):
            r_at, s_at, first, last = _find_line(c, where, d, n)
            for r2 in range(first, last):
                a = load(rows, r_at + r2 * row_step, rows_table)
                b = load(source, s_at + r2 * source_step, source_table)
                product = a * b
                terms += 1
                if not abs(product) < np.inf:
                    if abs(a) < np.inf and abs(b) < np.inf:
                        extreme = True
                    elif np.isnan(product):
                        not_a_number = True
                    elif product > 0:
                        up = True
                    else:
                        down = True
                    continue
                if abs(product) < _SMALLEST_SPLIT and a != 0.0 and b != 0.0:
                    extreme = True
                magnitude += abs(product)
                high, error = two_sum(high, product)
                residue = fused_multiply_add(a, b, -product)
                if error != 0.0 or residue != 0.0:
                    exact = False
                    low += error
                    low += residue
    return high, low, magnitude, terms, exact, extreme, not_a_number or (up and down), up, down


@compiled
def _sum_exactly(c, where, rows, rows_table, source, source_table, start, f, limbs, cell):
    """The code nearest to the exact sum of all terms, which are all finite."""
    limbs[:] = 0
    add_product(limbs, start, 1.0, cell)
    pending = 0
    row_step, source_step = c.rows_strides[5], c.source_term_step[2] * c.source_strides[5]
    for d in range(c.depth):
        for n in range(c.terms[0] * c.terms[1]):
            r_at, s_at, first, last = _find_line(c, where, d, n)
            for r2 in range(first, last):
                a = load(rows, r_at + r2 * row_step, rows_table)
                add_product(limbs, a, load(source, s_at + r2 * source_step, source_table), cell)
                pending += 1
                if pending == PRODUCTS_BETWEEN_CARRIES:
                    carry(limbs)
                    pending = 0
    return encode_sum(limbs, f)


@compiled
def list_reached(c, where, source, table, reached):
    """Where in a row the terms stand whose source value is not zero; how many, or -1 for more than `reached` holds."""
    group, _, item, i0, i1, i2, _ = where
    first_row = (group, 0, item, i0, i1, i2, 0)
    base = group * c.rows_strides[0]
    row_step, source_step = c.rows_strides[5], c.source_term_step[2] * c.source_strides[5]
    count = 0
    for d in range(c.depth):
        for n in range(c.terms[0] * c.terms[1]):
            r_at, s_at, first, last = _find_line(c, first_row, d, n)
            for r2 in range(first, last):
                if load(source, s_at + r2 * source_step, table) != 0.0:
                    if count == reached.size:
                        return -1
                    reached[count] = r_at - base + r2 * row_step
                    count += 1
    return count


@compiled
def reads_zeros(c, where, rows, table, reached, count):
    """Whether a row is zero at all the places of `list_reached`: then every product of its sum is."""
    group, row, _, _, _, _, rows_offset = where
    base = rows_offset + group * c.rows_strides[0] + row * c.rows_strides[1]
    for i in range(count):  # noqa: SIM110  (compiled code has no all())
        if load(rows, base + reached[i], table) != 0.0:
            return False
    return True


@compiled
def settle_output(c, where, rows, rows_table, source, source_table, start, f, wide, counts):
    """The code of one output, correctly rounded; `where` is (group, row, batch item, i0, i1, i2, rows offset).

    `wide` tells that operands are float64, whose products are not exact. Non-finite terms give what IEEE 754 addition
    must give in any order: NaN if any term is NaN or infinities of both signs meet, else the infinity. Terms that
    padding leaves out do not exist. An exact zero is +0.
    """
    cell = np.empty(1)
    extreme = exact = False
    high = low = 0.0
    magnitude, terms = np.inf, 0
    if not wide:
        high, low, magnitude, terms, exact = _sum_plainly(c, where, rows, rows_table, source, source_table, start)
    if not magnitude < np.inf:
        high, low, magnitude, terms, exact, extreme, not_a_number, up, down = _sum_twice(
            c, where, rows, rows_table, source, source_table, start
        )
        if not_a_number or up or down:
            counts[AS_SPECIAL] += 1
            sign = np.uint64(1 if down else 0) << np.uint64(f.sign)
            return np.uint64(f.nan) if not_a_number else np.uint64(f.overflow) | sign
    # Near the largest number an error term may overflow though its sum does not.
    if not extreme and abs(high) < np.inf and abs(low) < np.inf:
        if exact:
            counts[BY_EXACTNESS] += 1
            return encode_pair(high, 0.0, f, cell)
        # Two error terms per product, each at most u * magnitude, summed with as many roundings: their sum is off by
        # at most (2n)^2 u^2 magnitude to first order; 1.01 and 2n + 2 cover higher orders up to n = 2^40.
        error = (2.0 * terms + 2.0) * 2.0**-53
        error = 1.01 * error * error * magnitude + abs(low) * 2.0**-51 + 2.0**-1060
        lower = encode_pair(high, low - error, f, cell)
        if lower == encode_pair(high, low + error, f, cell):
            counts[BY_DOUBLE_DOUBLE] += 1
            return lower
    counts[EXACTLY] += 1
    limbs = np.empty(LIMBS, np.int64)
    return _sum_exactly(c, where, rows, rows_table, source, source_table, start, f, limbs, cell)
