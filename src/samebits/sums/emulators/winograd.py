"""Winograd's minimal filtering F(m, 3), nested over the spatial axes.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.

Along each axis, first axis first: input patches of m + 2 values are multiplied by B^T, weights by G; the products are
summed over channels as the recipe says; the sums are multiplied by A^T. A transform's rows are evaluated left to right
over their non-zero coefficients, each product and each addition rounded to the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction as F

import numpy as np

from samebits.errors import RecipeError
from samebits.problems import Problem
from samebits.sums.emulators.as_forward import as_forward, pad_or_crop
from samebits.sums.recipes.recipe import Recipe, Winograd

Matrix = tuple[tuple[F, ...], ...]
# Weights [positions, rows, channels] and data [positions, channels, tiles] to sums [positions, rows, tiles].
SumChannels = Callable[[np.ndarray, np.ndarray], np.ndarray]
TAPS = 3


def _rows(text: str) -> Matrix:
    return tuple(tuple(F(v) for v in row.split()) for row in text.strip().split(";"))


# (A^T, G, B^T) for the interpolation points 0, 1, -1 (and 2, -2; and 1/2, -1/2) and infinity.
MATRICES: dict[int, tuple[Matrix, Matrix, Matrix]] = {
    2: (
        _rows("1 1 1 0; 0 1 -1 -1"),
        _rows("1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1"),
        _rows("1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1"),
    ),
    4: (
        _rows("1 1 1 1 1 0; 0 1 -1 2 -2 0; 0 1 1 4 4 0; 0 1 -1 8 -8 1"),
        _rows("1/4 0 0; -1/6 -1/6 -1/6; -1/6 1/6 -1/6; 1/24 1/12 1/6; 1/24 -1/12 1/6; 0 0 1"),
        _rows("4 0 -5 0 1 0; 0 -4 -4 1 1 0; 0 4 -4 -1 1 0; 0 -2 -1 2 1 0; 0 2 -1 -2 1 0; 0 4 0 -5 0 1"),
    ),
    6: (
        _rows(
            "1 1 1 1 1 32 32 0; 0 1 -1 2 -2 16 -16 0; 0 1 1 4 4 8 8 0; 0 1 -1 8 -8 4 -4 0; 0 1 1 16 16 2 2 0;"
            " 0 1 -1 32 -32 1 -1 1"
        ),
        _rows(
            "1 0 0; -2/9 -2/9 -2/9; -2/9 2/9 -2/9; 1/90 1/45 2/45; 1/90 -1/45 2/45; 1/45 1/90 1/180;"
            " 1/45 -1/90 1/180; 0 0 1"
        ),
        _rows(
            "1 0 -21/4 0 21/4 0 -1 0; 0 1 1 -17/4 -17/4 1 1 0; 0 -1 1 17/4 -17/4 -1 1 0; 0 1/2 1/4 -5/2 -5/4 2 1 0;"
            " 0 -1/2 1/4 5/2 -5/4 -2 1 0; 0 2 4 -5/2 -5 1/2 1 0; 0 -2 4 5/2 -5 -1/2 1 0; 0 -1 0 21/4 0 -21/4 0 1"
        ),
    ),
}


def compute_winograd(
    problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray], sum_channels: SumChannels
) -> np.ndarray:
    """The sums of a problem by F(tile, 3), without bias, in the problem's shape, float32 or float16.

    Raises RecipeError unless all kernels have 3 taps, stride 1 and dilation 1, and the accumulator is float32 or
    float16 rounded to nearest.
    """
    assert isinstance(recipe.algorithm, Winograd)
    names = {"float32": np.float32, "float16": np.float16}
    if recipe.accumulator.format not in names or recipe.accumulator.mode != "nearest_even":
        raise RecipeError("winograd needs a float32 or float16 accumulator, rounded to nearest_even")
    dtype = np.dtype(names[recipe.accumulator.format])
    if recipe.flush.results:
        raise RecipeError("winograd does not flush results; leave flush=results out")
    forward = as_forward(problem, operands)
    if any(n != TAPS for n in forward.w.shape[3:]) or {*forward.stride, *forward.dilation} != {1}:
        raise RecipeError("winograd needs 3 taps, stride 1 and dilation 1 along every axis")
    output, weight, data = MATRICES[recipe.algorithm.tile]
    tile, rank = recipe.algorithm.tile, problem.rank
    tiles = tuple(-(-n // tile) for n in forward.outputs)
    ends = tuple((b, e + t * tile - n) for (b, e), t, n in zip(forward.pads, tiles, forward.outputs, strict=True))
    x = pad_or_crop(forward.x, ends).astype(dtype)
    batch, groups, depth = x.shape[:3]
    rows = forward.w.shape[1]
    patches = np.lib.stride_tricks.sliding_window_view(x, (tile + 2,) * rank, tuple(range(3, 3 + rank)))
    patches = patches[(slice(None),) * 3 + (slice(None, None, tile),) * rank]
    transformed = transform(patches, data, rank)
    weights = transform(forward.w.astype(dtype), weight, rank)
    count = (tile + 2) ** rank
    per_group = []
    for g in range(groups):
        of_data = transformed[:, g].reshape(batch, depth, -1, count)
        right = np.ascontiguousarray(of_data.transpose(3, 1, 0, 2)).reshape(count, depth, -1)
        left = np.ascontiguousarray(weights[g].reshape(rows, depth, count).transpose(2, 0, 1))
        per_group.append(sum_channels(left, right).astype(dtype).reshape(count, rows, batch, -1))
    sums = np.stack(per_group)  # groups, count, rows, batch, tiles
    sums = sums.transpose(3, 0, 2, 4, 1).reshape(batch, groups, rows, *tiles, *(tile + 2,) * rank)
    result = transform(sums, output, rank)
    order = (0, 1, 2, *(axis for i in range(rank) for axis in (3 + i, 3 + rank + i)))
    whole = result.transpose(order).reshape(batch, groups, rows, *(t * tile for t in tiles))
    return forward.restore(whole[(slice(None),) * 3 + tuple(slice(0, n) for n in forward.outputs)])


def transform(values: np.ndarray, matrix: Matrix, rank: int) -> np.ndarray:
    """The matrix applied along each of the last `rank` axes, first one first, every operation rounded to the dtype."""
    for axis in range(-rank, 0):
        moved = np.moveaxis(values, axis, -1)
        columns = []
        for row in matrix:
            total: np.ndarray | None = None
            for j, coefficient in enumerate(row):
                if coefficient:
                    product = moved[..., j] * values.dtype.type(float(coefficient))
                    total = product if total is None else total + product
            assert total is not None
            columns.append(total)
        values = np.moveaxis(np.stack(columns, axis=-1), -1, axis)
    return values
