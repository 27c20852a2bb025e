"""Float64 sums of one tile of a contraction, in buffers that stay in the cache whatever the problem's size.

A tile is a box of outputs (rows x batch x positions):

        source window of a chunk        packed rows of a chunk          sums of the tile
        depth | copied once, with       terms  | LANES rows side        positions | start[row], then each
              | zeros for padding              | by side, zeros behind            | chunk's products added

Its terms are taken in chunks: each chunk's window of the source is copied once as float64 with explicit zeros around
it, each chunk's rows are packed LANES to a term, and the microkernel adds all products. A term thus passes through at
most `chain` roundings within its chunk, one more if its product is rounded on its own, and one per chunk after that;
`Blocks.roundings` counts these and one to spare, so the sum of a tile, and what is left of it after one more
addition, is off by at most roundings * 2^-53 * sum |row| |source| (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 4.2; linear terms suffice: Jeannerod and Rump, Improved error bounds for inner products
in floating-point arithmetic, SIAM J. Matrix Anal. Appl. 34(2), 2013).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.microkernel import LANES, PIXELS, add_terms, add_terms_twice
from samebits.sums.tiles.plan import Three
from samebits.sums.tiles.rows import load, pack_rows, sum_row_magnitudes

# Where there are no more positions than this, rows are not packed for vectors of them.
MOST_DOT_POSITIONS = min(8, LANES, PIXELS)


class Tile(NamedTuple):
    """Where one tile lies: group, first row, first batch item, first outputs, how many of each; its phase's offsets."""

    group: int
    row: int
    rows: int
    item: int
    items: int
    start: Three
    size: Three
    rows_offset: int
    out_offset: int


@compiled
def locate_tile(c, blocks, task):
    """The tile with number `task`, outputs innermost, then rows and phases, groups outermost."""
    start2, task = _digit(task, c.outputs[2], blocks.outputs[2])
    start1, task = _digit(task, c.outputs[1], blocks.outputs[1])
    start0, task = _digit(task, c.outputs[0], blocks.outputs[0])
    item, task = _digit(task, c.batch, blocks.batch)
    row, task = _digit(task, c.rows, blocks.rows)
    phase2, task = _digit(task, c.phases[2], 1)
    phase1, task = _digit(task, c.phases[1], 1)
    phase0, group = _digit(task, c.phases[0], 1)
    into_rows, into_out = c.rows_phase_steps, c.out_phase_steps
    return Tile(
        group, row, min(blocks.rows, c.rows - row), item, min(blocks.batch, c.batch - item),
        (start0, start1, start2),
        (
            min(blocks.outputs[0], c.outputs[0] - start0),
            min(blocks.outputs[1], c.outputs[1] - start1),
            min(blocks.outputs[2], c.outputs[2] - start2),
        ),
        c.rows_offset + phase0 * into_rows[0] + phase1 * into_rows[1] + phase2 * into_rows[2],
        c.out_offset + phase0 * into_out[0] + phase1 * into_out[1] + phase2 * into_out[2],
    )  # fmt: skip


@compiled
def _digit(number, size, block):
    pieces = (size + block - 1) // block
    return number % pieces * block, number // pieces


@compiled
def sum_tile(c, blocks, tile, rows, rows_table, source, source_table, start, buffers, twice):
    """Fills buffers.sums with start[row] + the sums of the tile; returns the largest finite |source| that was read.

    `buffers.magnitudes` receives, per row, the sum of |row value| over all finite terms. With `twice` (which needs a
    fused multiply-add) a sum is buffers.sums + buffers.lows; `bound_twice` says how far that is off.
    """
    for m in range(buffers.start.size):
        buffers.start[m] = start[tile.group * c.rows + tile.row + m] if m < tile.rows else 0.0
    for m in range(tile.rows):
        buffers.magnitudes[m] = sum_row_magnitudes(c, tile, tile.row + m, rows, rows_table)
    positions = _place_outputs(c, blocks, tile, buffers.bases)
    largest = np.int64(0)
    is_first = True
    anchors = np.empty(LANES if twice else 0)
    if twice:
        for p in range(positions):
            for m in range(buffers.start.size):
                buffers.sums[p, m] = buffers.start[m]
                buffers.lows[p, m] = 0.0
    for depth in range(0, c.depth, blocks.depth):
        for t0 in range(0, c.terms[0], blocks.terms[0]):
            for t1 in range(0, c.terms[1], blocks.terms[1]):
                for t2 in range(0, c.terms[2], blocks.terms[2]):
                    chunk = (depth, t0, t1, t2)
                    count = (
                        min(blocks.depth, c.depth - depth), min(blocks.terms[0], c.terms[0] - t0),
                        min(blocks.terms[1], c.terms[1] - t1), min(blocks.terms[2], c.terms[2] - t2),
                    )  # fmt: skip
                    seen = _copy_window(c, blocks, tile, chunk, count, source, source_table, buffers.window)
                    largest = max(largest, seen)
                    _place_terms(c, blocks, count, buffers.offsets)
                    if twice:
                        bound = _float_from_bits(largest)
                        _add_chunk_twice(c, tile, chunk, count, rows, rows_table, positions, buffers, bound, anchors)
                    else:
                        _add_chunk(c, tile, chunk, count, rows, rows_table, positions, buffers, is_first)
                    is_first = False
    return _float_from_bits(largest)


