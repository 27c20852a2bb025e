"""The cause that a replayed recipe comes to: the gravest of its features that no correct recipe needs to have."""

from __future__ import annotations

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import Distances
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.sums.recipes.order import list_stored_formats
from samebits.sums.recipes.recipe import Fft, Recipe, Winograd

# Causes that lose nothing in addition to what a flush has lost already.
_HARMLESS = (CauseCode.WINOGRAD, CauseCode.FFT, CauseCode.SUMMATION_ORDER)


def name_cause(
    problem: Problem, recipe: Recipe, result: np.ndarray, truth: np.ndarray, distances: Distances
) -> CauseCode:
    """The cause of a result that a recipe reproduces. What a recipe does only to NaN or to subnormal numbers counts
    where the result shows it.
    """
    if problem.then and recipe.nan == "bound" and bool((np.isnan(truth) & ~np.isnan(result)).any()):
        return CauseCode.NAN_SEMANTICS
    cause = name_arithmetic(problem, recipe)
    flushes = recipe.flush.operands or recipe.flush.results
    return CauseCode.SUBNORMALS if cause in _HARMLESS and flushes and distances.is_beyond else cause


def name_arithmetic(problem: Problem, recipe: Recipe) -> CauseCode:
    """The cause that a recipe comes to on numbers that are neither NaN nor subnormal."""
    if _rounds_operands(problem, recipe):
        return CauseCode.REDUCED_PRECISION_OPERANDS
    if _keeps_less(problem, recipe):
        return CauseCode.LOW_PRECISION_ACCUMULATOR
    if isinstance(recipe.algorithm, Winograd):
        return CauseCode.WINOGRAD
    return CauseCode.FFT if isinstance(recipe.algorithm, Fft) else CauseCode.SUMMATION_ORDER


def _rounds_operands(problem: Problem, recipe: Recipe) -> bool:
    """Operands narrower than declared, or a result that passes through a narrower format than its own."""
    declared = find_format(problem.dtype).precision
    via = recipe.via and find_format(recipe.via).precision < find_format(problem.out).precision
    return bool(via) or any(r and find_format(r.format).precision < declared for r in (recipe.x, recipe.w, recipe.b))


def _keeps_less(problem: Problem, recipe: Recipe) -> bool:
    """Sums or products in fewer bits than the declared accumulator's, or truncated."""
    # Half formats are summed in float32 where nothing is declared.
    declared = max(find_format(problem.dtype).precision, find_format("float32").precision)
    narrow = find_format(recipe.accumulator.format).precision < declared
    product = recipe.product not in ("fused", "rounded") and find_format(recipe.product).precision < declared
    directed = recipe.accumulator.mode != "nearest_even" or recipe.out_mode != "nearest_even"
    return narrow or product or directed or any(map(list_stored_formats, recipe.orders))
