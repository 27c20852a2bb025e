"""Float64 sums of one tile of a contraction, in buffers that stay in the cache whatever the problem's size.

A tile is a box of outputs (rows x batch x positions). Its terms are taken in chunks: each chunk's window of the source
is copied once as float64 with explicit zeros around it, each chunk's rows are packed LANES to a term, and the
microkernel adds all products. A term thus passes through at most `chain` roundings within its chunk, one more if its
product is rounded on its own, and one per chunk after that; `Blocks.roundings` counts these and one to spare, so the sum
of a tile, and what is left of it after one more addition, is off by at most roundings * 2^-53 * sum |row| |source|
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2; linear terms suffice: Jeannerod and Rump,
Improved error bounds for inner products in floating-point arithmetic, SIAM J. Matrix Anal. Appl. 34(2), 2013).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from samebits.contraction.microkernel import LANES, PIXELS, add_terms, prefetch
from samebits.contraction.plan import Contraction, Three

# Measured on ResNet-50's layers: shorter chunks load C too often, longer ones fall out of the first-level cache.
TERMS_PER_CHUNK = 144
OUTPUTS_PER_TILE = 360
ROWS_PER_TILE = 512
# Rows are divided further until every thread has this many tiles.
TASKS_PER_THREAD = 2
WINDOW_DOUBLES = 96 * 1024
# Rows of a buffer are this much longer than they need to be: a power of two between them maps all to few cache sets.
SPARE = 16


class Blocks(NamedTuple):
    """The box of one tile and of one chunk, and the sizes of the buffers they need (in doubles).

    Along each axis a window holds every `grid`-th source position: those that no output and no term reaches are left out.
    """

    rows: int
    batch: int
    outputs: Three
    depth: int
    terms: Three
    window: Three
    grid: Three
    tasks: int
    chain: int
    roundings: int

    @property
    def positions(self) -> int:
        """Columns of the tile's sums, rounded up to whole microkernel calls."""
        return -(-self.batch * math.prod(self.outputs) // PIXELS) * PIXELS


def choose_blocks(c: Contraction, threads: int) -> Blocks:
    """Boxes for a contraction: innermost axes first, then shrunk until the source window fits its buffer."""
    *outputs, batch = _fill((*c.outputs[::-1], c.batch), OUTPUTS_PER_TILE)
    *terms, depth = _fill((*c.terms[::-1], c.depth), TERMS_PER_CHUNK)
    box = [*outputs[::-1], batch, *terms[::-1], depth]
    while _window_size(c, box) > WINDOW_DOUBLES:
        if box[7] > 1:
            box[7] = box[7] // 2
        else:
            largest = max((i for i in range(7) if box[i] > 1), key=lambda i: _window_share(c, box, i), default=None)
            if largest is None:
                break
            box[largest] = -(-box[largest] // 2)
    outputs3, terms3 = (box[0], box[1], box[2]), (box[4], box[5], box[6])
    chunks = math.prod(-(-n // b) for n, b in zip((*c.terms, c.depth), (*terms3, box[7]), strict=True) if b)
    tiles = c.groups * math.prod(-(-n // b) for n, b in zip((*c.outputs, c.batch), box[:4], strict=True))
    rows = _choose_rows(c.rows, tiles, TASKS_PER_THREAD * threads)
    chain = math.prod(terms3) * box[7]
    return Blocks(
        rows, box[3], outputs3, box[7], terms3, _window(c, box), _grid(c),
        -(-c.rows // rows) * tiles, chain, chain + chunks + 2,
    )  # fmt: skip


def _choose_rows(rows: int, tiles: int, fewest: int) -> int:
    """Rows of one tile: whole vectors of them, few enough for `fewest` tiles in all."""
    pieces = max(-(-rows // ROWS_PER_TILE), -(-fewest // tiles))
    return -(-rows // pieces // LANES) * LANES if rows // pieces >= LANES else LANES


def _fill(sizes: tuple[int, ...], target: int) -> list[int]:
    """The largest even parts of `sizes`, first axes first, whose product stays at or below the target."""
    parts = []
    for size in sizes:
        part = _even_part(size, max(target, 1)) if size else 0
        parts.append(part)
        target //= max(part, 1)
    return parts


def _even_part(size: int, most: int) -> int:
    """`size` divided into the fewest equal parts of at most `most`."""
    pieces = -(-size // most)
    return -(-size // pieces)


def _grid(c: Contraction) -> Three:
    """The greatest common divisor of an axis's steps; a single term has no step."""
    steps = [
        math.gcd(c.source_output_step[a] if c.outputs[a] > 1 else 0, c.source_term_step[a] if c.terms[a] > 1 else 0) or 1
        for a in range(3)
    ]
    return steps[0], steps[1], steps[2]


def _window(c: Contraction, box: list[int]) -> Three:
    reaches = [
        (box[a] - 1) * c.source_output_step[a] + max(box[4 + a] - 1, 0) * abs(c.source_term_step[a]) for a in range(3)
    ]
    spans = [reach // step + 1 for reach, step in zip(reaches, _grid(c), strict=True)]
    return spans[0], spans[1], spans[2]


def _window_size(c: Contraction, box: list[int]) -> int:
    return box[3] * max(box[7], 1) * math.prod(_window(c, box))


def _window_share(c: Contraction, box: list[int], i: int) -> int:
    """How many doubles the window loses when entry i of the box is halved."""
    smaller = list(box)
    smaller[i] = -(-box[i] // 2)
    return _window_size(c, box) - _window_size(c, smaller)


def load(array, index, table):
    """array[index] as float64; narrow formats travel as codes and are looked up in their table of values."""
    value = array[index]
    return float(table[value] if array.dtype.kind == "u" else value)


@overload(load, inline="always")
def _compile_load(array, index, table):
    if str(array.dtype).startswith("uint"):
        return lambda array, index, table: np.float64(table[array[index]])
    return lambda array, index, table: np.float64(array[index])


class Tile(NamedTuple):
    """Where one tile lies: group, first row, first batch item, first outputs, and how many of each."""

    group: int
    row: int
    rows: int
    item: int
    items: int
    start: Three
    count: Three


@njit(nogil=True, cache=True)
def locate_tile(c, blocks, task):
    """The tile with number `task`, outputs innermost, groups outermost."""
    start2, task = _digit(task, c.outputs[2], blocks.outputs[2])
    start1, task = _digit(task, c.outputs[1], blocks.outputs[1])
    start0, task = _digit(task, c.outputs[0], blocks.outputs[0])
    item, task = _digit(task, c.batch, blocks.batch)
    row, group = _digit(task, c.rows, blocks.rows)
    return Tile(
        group, row, min(blocks.rows, c.rows - row), item, min(blocks.batch, c.batch - item),
        (start0, start1, start2),
        (
            min(blocks.outputs[0], c.outputs[0] - start0),
            min(blocks.outputs[1], c.outputs[1] - start1),
            min(blocks.outputs[2], c.outputs[2] - start2),
        ),
    )  # fmt: skip


@njit(inline="always")
def _digit(number, size, block):
    pieces = (size + block - 1) // block
    return number % pieces * block, number // pieces


class Buffers(NamedTuple):
    """One thread's working memory."""

    sums: np.ndarray  # float64 [positions, rows and some to spare]
    window: np.ndarray  # float64, the chunk's source
    packed: np.ndarray  # float64, LANES rows of the chunk
    bases: np.ndarray  # int64 [positions], where in the window each output's source begins
    offsets: np.ndarray  # int64 [chain], how far from there each term lies
    magnitudes: np.ndarray  # float64 [rows], sum of |row| over all terms so far
    codes: np.ndarray  # uint32 [as sums], for whoever turns sums into results


def count_doubles(blocks: Blocks) -> int:
    """How many doubles the buffers of these blocks take; about 250,000 (2 MiB) for ordinary problems."""
    return sum(_buffer_sizes(blocks))


def _buffer_sizes(blocks: Blocks) -> tuple[int, ...]:
    sums = blocks.positions * (blocks.rows + SPARE)
    window = blocks.batch * max(blocks.depth, 1) * math.prod(blocks.window)
    chain = max(blocks.chain, 1)
    return sums, window, chain * LANES, blocks.positions, chain, blocks.rows, -(-sums // 2)


def place_buffers(blocks: Blocks, arena: np.ndarray) -> Buffers:
    """Buffers for any tile of these blocks inside `arena`, a float64 array of at least `count_doubles` elements."""
    parts, start = [], 0
    for size in _buffer_sizes(blocks):
        parts.append(arena[start : start + size])
        start += size
    shape = (blocks.positions, blocks.rows + SPARE)
    codes = parts[6].view(np.uint32)[: math.prod(shape)].reshape(shape)
    return Buffers(
        parts[0].reshape(shape), parts[1], parts[2], parts[3].view(np.int64), parts[4].view(np.int64), parts[5], codes
    )


@njit(nogil=True, cache=True)
def sum_tile(c, blocks, tile, rows, rows_table, source, source_table, start, buffers):
    """Fills buffers.sums with start[row] + the sums of the tile; returns the largest finite |source| that was read.

    `buffers.magnitudes` receives, per row, the sum of |row value| over all finite terms.
    """
    lanes = (tile.rows + LANES - 1) // LANES * LANES
    first = buffers.sums[0]
    first[:lanes] = 0.0
    first[: tile.rows] = start[tile.group * c.rows + tile.row : tile.group * c.rows + tile.row + tile.rows]
    for p in range(1, buffers.sums.shape[0]):
        buffers.sums[p, :lanes] = first[:lanes]
    for m in range(tile.rows):
        buffers.magnitudes[m] = _sum_row_magnitudes(c, tile.group, tile.row + m, rows, rows_table)
    positions = _place_outputs(c, blocks, tile, buffers.bases)
    largest = np.int64(0)
    if blocks.chain > 0:
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
                        _add_chunk(c, tile, chunk, count, rows, rows_table, positions, buffers)
    return _float_from_bits(largest)


@njit(inline="always")
def _place_outputs(c, blocks, tile, bases):
    """The window offset of every output of the tile; the tail of the last microkernel call repeats the first."""
    n = 0
    size0, size1, size2 = blocks.window
    for b in range(tile.items):
        for i0 in range(tile.count[0]):
            for i1 in range(tile.count[1]):
                at0 = i0 * c.source_output_step[0] // blocks.grid[0]
                at1 = i1 * c.source_output_step[1] // blocks.grid[1]
                line = ((b * size0 + at0) * size1 + at1) * size2
                for i2 in range(tile.count[2]):
                    bases[n] = line + i2 * c.source_output_step[2] // blocks.grid[2]
                    n += 1
    whole = (n + PIXELS - 1) // PIXELS * PIXELS
    for p in range(n, whole):
        bases[p] = bases[0]
    return whole


@njit(inline="always")
def _first(steps, count):
    return min(steps * (count - 1), 0)


@njit(inline="always")
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


@njit(inline="always")
def _copy_window(c, blocks, tile, chunk, count, source, table, window):
    """Copies the chunk's source as float64 with zeros where there is none; returns the bits of the largest |value|."""
    size0, size1, size2 = blocks.window
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
                    window[line : line + top * size2] = 0.0
                    window[line + bottom * size2 : line + size1 * size2] = 0.0
                    at = plane + at0 * c.source_strides[3] + (low1 + top * grid1) * c.source_strides[4] + low2
                    if is_whole:
                        _copy_run(source, at, 1, table, window, line + top * size2, (bottom - top) * size2)
                    else:
                        for s1 in range(top, bottom):
                            n = line + s1 * size2
                            window[n : n + begin] = 0.0
                            _copy_run(source, at + begin * grid2, grid2, table, window, n + begin, end - begin)
                            window[n + end : n + size2] = 0.0
                            at += grid1 * c.source_strides[4]
                else:
                    window[line : line + size1 * size2] = 0.0
                line += size1 * size2
        first = d * blocks.batch * volume
        largest = max(largest, _largest_bits(window[first : first + tile.items * volume]))
    return largest


@njit(inline="always")
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


@njit(inline="always")
def _largest_bits(values):
    """The bits of the largest finite magnitude: for floats of one sign, order of bits is order of values."""
    bits = values.view(np.int64)
    largest = np.int64(0)
    for i in range(bits.size):
        magnitude = bits[i] & np.int64(0x7FFFFFFFFFFFFFFF)
        largest = max(largest, magnitude if magnitude < np.int64(0x7FF0000000000000) else np.int64(0))
    return largest


@njit(inline="always")
def _float_from_bits(bits):
    cell = np.empty(1, np.int64)
    cell[0] = bits
    return cell.view(np.float64)[0]


@njit(inline="always")
def _add_chunk(c, tile, chunk, count, rows, table, positions, buffers):
    terms = count[0] * count[1] * count[2] * count[3]
    stride = buffers.sums.shape[1]
    for m in range(0, tile.rows, LANES):
        _pack_rows(c, tile, chunk, count, m, rows, table, buffers.packed)
        for p in range(0, positions, PIXELS):
            add_terms(
                buffers.packed.ctypes.data, buffers.window.ctypes.data, buffers.bases.ctypes.data + 8 * p,
                buffers.offsets.ctypes.data, terms, buffers.sums.ctypes.data + 8 * (p * stride + m), stride,
            )  # fmt: skip


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _sum_row_magnitudes(c, group, row, rows, table):
    """Sum of the finite |values| of one row, in any order (the bound it enters allows for that)."""
    strides = c.rows_strides
    at = c.rows_offset + group * strides[0] + row * strides[1]
    length, step, depth, planes, lines = _merge_runs(strides, (c.depth, c.terms[0], c.terms[1], c.terms[2]))
    total = 0.0
    for d in range(depth):
        for r0 in range(planes):
            for r1 in range(lines):
                line = at + d * strides[2] + r0 * strides[3] + r1 * strides[4]
                run = rows[line : line + (length - 1) * step + 1]
                if step == 1:
                    for r2 in range(length):
                        value = abs(load(run, r2, table))
                        total += value if value < np.inf else 0.0
                else:
                    for r2 in range(length):
                        value = abs(load(run, r2 * step, table))
                        total += value if value < np.inf else 0.0
    return total


@njit(inline="always")
def _merge_runs(strides, count):
    """The four loops over a row's terms as (length, step, depth, planes, lines), inner ones merged where they can be."""
    length, step, lines = _merge_run(count[3], strides[5], count[2], strides[4])
    planes, depth = count[1], count[0]
    if lines == 1:
        length, step, planes = _merge_run(length, step, count[1], strides[3])
        if planes == 1:
            length, step, depth = _merge_run(length, step, count[0], strides[2])
    return length, step, depth, planes, lines


@njit(inline="always")
def _merge_run(length, step, count, stride):
    """One loop out of an inner loop (length, step) and the loop around it (count, stride): (length, step, outer count)."""
    if length == 1:
        return count, stride, 1
    if stride == length * step:
        return length * count, step, 1
    return length, step, count


@njit(inline="always")
def _pack_rows(c, tile, chunk, count, first, rows, table, packed):
    """Packs the chunk of LANES rows, term by term; rows beyond the tile's last are zero."""
    strides = c.rows_strides
    at = c.rows_offset + tile.group * strides[0] + (tile.row + first) * strides[1]
    at += chunk[0] * strides[2] + chunk[1] * strides[3] + chunk[2] * strides[4] + chunk[3] * strides[5]
    length, step, depth, planes, lines = _merge_runs(strides, count)
    present = min(LANES, tile.rows - first)
    n = 0
    for d in range(depth):
        for r0 in range(planes):
            for r1 in range(lines):
                line = at + d * strides[2] + r0 * strides[3] + r1 * strides[4]
                _pack_run(rows, line, step, strides[1], length, present, table, packed, n)
                n += length * LANES


@njit(inline="always")
def _pack_run(rows, at, step, row_stride, length, present, table, packed, n):
    """Transposes a run of terms, a few at a time, row by row: rows often lie a power of two apart, in one cache set."""
    for first in range(0, length, LANES):
        count = min(LANES, length - first)
        block = packed[n + first * LANES : n + (first + count) * LANES]
        for lane in range(present):
            row = at + lane * row_stride + first * step
            run = rows[row : row + (count - 1) * step + 1]
            # The next LANES rows' part of this run is wanted soon.
            prefetch(rows.ctypes.data + (row + LANES * row_stride) * rows.itemsize)
            target = block[lane:]
            if step == 1:
                for r in range(count):
                    target[r * LANES] = load(run, r, table)
            else:
                for r in range(count):
                    target[r * LANES] = load(run, r * step, table)
        for lane in range(present, LANES):
            for r in range(count):
                block[r * LANES + lane] = 0.0