@compiled
def has_dots(c):
    """Whether all sums of a contraction are dot products of rows without gaps, its positions items of a batch."""
    places = c.outputs[0] * c.outputs[1] * c.outputs[2]
    return places == 1 and c.terms[0] * c.terms[1] * c.terms[2] == 1 and c.rows_strides[2] == 1


@compiled
def _place_outputs(c, blocks, tile, bases):
    """The window offset of every output of the tile; the tail of the last microkernel call repeats the first."""
    n = 0
    size0, size1, size2 = blocks.window
    for b in range(tile.items):
        for i0 in range(tile.size[0]):
            for i1 in range(tile.size[1]):
                at0 = i0 * c.source_output_step[0] // blocks.grid[0]
                at1 = i1 * c.source_output_step[1] // blocks.grid[1]
                line = ((b * size0 + at0) * size1 + at1) * size2
                for i2 in range(tile.size[2]):
                    bases[n] = line + i2 * c.source_output_step[2] // blocks.grid[2]
                    n += 1
    whole = (n + PIXELS - 1) // PIXELS * PIXELS
    for p in range(n, whole):
        bases[p] = bases[0]
    return whole


@compiled
def _first(steps, count):
    return min(steps * (count - 1), 0)


@compiled
def _place_terms(c, blocks, count, offsets):
    size0, size1, size2 = blocks.window
    n = 0
    for d in range(count[0]):
        for r0 in range(count[1]):
            at0 = (r0 * c.source_term_step[0] - _first(c.source_term_step[0], count[1])) // blocks.grid[0]
            for r1 in range(count[2]):
                at1 = (r1 * c.source_term_step[1] - _first(c.source_term_step[1], count[2])) // blocks.grid[1]
                for r2 in range(count[3]):
                    at2 = (r2 * c.source_term_step[2] - _first(c.source_term_step[2], count[3])) // blocks.grid[2]
                    offsets[n] = ((d * blocks.batch * size0 + at0) * size1 + at1) * size2 + at2
                    n += 1


