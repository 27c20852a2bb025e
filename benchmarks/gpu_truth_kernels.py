"""Triton kernels of the truth on a GPU: what a sum multiplies, in float64, and which sums round the same either way."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_kernel(
    source, table, columns, squares, places, outputs, volume, terms, step,
    batch_stride, depth_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """columns[t, p] = the source value that term t meets at place p, in float64; zero where there is none.

    `places` = batch x `outputs`; t = d * `volume` + v; `table` [volume, outputs] holds flat source indices, -1 for
    padding. Each program does `step` terms of BLOCK places, and writes the sum of their squares to squares[program, p].
    """
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < places
    item, place = p // outputs, p % outputs
    base = item.to(tl.int64) * batch_stride
    total = tl.zeros([BLOCK], tl.float64)
    first = tl.program_id(1) * step
    for t in range(first, tl.minimum(first + step, terms)):
        at = tl.load(table + (t % volume) * outputs + place, mask=inside, other=-1)
        there = inside & (at >= 0)
        value = (
            tl.load(source + base + (t // volume) * depth_stride + at, mask=there, other=0.0)
            .to(tl.float32)
            .to(tl.float64)
        )
        tl.store(columns + tl.cast(t, tl.int64) * places + p, value, mask=inside)
        total += value * value
    tl.store(squares + tl.program_id(1).to(tl.int64) * places + p, total, mask=inside)


@triton.jit
def settle_kernel(
    sums, bias, row_norms, column_norms, out, open_places, counter, most,
    places, outputs, row_stride, batch_stride, out_row, share, slack,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rounds sums[m, p] once; what both ends of its error's interval do not round to alike is listed as open.

    The error is at most `share` x row_norms[m] x column_norms[p] + `slack` x |sum|. KIND: 0 float32, 1 bfloat16,
    2 float16. An open output is listed as m * `places` + p, as long as there are at most `most`; all are counted.
    """
    m = tl.program_id(1)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < places
    value = tl.load(sums + m.to(tl.int64) * row_stride + p, mask=inside, other=0.0) + tl.load(bias + m)
    error = share * tl.load(row_norms + m) * tl.load(column_norms + p, mask=inside, other=0.0) + slack * tl.abs(value)
    # Adding zero leaves no negative zero.
    low = (value - error).to(tl.float32) + 0.0
    high = (value + error).to(tl.float32) + 0.0
    one, other = low.to(tl.int32, bitcast=True), high.to(tl.int32, bitcast=True)
    # Rounding by way of float32 is rounding once, except from halfway between two results.
    if KIND == 1:
        # To nearest even by its bits: float32 without its last 16.
        result = ((one + 0x7FFF + ((one >> 16) & 1)) >> 16).to(tl.int16)
        alike = result == ((other + 0x7FFF + ((other >> 16) & 1)) >> 16).to(tl.int16)
        is_open = (alike == 0) | ((one & 0xFFFF) == 0x8000) | ((other & 0xFFFF) == 0x8000)
    elif KIND == 2:
        result = low.to(tl.float16)
        is_open = (result != high.to(tl.float16)) | ((one & 0x1FFF) == 0x1000) | ((other & 0x1FFF) == 0x1000)
        # Below the normal numbers the halfway points are others; those, and what may overflow, are settled exactly.
        size = tl.abs(low)
        is_open = is_open | ((size < 6.103515625e-05) & (size > 0)) | (size >= 65504)
    else:
        result = low
        # Overflow to infinity is decided by the exact sum.
        is_open = (low != high) | (tl.abs(low) > 3.4e38)
    is_open = is_open | (low != low) | (high != high)
    target = (p // outputs).to(tl.int64) * batch_stride + m.to(tl.int64) * out_row + p % outputs
    tl.store(out + target, result, mask=inside)
    listed = (is_open & inside).to(tl.int32)
    count = tl.sum(listed, 0)
    if count > 0:
        begin = tl.atomic_add(counter, count)
        where = begin + tl.cumsum(listed, 0) - 1
        tl.store(open_places + where, m.to(tl.int64) * places + p, mask=(listed > 0) & (where < most))
