"""Subnormals, padding, NaN, zeros, overflow: asked, and entered into a recipe where replay allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.special_values import find_nan_reach, find_overflow, find_padding_rule, find_zero_sign
from samebits.engines.probes.subnormals import find_subnormals
from samebits.engines.recipe_search.replaying import score_all
from samebits.engines.recipe_search.stages import RecipeStage, SearchResult, SpecialStage
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.sums.recipes.recipe import Flush, Recipe
from samebits.sums.recipes.tree import list_terms

# Overflow is asked with three terms of one sum.
_FEWEST_TERMS = 3


def ask_special(session: ProbeSession, found: SearchResult) -> Iterator[SpecialStage]:
    """Answers about special values at the position that the search read, after each question."""
    tree, position = (found.order.tree, found.order.position) if found.order else (None, 0)
    terms = session.terms
    at = terms.locate_sources(np.array([position % int(np.prod(terms.outputs))]))[0]
    own = np.flatnonzero(np.tile(at >= 0, terms.depth))
    if not len(own):
        return
    subnormals = find_subnormals(session, int(own[len(own) // 2]), position)
    known = SpecialStage(subnormals)
    yield known
    questions: dict[str, Callable[[], str | None]] = {
        "padding": lambda: find_padding_rule(session),
        "nan": lambda: find_nan_reach(session),
        "sum of negative zeros": lambda: find_zero_sign(session, position),
    }
    sequence = list_terms(tree) if tree is not None else []
    if len(sequence) >= _FEWEST_TERMS and session.problem.then is None:
        triple = (sequence[0], sequence[1], sequence[-1])
        questions["overflow"] = lambda: find_overflow(session, triple, position)
    for name, question in questions.items():
        known = SpecialStage(subnormals, {**known.answers, name: question()})
        yield known


def complete_recipe(problem: Problem, found: SearchResult) -> RecipeStage:
    """The recipe with what it can say of special values, each part only if all is still reproduced."""
    chosen, recipe = found.chosen, found.recipe
    if recipe is None or not chosen.is_whole or recipe.algorithm is not None:
        return chosen
    for more in _list_additions(problem, found, recipe):
        candidate = replace(recipe, **more)
        if candidate != recipe and score_all(found.replayers, candidate, sampled=True)[0] == 1.0:
            recipe = candidate
    return replace(chosen, recipe=recipe)


def _list_additions(problem: Problem, found: SearchResult, recipe: Recipe) -> list[dict[str, object]]:
    lost, answers = found.special.subnormals, found.special.answers
    if lost is None:
        return []
    # A narrower range loses float32's subnormals without flushing anything.
    names = [problem.dtype, recipe.accumulator.format, *(r.format for r in (recipe.x, recipe.w) if r)]
    wide = all(find_format(n).exponent_bits == find_format("float32").exponent_bits for n in names)
    flush = Flush(not (lost.rows and lost.source), lost.results is False) if wide else Flush()
    # A sum that starts from the bias starts from what that is.
    starts = not (problem.bias and recipe.bias == "first")
    return [
        {"flush": flush},
        {"padding": "multiplied" if answers.get("padding") == "multiplied as zeros" else "skipped"},
        {"start": "product" if starts and answers.get("sum of negative zeros") == "-0" else "zero"},
        {"nan": "bound" if problem.then and answers.get("nan") == "becomes a number" else "kept"},
    ]
