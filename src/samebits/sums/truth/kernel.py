"""Correctly rounded outputs, a run of tiles at a time: float64 sums, a rounding test for each, the rest one by one."""

from __future__ import annotations

import numpy as np

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.microkernel import BLOCKING
from samebits.sums.tiles.tiles import bound_twice, locate_tile, sum_tile
from samebits.sums.truth.rounding import encode_pair
from samebits.sums.truth.settling import BY_EXACTNESS, BY_ROUNDING_TEST, list_reached, reads_zeros, settle_output

HAS_FMA = BLOCKING.has_fma
# As many 32-bit codes as a cache line holds.
_ROWS_AT_ONCE = 16
# Terms that are not zero, of sums that may be: where there are more, sums are looked at one by one.
MOST_REACHED = 1024
# No count, and not -1 for too many either.
_NOT_LISTED = -2


@compiled
def settle_tiles(first, last, c, blocks, rows, rows_table, source, source_table, start, f, wide, out, counts, buffers):
    """Writes the codes of all outputs of tiles first..last-1 to `out`.

    `wide` tells that operands are float64, whose products may underflow. Where the result is float64, sums are kept
    twice as precise; a processor without fused multiply-add settles every output one by one.
    """
    sums = buffers.sums
    errors = np.empty(sums.shape[1])
    codes = buffers.codes
    cell, reached = np.empty(1), np.empty(MOST_REACHED, np.int64)
    for task in range(first, last):
        tile = locate_tile(c, blocks, task)
        if f.precision == 53:
            if HAS_FMA:
                _settle_doubles(
                    c, blocks, tile, rows, rows_table, source, source_table, start, f, wide, out, counts, buffers
                )
            else:
                _settle_each(c, tile, rows, rows_table, source, source_table, start, f, wide, out, counts)
            continue
        largest = sum_tile(c, blocks, tile, rows, rows_table, source, source_table, start, buffers, False)
        # Bound: roundings * u * sum |row||source| <= roundings * u * max|source| * sum|row|; the factor covers the
        # rounding of this computation and of the magnitudes' own sums.
        unit = blocks.roundings * 2.0**-53 * (1.0 + 2.0**-10)
        for m in range(tile.rows):
            offset = abs(start[tile.group * c.rows + tile.row + m])
            errors[m] = unit * (largest * buffers.magnitudes[m] + offset) + (2.0**-1000 if wide else 0.0)
        # The window offsets have served; their place takes the positions that have undecided outputs.
        flagged = buffers.bases
        if f.sign == 31 and f.precision == 24:
            undecided, count = _test_float32(tile, sums, errors, codes, flagged)
        else:
            undecided, count = _test_narrow(tile, sums, errors, codes, f, cell, flagged)
        counts[BY_ROUNDING_TEST] += tile.rows * tile.items * tile.size[0] * tile.size[1] * tile.size[2] - undecided
        for i in range(count):
            _settle_position(
                c, tile, flagged[i], sums, rows, rows_table, source, source_table, start, f, wide, codes, counts,
                reached,
            )  # fmt: skip
        _write_codes(c, tile, codes, out)


@compiled
def _settle_doubles(c, blocks, tile, rows, rows_table, source, source_table, start, f, wide, out, counts, buffers):
    """All float64 outputs of a tile, from sums kept twice as precise; those that these cannot decide one by one."""
    largest = sum_tile(c, blocks, tile, rows, rows_table, source, source_table, start, buffers, True)
    sums, lows, flagged = buffers.sums, buffers.lows, buffers.bases
    codes, reached = sums.view(np.uint64), np.empty(MOST_REACHED, np.int64)
    positions = tile.items * tile.size[0] * tile.size[1] * tile.size[2]
    errors, zeros = np.empty(tile.rows), np.empty(tile.rows, np.bool_)
    for m in range(tile.rows):
        offset = abs(start[tile.group * c.rows + tile.row + m])
        errors[m] = bound_twice(c, blocks, largest * buffers.magnitudes[m] + offset)
        zeros[m] = offset == 0.0 and (largest == 0.0 or buffers.magnitudes[m] == 0.0)
    undecided, exact, count = 0, 0, 0
    for p in range(positions):
        differing = 0
        for m in range(tile.rows):
            high, low = sums[p, m], lows[p, m]
            error = errors[m] + 2.0**-51 * abs(low)
            nearest, other = high + (low - error), high + (low + error)
            settled = nearest == other and nearest != 0.0 and abs(nearest) < np.inf
            sums[p, m] = nearest if settled else np.nan
            differing += 0 if settled else 1
            if not settled and zeros[m] and high == 0.0:
                # Nothing but zeros, and neither infinity nor NaN: exactly +0.
                sums[p, m] = 0.0
                differing -= 1
                exact += 1
        if differing:
            undecided += differing
            flagged[count] = p
            count += 1
    counts[BY_EXACTNESS] += exact
    counts[BY_ROUNDING_TEST] += tile.rows * positions - undecided - exact
    for i in range(count):
        _settle_position(
            c, tile, flagged[i], sums, rows, rows_table, source, source_table, start, f, wide, codes, counts, reached
        )  # fmt: skip
    _write_codes(c, tile, codes, out)


