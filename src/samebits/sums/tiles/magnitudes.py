"""Sums of magnitudes, sum over |row| |source| per output, from above: what every rounding error bound is made of.

And plain sums in float64, for those who need the value only to far less than a rounding of float32.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.blocks import Blocks, Buffers
from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.plan import Contraction
from samebits.sums.tiles.product_plan import plan_problem
from samebits.sums.tiles.running import as_codes, run_tiles
from samebits.sums.tiles.tiles import locate_tile, sum_tile

# Squares between these are rounded to float32 without loss that matters.
_LEAST_SQUARE, _MOST_SQUARE = 1e-24, 1e36


@default_float_environment()
def sum_magnitudes(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    *,
    threads: int | None = None,
    progress: Progress = ignore_progress,
) -> npt.NDArray[np.float64]:
    """Upper bounds of the sums of |x| |w| (and |bias|), float64 of shape `problem.out_shape`.

    At most 1 + 2^-30 times the exact sums, plus 2^-1000; infinite where that is beyond float64. Non-finite operands
    count as 0: a sum that really has such a term is not finite itself, and over padding an infinite weight has no term.
    """
    sizes = {name: _finite_magnitudes(array) for name, array in operands.items()}
    return _sum(problem, sizes, threads, progress, from_above=True)


@default_float_environment()
def sum_plainly(problem: Problem, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.float64]:
    """The sums of x w (and bias) added in float64, of shape `problem.out_shape`; operands are finite.

    Off by at most (n + 3) 2^-52 times the sum of magnitudes of the n products. `problem.then` is not applied.
    """
    return _sum(problem, operands, None, ignore_progress, from_above=False)


def _sum(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    threads: int | None,
    progress: Progress,
    *,
    from_above: bool,
) -> npt.NDArray[np.float64]:
    plan, lowering = plan_problem(problem)
    if lowering:
        problem, operands = lowering.convolution, lowering.lower_operands(operands)
    rows, rows_table = as_codes(operands[plan.rows_operand])
    source, source_table = as_codes(operands[plan.source_operand])
    out = np.empty(problem.out_shape)

    def work(c: Contraction, blocks: Blocks, first: int, last: int, buffers: Buffers) -> None:
        start = operands["bias"].astype(np.float64) if problem.bias else np.zeros(c.groups * c.rows)
        # All terms are non-negative then: rounding loses at most this share. Products of float64 may also underflow.
        up, least = (1.0 + blocks.roundings * 2.0**-52, 2.0**-1000) if from_above else (1.0, 0.0)
        flat = out.reshape(-1)
        _write_sums(first, last, c, blocks, rows, rows_table, source, source_table, start, up, least, flat, buffers)

    if plan.count_gaps():
        out[:] = operands["bias"].astype(np.float64).reshape(problem.bias_shape) if problem.bias else 0.0
    run_tiles(plan, work, "bounding errors" if from_above else "adding up", threads=threads, progress=progress)
    return lowering.restore_result(out) if lowering else out


@default_float_environment()
def sum_squares(
    problem: Problem, operands: Mapping[str, np.ndarray], *, progress: Progress = ignore_progress
) -> npt.NDArray[np.float64]:
    """Upper bounds of the sums of squared terms, (x w)^2 and bias^2, as `sum_magnitudes` has those of magnitudes.

    Squares are rounded up, to float32 where their largest is far from its limits: at most 1 + 2^-21 times the sums, and
    the smallest numbers for squares below them. Infinite where squares are beyond float64.
    """
    with np.errstate(over="ignore", under="ignore"):
        squared = [(_finite_magnitudes(array).astype(np.float64)) ** 2 for array in operands.values()]
        largest = [float(square.max(initial=0.0)) for square in squared]
        dtype = np.float32 if all(_LEAST_SQUARE < m < _MOST_SQUARE for m in largest) else np.float64
        # Half a unit is all that was rounded off.
        above = {name: np.nextafter(s.astype(dtype), dtype(np.inf)) for name, s in zip(operands, squared, strict=True)}
    if not all(np.isfinite(square).all() for square in above.values()):
        return np.full(problem.out_shape, np.inf)
    return sum_magnitudes(problem, above, progress=progress)


def _finite_magnitudes(array: np.ndarray) -> np.ndarray:
    return np.abs(np.where(np.isfinite(array), array, np.zeros(1, array.dtype)))


@compiled
def _write_sums(first, last, c, blocks, rows, rows_table, source, source_table, start, up, least, out, buffers):
    o = c.out_strides
    for task in range(first, last):
        tile = locate_tile(c, blocks, task)
        sum_tile(c, blocks, tile, rows, rows_table, source, source_table, start, buffers, False)
        for m in range(tile.rows):
            p = 0
            for b in range(tile.items):
                for i0 in range(tile.size[0]):
                    for i1 in range(tile.size[1]):
                        at = tile.out_offset + tile.group * o[0] + (tile.row + m) * o[1] + (tile.item + b) * o[2]
                        at += (tile.start[0] + i0) * o[3] + (tile.start[1] + i1) * o[4] + tile.start[2] * o[5]
                        for i2 in range(tile.size[2]):
                            out[at + i2 * o[5]] = buffers.sums[p, m] * up + least
                            p += 1
