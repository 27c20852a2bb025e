"""The emulator of a recipe executed: one front door to all algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import check_operands
from samebits.sums.emulators.fft import compute_fft
from samebits.sums.emulators.result_rounding import finish_sums, round_operands
from samebits.sums.emulators.sums import sum_products
from samebits.sums.emulators.winograd import compute_winograd
from samebits.sums.recipes.recipe import Recipe, Winograd

# Where so small a share of the results is wanted, the others are not finished.
_FEW = 4


@default_float_environment()
def emulate(
    problem: Problem,
    recipe: Recipe,
    operands: Mapping[str, np.ndarray],
    *,
    wanted: npt.NDArray[np.bool_] | None = None,
    kept: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """What a convolution computed by this recipe returns, bit for bit; shape and dtype as the problem says.

    With `wanted`, a mask over the result, only those outputs need be right. Whoever tries many recipes on the same
    problem and operands gives them one dictionary, where rounded operands are `kept`. Raises RecipeError where the
    recipe cannot be executed on this problem, OperandError where operands do not fit it.
    """
    lowering = lower_problem(problem)
    operands = lowering.lower_operands(check_operands(problem, operands))
    wanted = wanted if wanted is None else lowering.lower_result(wanted)
    return lowering.restore_result(_emulate(lowering.convolution, recipe, operands, wanted, kept))


def _emulate(
    problem: Problem,
    recipe: Recipe,
    operands: dict[str, np.ndarray],
    wanted: npt.NDArray[np.bool_] | None,
    kept: dict[str, np.ndarray] | None,
) -> np.ndarray:
    with np.errstate(all="ignore"):
        read = round_operands(problem, recipe, operands, kept)
        if recipe.algorithm is None:
            sums = sum_products(problem, recipe, read, wanted=wanted)
            return _finish_wanted(problem, recipe, sums, operands, wanted)
        if isinstance(recipe.algorithm, Winograd):
            sums = compute_winograd(problem, recipe, read, lambda w, x: _sum_channels(recipe, w, x))
        else:
            sums = compute_fft(problem, recipe, read)
        return finish_sums(problem, recipe, _add_late_bias(problem, recipe, sums, read), operands)


def _finish_wanted(
    problem: Problem,
    recipe: Recipe,
    sums: np.ndarray,
    operands: Mapping[str, np.ndarray],
    wanted: npt.NDArray[np.bool_] | None,
) -> np.ndarray:
    """Finished results; where few are wanted, zeros in all other places."""
    if wanted is None or wanted.sum() > wanted.size // _FEW:
        return finish_sums(problem, recipe, sums, operands)
    result = np.zeros(problem.out_shape, numpy_dtype(problem.out))
    result[wanted] = finish_sums(problem, recipe, sums, operands, wanted)
    return result


def _sum_channels(recipe: Recipe, weights: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Products at every transformed position, summed over channels as the recipe says; see `winograd.SumChannels`."""
    positions, rows, depth = weights.shape
    problem = Problem(
        "conv1d", (1, positions * depth, data.shape[2]), (positions * rows, depth, 1), groups=positions, dtype="float32"
    )
    operands = {"x": data.reshape(problem.x), "w": weights.reshape(problem.w)}
    return sum_products(problem, replace(recipe, algorithm=None), operands).reshape(positions, rows, -1)


def _add_late_bias(problem: Problem, recipe: Recipe, sums: np.ndarray, read: Mapping[str, np.ndarray]) -> np.ndarray:
    """The bias added to finished sums in the accumulator; there is no running sum that could start from it."""
    if not problem.bias or recipe.bias == "rounded":
        return sums
    if recipe.bias != "last":
        raise RecipeError(f"bias={recipe.bias}: only sums of products have a running sum; last or rounded here")
    return sums + read["bias"].reshape(problem.bias_shape).astype(sums.dtype)
