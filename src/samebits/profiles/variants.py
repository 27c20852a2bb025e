"""Outputs that the recipe misses because their sums are rounded otherwise: tails of a kernel, borders, single rows.

The order of such outputs is known, but whether their products are fused, or where their bias enters, was asked
elsewhere. Every other way is tried on them by replay, on several sets of random data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.problems.operands import make_normal
from samebits.problems.terms import find_terms
from samebits.problems.windows import name_axes
from samebits.probes.interview import Interview
from samebits.profiles.replaying import Replayer
from samebits.recipes.order import Own
from samebits.recipes.places import array_from_places, places_from_array
from samebits.recipes.recipe import Recipe

# Two ways of rounding agree on an output by chance about every second time.
_MOST_DATA_SETS = 6
_LEAST_DENSITY = 0.1
_MOST_ROUNDS = 4


def refine_by_variants(interview: Interview, recipe: Recipe, first: Replayer) -> Recipe:
    """The recipe with own ways for the outputs it misses, as far as some way reproduces them all."""
    if interview.problem.multiply_adds > 2e9:
        return recipe
    replayers = [first]
    for round_ in range(_MOST_ROUNDS):
        missed = _collect_missed(interview, recipe, replayers, round_ == 0)
        if not missed.any():
            return recipe
        better = _find_variant(recipe, missed, replayers)
        if better is None:
            return recipe
        recipe = better
    return recipe


def _collect_missed(
    interview: Interview, recipe: Recipe, replayers: list[Replayer], more: bool
) -> npt.NDArray[np.bool_]:
    missed = np.zeros(interview.problem.out_shape, bool)
    for replayer in replayers:
        missed |= replayer.score(recipe)[2]
    while more and missed.any() and len(replayers) < _MOST_DATA_SETS:
        operands = make_normal(interview.problem, 1000 + len(replayers))
        replayers.append(Replayer(interview.problem, operands, interview.ask(operands)))
        new = replayers[-1].score(recipe)[2]
        if not (new & ~missed).any() and len(replayers) > 2:
            break
        missed |= new
    return missed


def _find_variant(recipe: Recipe, missed: npt.NDArray[np.bool_], replayers: list[Replayer]) -> Recipe | None:
    """The first way that reproduces all outputs of a set that covers what is missed; None where none does."""
    problem = replayers[0].problem
    axes = name_axes(problem)
    where = array_from_places(recipe.where, axes, problem.out_shape)  # type: ignore[arg-type]
    for cells in _spread(problem, missed):
        for own in _list_ways(recipe, problem.bias):
            numbers = np.unique(where[cells])
            orders = (*recipe.orders, *(replace(recipe.orders[n], own=own) for n in numbers))
            moved = where.copy()
            for i, n in enumerate(numbers):
                moved[cells & (where == n)] = len(recipe.orders) + i
            candidate = replace(recipe, orders=orders, where=places_from_array(moved, axes))
            if all(not (r.score(candidate)[2] & cells).any() for r in replayers):
                return candidate
    return None


def _spread(problem: object, missed: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.bool_]]:
    """Sets of outputs to try: whole rows times whole positions where that is dense, then the missed ones alone."""
    view = find_terms(problem).view_result(missed)  # type: ignore[arg-type]
    rows, positions = view.any(axis=(2, 3)), view.any(axis=(0, 1))
    box = np.zeros_like(missed)
    find_terms(problem).view_result(box)[...] = rows[:, :, None, None] & positions[None, None]  # type: ignore[arg-type]
    if missed.sum() > _LEAST_DENSITY * box.sum():
        yield box
    yield missed


def _list_ways(recipe: Recipe, has_bias: bool) -> Iterator[Own]:
    biases = ["", "first", "last", "rounded"] if has_bias else [""]
    for bias, product in itertools.product(biases, ("fused", "rounded")):
        own = Own(product=product, bias=bias)
        if own not in {o.own for o in recipe.orders}:
            yield own