@compiled
def _settle_each(c, tile, rows, rows_table, source, source_table, start, f, wide, out, counts):
    o = c.out_strides
    for m in range(tile.row, tile.row + tile.rows):
        offset = start[tile.group * c.rows + m]
        for b in range(tile.item, tile.item + tile.items):
            for i0 in range(tile.start[0], tile.start[0] + tile.size[0]):
                for i1 in range(tile.start[1], tile.start[1] + tile.size[1]):
                    at = tile.out_offset + tile.group * o[0] + m * o[1] + b * o[2] + i0 * o[3] + i1 * o[4]
                    for i2 in range(tile.start[2], tile.start[2] + tile.size[2]):
                        where = (tile.group, m, b, i0, i1, i2, tile.rows_offset)
                        code = settle_output(c, where, rows, rows_table, source, source_table, offset, f, wide, counts)
                        out[at + i2 * o[5]] = code


@compiled
def _test_float32(tile, sums, errors, codes, flagged):
    """Rounds sum - error and sum + error in hardware; where they disagree the sum becomes NaN and the position flagged.

    Returns how many outputs are undecided, at how many positions.
    """
    positions = tile.items * tile.size[0] * tile.size[1] * tile.size[2]
    nearest = codes.view(np.float32)
    upper = np.empty(sums.shape[1], np.float32)
    upper_codes = upper.view(np.uint32)
    undecided, count = 0, 0
    for p in range(positions):
        for m in range(tile.rows):
            nearest[p, m] = np.float32(sums[p, m] - errors[m])
            upper[m] = np.float32(sums[p, m] + errors[m])
        differing = 0
        for m in range(tile.rows):
            # Bits, not values: zeros of two signs are not settled, nor is anything infinite or NaN.
            same = codes[p, m] == upper_codes[m] and (codes[p, m] & 0x7FFFFFFF) < 0x7F800000
            differing += 0 if same else 1
        if differing:
            undecided += differing
            flagged[count] = p
            count += 1
            for m in range(tile.rows):
                if not (codes[p, m] == upper_codes[m] and (codes[p, m] & 0x7FFFFFFF) < 0x7F800000):
                    sums[p, m] = _mark_undecided(codes, p, m, sums[p, m])
    return undecided, count


