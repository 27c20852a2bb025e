"""One result of a layer compared with the truth: some outputs one by one, all of them against what is possible."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from samebits import thresholds
from samebits.judging.measuring import Distances, measure_distances, measure_likely
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import find_format
from samebits.problems.case_file import Case
from samebits.problems.problem import Problem
from samebits.sums.bounds import accumulator_format, bound_errors, bound_likely_errors
from samebits.sums.truth import compute_truth
from samebits.torch.layer_calls import LayerResult
from samebits.torch.plain_arrays import dtype_name
from samebits.torch.sampled_sums import Block, draw_block

# Sums in float64 of numbers of one sign, and of their squares, are nearer than this.
_SUMMED_WITHIN = 1 + 2.0**-30


@dataclass(frozen=True)
class BlockCheck:
    """Outputs of a check against their bounds: how many have finite terms, how far the farthest are, in which block."""

    block: Block
    finite: int
    beyond_bound: int
    beyond_likely: int
    over_bound: float
    over_likely: float | None
    worst: int
    within_transforms: bool

    def state_case(self, name: str) -> Case:
        """The worst of its blocks as a Linear's case, with the bias where there is one, for explaining."""
        block, b = self.block, self.worst
        x, w = block.left[b], block.right[b]
        operands = {"x": x, "w": w}
        if block.has_bias:
            operands = {"x": x[:, :-1], "w": w[:, :-1], "bias": w[:, -1]}
        arrays = {key: np.ascontiguousarray(array) for key, array in operands.items()}
        problem = Problem(
            kind="linear",
            x=arrays["x"].shape,
            w=arrays["w"].shape,
            bias=block.has_bias,
            dtype=block.result.dtype.name,
        )
        return Case(problem, arrays, {name: np.ascontiguousarray(block.result[b])})


@default_float_environment()
def check_block(found: LayerResult, rng: np.random.Generator) -> BlockCheck | None:
    """Checks random outputs of a result, each against its own truth and bounds; None where there is nothing to check.

    Outputs whose terms hold NaN or an infinity are in the block, and beyond no bound where the truth has none either.
    """
    block = draw_block(
        found.form, found.source, found.factors, found.result, found.kernel, found.geometry, rng, found.bias
    )
    if block is None:
        return None
    blocks, rows, terms = block.left.shape
    problem = Problem(
        kind="matmul",
        x=(blocks, rows, terms),
        w=(blocks, terms, block.right.shape[1]),
        dtype=dtype_name(found.result),  # type: ignore[arg-type]  (one of the dtypes)
    )
    operands = {"x": block.left, "w": np.ascontiguousarray(block.right.swapaxes(1, 2))}
    x, w = operands["x"].astype(np.float64), operands["w"].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        near = (x @ w).astype(block.result.dtype)
        x, w = np.abs(x), np.abs(w)
        magnitudes, squares = (x @ w) * _SUMMED_WITHIN, ((x * x) @ (w * w)) * _SUMMED_WITHIN
    check = _measure(block, problem, operands, near, magnitudes, squares)
    # A product in float64 is the truth except for its last bit; where that could matter the truth itself is computed.
    if problem.dtype == "float64" or check.beyond_bound or check.beyond_likely or not np.isfinite(near).all():
        truth = compute_truth(problem, operands).values
        return _measure(block, problem, operands, truth, magnitudes, squares)
    return check


def _measure(
    block: Block,
    problem: Problem,
    operands: dict[str, np.ndarray],
    truth: np.ndarray,
    magnitudes: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> BlockCheck:
    bound = bound_errors(problem, operands, truth, magnitudes=magnitudes)
    likely = bound_likely_errors(problem, operands, truth, squares=squares, magnitudes=magnitudes)
    distances = measure_distances(problem, block.result, truth, bound, magnitudes)
    # Outputs with terms that are not finite are not judged.
    finite = np.isfinite(magnitudes)
    over = np.where(finite, distances.over_bound, 0.0)
    near = Distances(np.where(finite, distances.absolute, 0.0), distances.ulp, over)
    return BlockCheck(
        block,
        int(finite.sum()),
        int((over > 1).sum()),
        int(near.mark_beyond(likely).sum()),
        float(over.max()),
        measure_likely(near, likely),
        int(over.max(axis=(1, 2)).argmax()),
        bool((near.absolute <= _bound_transforms(problem, magnitudes)).all()),
    )


def _bound_transforms(problem: Problem, magnitudes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The error that a transform may make: a share of the largest sum of magnitudes drawn (`thresholds`)."""
    share = thresholds.TRANSFORM_NOISE * float(accumulator_format(problem).unit_roundoff)
    return np.broadcast_to(share * magnitudes.max(axis=(1, 2), keepdims=True), magnitudes.shape)


@dataclass(frozen=True)
class Impossible:
    """An output larger than any sum of its terms, or NaN: where it is, what it is, and the largest that it could be."""

    index: tuple[int, ...]
    value: float
    limit: float


def check_extremes(found: LayerResult) -> Impossible | None:
    """Whether some output of the whole result is NaN, or larger than the products can add up to.

    |output| <= max |source| times the largest sum of magnitudes that a channel of the factors has (of a gradient of
    weights: as if all were the largest), plus max |bias|, and what rounding adds to that. Nothing is said of operands
    that are not finite, or whose sums may overflow.
    """
    result = found.result
    if min(result.numel(), found.source.numel(), found.factors.numel()) == 0:
        return None
    format_ = find_format(dtype_name(result))
    problem = Problem(kind="matmul", x=(1, 1), w=(1, 1), dtype=dtype_name(result))  # type: ignore[arg-type]  (one of the dtypes)
    accumulator = accumulator_format(problem)
    # Gather sums over a row of weights, scatter over a column, where groups share one more than each of them sums.
    axes = [a for a in range(found.factors.dim()) if a != (0 if found.form == "gather" else 1)]
    terms = math.prod(found.factors.shape[a] for a in axes)
    unit = float(accumulator.unit_roundoff)
    if 2 * terms * unit >= 1:
        return None
    if found.form == "filter" or not axes:
        # Large tensors on both sides: their largest numbers are enough.
        summed = terms * _largest(found.factors)
    else:
        wide = torch.float64 if found.factors.dtype == torch.float64 else torch.float32
        summed = float(torch.linalg.vector_norm(found.factors, 1, axes, dtype=wide).max()) / (1 - terms * unit)
    limit = _largest(found.source) * summed
    limit += 0.0 if found.bias is None else _largest(found.bias)
    growth = 1 + 2 * (terms + 2) * unit + 2 * float(format_.unit_roundoff)
    limit = limit * growth + (terms + 2) * float(format_.smallest_subnormal)
    if not limit < float(min(format_.largest, accumulator.largest)):
        return None
    if _largest(result) <= limit:
        return None
    flat = int(torch.where(result.isnan(), torch.inf, result.abs()).argmax())
    index = tuple(int(i) for i in np.unravel_index(flat, tuple(result.shape)))
    return Impossible(index, float(result[index]), limit)


def _largest(tensor: Tensor) -> float:
    """The largest magnitude; NaN where there is one."""
    low, high = torch.aminmax(tensor)
    return max(abs(float(low)), abs(float(high))) if not math.isnan(float(low)) else math.nan
