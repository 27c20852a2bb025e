"""The truth of a problem: every output correctly rounded, and how each came to be settled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.errors import ResourceLimitError
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import FLOAT64, code_dtype, find_format, numpy_dtype
from samebits.problems import Problem
from samebits.problems.operands import check_operands
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.blocks import Blocks, Buffers
from samebits.sums.tiles.memory import count_available_bytes
from samebits.sums.tiles.plan import Contraction, Plan
from samebits.sums.tiles.product_plan import plan_problem
from samebits.sums.tiles.running import as_codes, run_tiles
from samebits.sums.truth.kernel import settle_tiles
from samebits.sums.truth.rounding import codes_of_format, encode_each
from samebits.sums.truth.settling import BY_EXACTNESS, WAYS

# Asking the system how much memory is free takes longer than a small problem.
_SMALL_RESULT_BYTES = 2**22


@dataclass(frozen=True)
class Truth:
    """The correctly rounded result, and how many outputs were settled in which way (the ways of `settling.WAYS`)."""

    values: np.ndarray
    settled: dict[str, int]


@default_float_environment()
def compute_truth(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    *,
    threads: int | None = None,
    progress: Progress = ignore_progress,
) -> Truth:
    """Every output of the problem, rounded once to nearest even from the exact sum of exact products.

    Arrays of shape and dtype as the problem says; the result has shape `problem.out_shape` and dtype `problem.out`.
    Exact always: no error bound is needed. Padding contributes nothing (not 0 * w, so infinite weights do no harm
    there); a non-finite sum is what IEEE 754 gives in any order; an exact zero is +0. `then` is applied after rounding,
    with its bounds rounded to the result's format, and keeps NaN. Raises OperandError and ResourceLimitError.

    >>> import numpy as np, samebits
    >>> problem = samebits.parse_problem_text("matmul x=1x3 w=3x1")
    >>> operands = {"x": np.float32([[2**24, 1, 1]]), "w": np.ones((3, 1), np.float32)}
    >>> samebits.compute_truth(problem, operands).values.item() - 2**24
    2.0
    """
    arrays = dict(check_operands(problem, operands))
    check_result_fits(problem)
    plan, lowering = plan_problem(problem)
    if lowering:
        problem, arrays = lowering.convolution, lowering.lower_operands(arrays)
    values = np.empty(problem.out_shape, numpy_dtype(problem.out))
    codes = values.reshape(-1).view(code_dtype(find_format(problem.out)))
    counts = _settle(problem, plan, arrays, codes, threads, progress)
    if problem.then:
        _apply_epilogue(problem, values)
    values = lowering.restore_result(values) if lowering else values
    return Truth(values, dict(zip(WAYS, (int(n) for n in counts), strict=True)))


def check_result_fits(problem: Problem) -> None:
    """Raises ResourceLimitError for a result that is larger than the memory that is free now."""
    needed = math.prod(problem.out_shape) * find_format(problem.out).width_bits // 8
    if needed > _SMALL_RESULT_BYTES and needed > 0.9 * count_available_bytes():
        raise ResourceLimitError(f"a result of {needed / 2**30:.1f} GiB does not fit in the memory that is free")


def _settle(
    problem: Problem,
    plan: Plan,
    arrays: dict[str, np.ndarray],
    out: np.ndarray,
    threads: int | None,
    progress: Progress,
) -> npt.NDArray[np.int64]:
    """Writes all codes to `out`; returns how many outputs were settled in each way."""
    rows, rows_table = as_codes(arrays[plan.rows_operand])
    source, source_table = as_codes(arrays[plan.source_operand])
    codes = codes_of_format(find_format(problem.out))
    wide = problem.dtype == FLOAT64.name
    counts: list[npt.NDArray[np.int64]] = []

    def work(c: Contraction, blocks: Blocks, first: int, last: int, buffers: Buffers) -> None:
        counted = np.zeros(len(WAYS), np.int64)
        start = _start_values(arrays, c)
        settle_tiles(
            first, last, c, blocks, rows, rows_table, source, source_table, start, codes, wide, out, counted, buffers
        )  # fmt: skip
        counts.append(counted)

    gaps = plan.count_gaps()
    if gaps:
        _fill_empty_sums(problem, arrays, out)
    run_tiles(plan, work, "computing the truth", threads=threads, progress=progress)
    counts.append(np.array([gaps if way == WAYS[BY_EXACTNESS] else 0 for way in WAYS]))
    return np.sum(counts, axis=0)


def _fill_empty_sums(problem: Problem, arrays: dict[str, np.ndarray], out: np.ndarray) -> None:
    """Sets every output to what an empty sum gives: its bias, or +0; sums with terms are written over it."""
    by_channel = out.reshape(problem.out_shape).swapaxes(0, 1)
    by_channel[:] = 0
    if problem.bias:
        # A bias of -0 counts as +0, as an exact zero does.
        rounded = round_all_to_nearest(arrays["bias"].astype(np.float64) + 0.0, problem.out)
        by_channel[:] = rounded.view(code_dtype(find_format(problem.out))).reshape(-1, *(1,) * (by_channel.ndim - 1))


def _start_values(arrays: dict[str, np.ndarray], c: Contraction) -> npt.NDArray[np.float64]:
    """What each row's sum starts from: the bias, or +0 (a bias of -0 counts as +0, as an exact zero does)."""
    if "bias" in arrays:
        with np.errstate(invalid="ignore"):
            return arrays["bias"].astype(np.float64) + 0.0
    return np.zeros(c.groups * c.rows)


def _apply_epilogue(problem: Problem, values: np.ndarray) -> None:
    """Clips in place. A bound beyond the format's range does not bind; rounded, it might even be NaN."""
    assert problem.then is not None
    low, high = (round_to_nearest(v, problem.out) for v in (problem.then.low, problem.then.high))
    if np.isfinite(low) or problem.then.low > 0:
        np.maximum(values, low, out=values)
    if np.isfinite(high) or problem.then.high < 0:
        np.minimum(values, high, out=values)


def round_to_nearest(value: float, format_name: str) -> np.ndarray:
    """`value` rounded to the nearest number of a format, ties to even, as a 0-d array of its dtype; infinities stay."""
    return round_all_to_nearest(np.array([value]), format_name)[0]


def round_all_to_nearest(values: npt.NDArray[np.float64], format_name: str) -> np.ndarray:
    """Each of `values` rounded to the nearest number of a format, ties to even; infinities and NaN stay."""
    format_ = find_format(format_name)
    codes = np.empty(values.shape, code_dtype(format_))
    encode_each(values, codes_of_format(format_), codes)
    return codes.view(numpy_dtype(format_name))