@compiled
def _test_narrow(tile, sums, errors, codes, f, cell, flagged):
    """As `_test_float32`, for any format that is not wider than 32 bits.

    Numbers that are normal in it are rounded by their bits, ties to even; the others of a position one by one.
    """
    positions = tile.items * tile.size[0] * tile.size[1] * tile.size[2]
    below, above = np.empty(tile.rows), np.empty(tile.rows)
    below_bits, above_bits = below.view(np.int64), above.view(np.int64)
    # Of float64's bits so many go; what is left counts up the format's numbers, from a float64 exponent's bias.
    dropped = 53 - f.precision
    half = (np.int64(1) << (dropped - 1)) - 1
    least = np.int64(f.quantum + f.precision - 1 + 1023) << 52
    bias = np.int64(f.quantum + f.precision - 2 + 1023) << (f.precision - 1)
    undecided, count = 0, 0
    for p in range(positions):
        open_ = 0
        for m in range(tile.rows):
            # Rounding these two to float64 first is safe: they bound the sum, and the error allows for it.
            below[m], above[m] = sums[p, m] - errors[m], sums[p, m] + errors[m]
        for m in range(tile.rows):
            one, other = below_bits[m] & 0x7FFFFFFFFFFFFFFF, above_bits[m] & 0x7FFFFFFFFFFFFFFF
            lower = ((one + half + ((one >> dropped) & 1)) >> dropped) - bias
            upper = ((other + half + ((other >> dropped) & 1)) >> dropped) - bias
            negative = np.int64(1) if below_bits[m] < 0 else np.int64(0)
            alike = (below_bits[m] ^ above_bits[m]) >= 0 and lower == upper
            plain = one >= least and other >= least and lower <= f.largest
            codes[p, m] = np.uint32(lower | (negative << f.sign))
            open_ += 0 if alike and plain else 1
        if not open_:
            continue
        differing = 0
        for m in range(tile.rows):
            if abs(below[m]) < np.inf and abs(above[m]) < np.inf:
                lower_code = encode_pair(below[m], 0.0, f, cell)
                if lower_code == encode_pair(above[m], 0.0, f, cell):
                    codes[p, m] = lower_code
                    continue
            sums[p, m] = _mark_undecided(codes, p, m, sums[p, m])
            differing += 1
        if differing:
            undecided += differing
            flagged[count] = p
            count += 1
    return undecided, count


@compiled
def _mark_undecided(codes, p, m, total):
    """What stands for an undecided sum: NaN; a zero stays, with a code that is none of a zero that is settled."""
    if total == 0.0:
        codes[p, m] = 1
        return 0.0
    return np.nan


@compiled
def _settle_position(
    c, tile, p, sums, rows, rows_table, source, source_table, start, f, wide, codes, counts, reached
):  # fmt: skip
    """Settles one by one the outputs of a position whose sum is NaN, or a zero that is not settled.

    Behind a relu most of a window of the source is zero, and of a gradient too: where all products are, so is the sum.
    """
    line, i2 = p // tile.size[2], p % tile.size[2]
    plane, i1 = line // tile.size[1], line % tile.size[1]
    b, i0 = plane // tile.size[0], plane % tile.size[0]
    count = _NOT_LISTED
    for m in range(tile.rows):
        is_zero = sums[p, m] == 0.0 and codes[p, m] != 0
        if is_zero or np.isnan(sums[p, m]):
            where = (
                tile.group, tile.row + m, tile.item + b, tile.start[0] + i0, tile.start[1] + i1, tile.start[2] + i2,
                tile.rows_offset,
            )  # fmt: skip
            offset = start[tile.group * c.rows + tile.row + m]
            if is_zero and offset == 0.0:
                if count == _NOT_LISTED:
                    count = list_reached(c, where, source, source_table, reached)
                # A product with infinity or NaN would have left no zero.
                if count >= 0 and reads_zeros(c, where, rows, rows_table, reached, count):
                    codes[p, m] = 0
                    counts[BY_EXACTNESS] += 1
                    continue
            codes[p, m] = settle_output(c, where, rows, rows_table, source, source_table, offset, f, wide, counts)


@compiled
def _write_codes(c, tile, codes, out):
    """From [position, row] to the result's layout, in blocks of rows, so that each cache line is read once."""
    o = c.out_strides
    for first in range(0, tile.rows, _ROWS_AT_ONCE):
        last = min(first + _ROWS_AT_ONCE, tile.rows)
        p = 0
        for b in range(tile.items):
            for i0 in range(tile.size[0]):
                for i1 in range(tile.size[1]):
                    line = tile.out_offset + tile.group * o[0] + tile.row * o[1] + (tile.item + b) * o[2]
                    line += (tile.start[0] + i0) * o[3] + (tile.start[1] + i1) * o[4] + tile.start[2] * o[5]
                    for m in range(first, last):
                        _write_run(codes[p : p + tile.size[2], m], out, line + m * o[1], o[5])
                    p += tile.size[2]


@compiled
def _write_run(codes, out, at, step):
    target = out[at : at + (codes.size - 1) * step + 1]
    if step == 1:
        for i in range(codes.size):
            target[i] = codes[i]
    else:
        for i in range(codes.size):
            target[i * step] = codes[i]
