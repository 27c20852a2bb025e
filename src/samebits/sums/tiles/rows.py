"""Reading the rows of a contraction: single values, packed runs of LANES rows, sums of magnitudes."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.microkernel import LANES, prefetch


def load(array: np.ndarray, index: int, table: np.ndarray) -> float:
    """array[index] as float64; narrow formats travel as codes and are looked up in their table of values."""
    value = array[index]
    return float(table[value] if array.dtype.kind == "u" else value)


@overload(load, inline="always")
def _compile_load(array, index, table):
    if str(array.dtype).startswith("uint"):
        return lambda array, index, table: np.float64(table[array[index]])
    return lambda array, index, table: np.float64(array[index])


@compiled(fastmath={"reassoc"})
def sum_row_magnitudes(c, tile, row, rows, table):
    """Sum of the finite |values| of one row, in any order (the bound it enters allows for that)."""
    strides = c.rows_strides
    at = tile.rows_offset + tile.group * strides[0] + row * strides[1]
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


@compiled
def _merge_runs(strides, count):
    """The four loops over a row's terms, inner ones merged where possible: (length, step, depth, planes, lines)."""
    length, step, lines = _merge_run(count[3], strides[5], count[2], strides[4])
    planes, depth = count[1], count[0]
    if lines == 1:
        length, step, planes = _merge_run(length, step, count[1], strides[3])
        if planes == 1:
            length, step, depth = _merge_run(length, step, count[0], strides[2])
    return length, step, depth, planes, lines


@compiled
def _merge_run(length, step, count, stride):
    """An inner loop (length, step) and the one around it (count, stride) as one: (length, step, outer count)."""
    if length == 1:
        return count, stride, 1
    if stride == length * step:
        return length * count, step, 1
    return length, step, count


@compiled
def pack_rows(c, tile, chunk, count, first, rows, table, packed):
    """Packs the chunk of LANES rows, term by term; rows beyond the tile's last are zero."""
    strides = c.rows_strides
    at = tile.rows_offset + tile.group * strides[0] + (tile.row + first) * strides[1]
    at += chunk[0] * strides[2] + chunk[1] * strides[3] + chunk[2] * strides[4] + chunk[3] * strides[5]
    length, step, depth, planes, lines = _merge_runs(strides, count)
    present = min(LANES, tile.rows - first)
    n = 0
    if strides[1] == 1 and present == LANES:
        for d in range(depth):
            for r0 in range(planes):
                for r1 in range(lines):
                    line = at + d * strides[2] + r0 * strides[3] + r1 * strides[4]
                    for r in range(length):
                        source, target = rows[line + r * step :], packed[n : n + LANES]
                        for lane in range(LANES):
                            target[lane] = load(source, lane, table)
                        n += LANES
        return
    for d in range(depth):
        for r0 in range(planes):
            for r1 in range(lines):
                line = at + d * strides[2] + r0 * strides[3] + r1 * strides[4]
                _pack_run(rows, line, step, strides[1], length, present, table, packed, n)
                n += length * LANES


@compiled
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
