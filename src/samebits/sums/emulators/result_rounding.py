"""What happens to operands before the sums and to sums after them, as a recipe says; arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from samebits.numbers.format import FLOAT64, find_format, numpy_dtype
from samebits.problems import Problem
from samebits.problems.windows import name_axes
from samebits.sums.emulators.rounding_kernel import Target, make_target, round_value
from samebits.sums.recipes.order_map import array_from_places
from samebits.sums.recipes.recipe import Recipe, Rounding
from samebits.sums.tiles.compiled_cache import compiled

_LEAST_NORMAL32 = 2.0**-126


def round_operands(
    problem: Problem,
    recipe: Recipe,
    operands: Mapping[str, np.ndarray],
    kept: dict[str, np.ndarray] | None = None,
) -> dict[str, npt.NDArray[np.floating]]:
    """The operands as they are multiplied, in float32 or float64; the bias in the accumulator's format.

    `kept` holds what other recipes made of these operands.
    """
    rounded: dict[str, npt.NDArray[np.floating]] = {}
    for name, array in operands.items():
        key = f"operand {name} {recipe.find_rounding(problem, name)} {recipe.flush.operands}"
        if kept is not None and name != "bias":
            if key not in kept:
                kept[key] = round_operands(problem, recipe, {name: array})[name]
            rounded[name] = kept[key]
            continue
        values = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
        if recipe.flush.operands:
            values = np.where(np.abs(values) < _LEAST_NORMAL32, np.copysign(0.0, values), values)
        rounding = recipe.find_rounding(problem, name)
        if rounding and rounding.format != problem.dtype:
            values = round_array(values, rounding)
        # A late bias is added to what is already a result.
        if name == "bias" and recipe.bias != "rounded" and recipe.accumulator.format != problem.dtype:
            values = round_array(values, recipe.accumulator)
        rounded[name] = values
    return rounded


def finish_sums(
    problem: Problem,
    recipe: Recipe,
    sums: npt.NDArray[np.floating],
    operands: Mapping[str, np.ndarray],
    wanted: npt.NDArray[np.bool_] | None = None,
) -> np.ndarray:
    """The result: sums rounded to its format (through `via`), a late bias added and rounded again, the epilogue.

    With `wanted`, a mask over the result, a flat array of only these elements.
    """

    def pick(array: np.ndarray) -> np.ndarray:
        return array if wanted is None else np.broadcast_to(array, wanted.shape)[wanted]

    sums = pick(sums)
    out = Rounding(problem.out, recipe.out_mode if problem.out != "float64" else "nearest_even")
    if recipe.via:
        sums = round_array(sums, Rounding(recipe.via))
    values = round_array(sums, out)
    late = _mark_late_bias(problem, recipe)
    if late is not None:
        own = operands["bias"].astype(np.float64)
        bias = (round_wide(own, recipe.b) if recipe.b else own).reshape(problem.bias_shape)
        values = np.where(pick(late), round_array(values.astype(np.float64) + pick(bias), out), values)
    if problem.then:
        values = _apply_epilogue(problem, recipe, values)
    if recipe.flush.results:
        values = np.where(np.abs(values) < _LEAST_NORMAL32, values * 0, values)
    return values.astype(numpy_dtype(problem.out))


def _mark_late_bias(problem: Problem, recipe: Recipe) -> npt.NDArray[np.bool_] | None:
    """Which outputs get their bias after they were rounded; None where none does."""
    late = [recipe.for_order(n).bias == "rounded" for n in range(len(recipe.orders))]
    if not problem.bias or not any(late):
        return None
    if all(late):
        return np.ones((1,) * (problem.rank + 2), bool)
    return np.array(late)[array_from_places(recipe.where, name_axes(problem), problem.out_shape)]


def round_array(values: npt.NDArray[np.floating], rounding: Rounding) -> npt.NDArray[np.floating]:
    """Values rounded to a format, in the dtype they come in (or float32 where that holds the format)."""
    format_ = find_format(rounding.format)
    if format_ is FLOAT64 or (values.dtype == np.float32 and rounding.format == "float32"):
        return values
    if rounding == Rounding("float32"):
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    rounded = np.empty(values.size, np.float32)
    flat = np.ascontiguousarray(values, np.float64).reshape(-1)
    _round_all(flat, make_target(format_, rounding.mode), rounded)
    return rounded.reshape(values.shape)


def round_wide(values: npt.NDArray[np.float64], rounding: Rounding) -> npt.NDArray[np.float64]:
    """Values rounded to a format, in float64 whatever that is."""
    return round_array(values, rounding).astype(np.float64)


@compiled
def _round_all(values: np.ndarray, t: Target, rounded: np.ndarray) -> None:
    for i in range(len(values)):
        rounded[i] = round_value(values[i], t.drop, t.least_exponent, t.largest, t.beyond, t.mode, t.flushes)


def _apply_epilogue(problem: Problem, recipe: Recipe, values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    assert problem.then is not None
    format_ = Rounding(problem.out)
    low, high = round_array(np.array([problem.then.low, problem.then.high]), format_).astype(values.dtype)
    if problem.then.name == "relu":
        low, high = values.dtype.type(0.0), values.dtype.type(np.inf)
    if recipe.nan == "bound":
        # fmax and fmin return the operand that is a number.
        return np.fmin(np.fmax(values, low), high)
    return np.minimum(np.maximum(values, low), high)