@compiled
def _copy_window(c, blocks, tile, chunk, count, source, table, window):
    """Copies the chunk's source as float64 with zeros where there is none; returns the bits of the largest |value|."""
    size0, size1, size2 = blocks.window
    if c.terms[0] * c.terms[1] * c.terms[2] == 1 and c.outputs[0] * c.outputs[1] * c.outputs[2] == 1:
        return _copy_points(c, blocks, tile, chunk, count, source, table, window)
    low0 = c.source_start[0] + tile.start[0] * c.source_output_step[0] + chunk[1] * c.source_term_step[0]
    low1 = c.source_start[1] + tile.start[1] * c.source_output_step[1] + chunk[2] * c.source_term_step[1]
    low2 = c.source_start[2] + tile.start[2] * c.source_output_step[2] + chunk[3] * c.source_term_step[2]
    low0 += _first(c.source_term_step[0], count[1])
    low1 += _first(c.source_term_step[1], count[2])
    low2 += _first(c.source_term_step[2], count[3])
    grid0, grid1, grid2 = blocks.grid
    begin = min(max((-low2 + grid2 - 1) // grid2, 0), size2)
    end = max(min(size2, (c.source_size[2] - low2 + grid2 - 1) // grid2), begin)
    top = min(max((-low1 + grid1 - 1) // grid1, 0), size1)
    bottom = max(min(size1, (c.source_size[1] - low1 + grid1 - 1) // grid1), top)
    # Whole lines that follow each other in memory are one run.
    is_whole = begin == 0 and end == size2 and grid1 == 1 and grid2 == 1 and c.source_strides[4] == size2
    volume = size0 * size1 * size2
    largest = np.int64(0)
    for d in range(count[0]):
        for b in range(tile.items):
            plane = (
                tile.group * c.source_strides[0]
                + (tile.item + b) * c.source_strides[1]
                + (chunk[0] + d) * c.source_strides[2]
            )
            line = (d * blocks.batch + b) * volume
            for s0 in range(size0):
                at0 = low0 + s0 * grid0
                if 0 <= at0 < c.source_size[0]:
                    _clear(window[line : line + top * size2])
                    _clear(window[line + bottom * size2 : line + size1 * size2])
                    at = plane + at0 * c.source_strides[3] + (low1 + top * grid1) * c.source_strides[4] + low2
                    if is_whole:
                        _copy_run(source, at, 1, table, window, line + top * size2, (bottom - top) * size2)
                    else:
                        for s1 in range(top, bottom):
                            n = line + s1 * size2
                            _clear(window[n : n + begin])
                            _copy_run(source, at + begin * grid2, grid2, table, window, n + begin, end - begin)
                            _clear(window[n + end : n + size2])
                            at += grid1 * c.source_strides[4]
                else:
                    _clear(window[line : line + size1 * size2])
                line += size1 * size2
        first = d * blocks.batch * volume
        largest = max(largest, _largest_bits(window[first : first + tile.items * volume]))
    return largest


@compiled
def _copy_points(c, blocks, tile, chunk, count, source, table, window):
    """As `_copy_window` where every item of the batch has one source value to a term: a transposition in blocks."""
    present = True
    at = tile.group * c.source_strides[0] + tile.item * c.source_strides[1] + chunk[0] * c.source_strides[2]
    for axis in range(3):
        place = c.source_start[axis]
        present &= 0 <= place < c.source_size[axis]
        at += place * c.source_strides[3 + axis]
    step, largest = c.source_strides[2], np.int64(0)
    for first in range(0, count[0], LANES):
        last = min(first + LANES, count[0])
        block = window[first * blocks.batch : last * blocks.batch]
        for b in range(tile.items):
            line = at + b * c.source_strides[1] + first * step
            target = block[b:]
            if not present:
                for d in range(last - first):
                    target[d * blocks.batch] = 0.0
            elif step == 1:
                run = source[line : line + last - first]
                for d in range(last - first):
                    target[d * blocks.batch] = load(run, d, table)
            else:
                run = source[line : line + (last - first - 1) * step + 1]
                for d in range(last - first):
                    target[d * blocks.batch] = load(run, d * step, table)
        for d in range(last - first):
            largest = max(largest, _largest_bits(block[d * blocks.batch : d * blocks.batch + tile.items]))
    return largest


@compiled
def _clear(run):
    for i in range(run.size):
        run[i] = 0.0


@compiled
def _copy_run(source, at, step, table, window, n, count):
    """window[n + i] = source[at + i * step]; through slices, whose indices are known not to be negative."""
    target = window[n : n + count]
    if step == 1:
        run = source[at : at + count]
        for i in range(count):
            target[i] = load(run, i, table)
    else:
        run = source[at : at + count * step]
        for i in range(count):
            target[i] = load(run, i * step, table)


@compiled
def _largest_bits(values):
    """The bits of the largest finite magnitude: for floats of one sign, order of bits is order of values."""
    bits = values.view(np.int64)
    largest = np.int64(0)
    for i in range(bits.size):
        magnitude = bits[i] & np.int64(0x7FFFFFFFFFFFFFFF)
        largest = max(largest, magnitude if magnitude < np.int64(0x7FF0000000000000) else np.int64(0))
    return largest


@compiled
def _float_from_bits(bits):
    cell = np.empty(1, np.int64)
    cell[0] = bits
    return cell.view(np.float64)[0]


@compiled
def _add_chunk(c, tile, chunk, count, rows, table, positions, buffers, is_first):
    terms = count[0] * count[1] * count[2] * count[3]
    stride = buffers.sums.shape[1]
    if positions == PIXELS and tile.items <= MOST_DOT_POSITIONS and has_dots(c):
        _add_dots(c, tile, chunk, terms, rows, table, buffers, is_first)
        return
    for m in range(0, tile.rows, LANES):
        pack_rows(c, tile, chunk, count, m, rows, table, buffers.packed)
        for p in range(0, positions, PIXELS):
            sums = buffers.sums.ctypes.data + 8 * (p * stride + m)
            # The first chunk is added to what the sums start from, the others to what they have come to.
            before = buffers.start.ctypes.data + 8 * m if is_first else sums
            add_terms(
                buffers.packed.ctypes.data, buffers.window.ctypes.data, buffers.bases.ctypes.data + 8 * p,
                buffers.offsets.ctypes.data, terms, before, 0 if is_first else stride, sums, stride,
            )  # fmt: skip


@compiled
def _add_dots(c, tile, chunk, terms, rows, table, buffers, is_first):
    """As `_add_chunk` for few positions of a product: each sum by itself, read where its row lies.

    Its terms are added in as many chains as the compiler likes, each no longer than one chain would be.
    """
    at = tile.rows_offset + tile.group * c.rows_strides[0] + tile.row * c.rows_strides[1] + chunk[0] * c.rows_strides[2]
    values = buffers.packed
    for p in range(tile.items):
        for t in range(terms):
            values[p * terms + t] = buffers.window[buffers.bases[p] + buffers.offsets[t]]
    for m in range(tile.rows):
        line = at + m * c.rows_strides[1]
        row = rows[line : line + terms]
        for p in range(0, tile.items - 3, 4):
            four = _dot_four(row, table, values[p * terms : (p + 4) * terms], terms)
            for i in range(4):
                buffers.sums[p + i, m] = four[i] + (buffers.start[m] if is_first else buffers.sums[p + i, m])
        for p in range(tile.items // 4 * 4, tile.items):
            total = _dot(row, table, values[p * terms : (p + 1) * terms])
            buffers.sums[p, m] = total + (buffers.start[m] if is_first else buffers.sums[p, m])


@compiled(fastmath={"reassoc", "contract"})
def _dot(row, table, values):
    total = 0.0
    for t in range(values.size):
        total += load(row, t, table) * values[t]
    return total


@compiled(fastmath={"reassoc", "contract"})
def _dot_four(row, table, values, terms):
    """The row with each of four runs of values, read once."""
    first, second = values[:terms], values[terms : 2 * terms]
    third, fourth = values[2 * terms : 3 * terms], values[3 * terms : 4 * terms]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for t in range(terms):
        value = load(row, t, table)
        a += value * first[t]
        b += value * second[t]
        c += value * third[t]
        d += value * fourth[t]
    return a, b, c, d


@compiled
def _add_chunk_twice(c, tile, chunk, count, rows, table, positions, buffers, largest, anchors):
    terms = count[0] * count[1] * count[2] * count[3]
    stride = buffers.sums.shape[1]
    for m in range(0, tile.rows, LANES):
        pack_rows(c, tile, chunk, count, m, rows, table, buffers.packed)
        for lane in range(LANES):
            at = m + lane
            present = at < tile.rows
            magnitude = largest * buffers.magnitudes[at] + abs(buffers.start[at]) if present else 0.0
            anchors[lane] = 1.5 * 2.0**52 * find_last_place(magnitude)
        for p in range(0, positions, PIXELS):
            at = 8 * (p * stride + m)
            add_terms_twice(
                buffers.packed.ctypes.data, buffers.window.ctypes.data, buffers.bases.ctypes.data + 8 * p,
                buffers.offsets.ctypes.data, terms, anchors.ctypes.data, buffers.sums.ctypes.data + at,
                buffers.lows.ctypes.data + at, stride,
            )  # fmt: skip


@compiled
def find_last_place(magnitude):
    """The last place of chains of sums of at most this magnitude that are kept twice: 2^-52 of their anchor's power.

    That power is more than four times the magnitude and at most eight times; infinite where float64 has none.
    """
    if not magnitude < 2.0**1000:
        return np.inf
    _, exponent = math.frexp(magnitude)
    return 2.0 ** (max(exponent + 2, -900) - 52)


@compiled
def bound_twice(c, blocks, magnitude):
    """How far sums + lows may be off, where `magnitude` bounds the sum of all |terms| and the start.

    Let q be the last place (`find_last_place`), n the terms of a chunk, N those of all, k the chunks. What a product
    has beyond a multiple of q is at most q/2 and is rounded once, to 2^-53 of it; n of them are added, every sum of
    theirs at most n q/2: (n + n^2) 2^-54 q for a chunk. Each chunk then adds its rest, and the error (at most q/4) of a
    sum of at most 2^51 q, to `lows`, in two roundings, where there is never more than N q/2 + k q/4 and a bit. Twice
    all of it is taken, and 2^-1000 where products may underflow.
    """
    total = c.depth * c.terms[0] * c.terms[1] * c.terms[2]
    chunks = blocks.roundings - blocks.chain
    share = total * (blocks.chain + 1.0) + 2.0 * chunks * (total + chunks + 2.0)
    return share * 2.0**-53 * find_last_place(magnitude) + 2.0**-1000
