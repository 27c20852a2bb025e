"""Hypotheses that are recipes: predicted by emulation, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.sums.emulators import emulate
from samebits.sums.recipes.order import TreeOrder, expand_order
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe, parse_recipe
from samebits.sums.recipes.tree import map_terms

_MOST_TRANSFORMED = 3e8
# Trees of longer sums take longer to make than they explain.
_MOST_TURNED = 4096


def from_recipe(cause: CauseCode, verdict: Verdict, says: str, recipe: Recipe) -> Hypothesis:
    """A hypothesis whose prediction is an emulation."""
    return Hypothesis(
        cause, verdict, says, lambda observation, sample: _emulate(observation, sample, recipe), recipe=recipe
    )


def make_recipe(problem: Problem, cause: CauseCode, says: str, text: str) -> Hypothesis:
    """A loss of precision as a recipe's text has it; predicts nothing where the problem has no such order."""
    recipe = parse_for(problem, text)
    verdict: Verdict = "downgrade"
    if recipe is None:
        return Hypothesis(cause, verdict, says, lambda observation, sample: None)
    return from_recipe(cause, verdict, f"{says} ({format_recipe(recipe)})", recipe)


def parse_for(problem: Problem, text: str) -> Recipe | None:
    """A recipe for the problem; float64 problems add in float64 unless the text says otherwise."""
    try:
        if problem.dtype == "float64" and "acc=" not in text:
            text += " acc=float64"
        return parse_recipe(text)
    except RecipeError:
        return None


def _emulate(observation: Observation, sample: Sample, recipe: Recipe) -> Floats | None:
    try:
        if recipe.algorithm is not None:
            return (
                _transform(observation, sample, recipe)
                if observation.problem.multiply_adds <= _MOST_TRANSFORMED
                else None
            )
        found = emulate(observation.problem, recipe, observation.operands, wanted=sample.mark(), kept=observation.cache)
        return sample.pick(found).astype(np.float64)
    except RecipeError:
        return None


def _transform(observation: Observation, sample: Sample, recipe: Recipe) -> Floats:
    """Emulates a transform for the sample's output channels, as it cannot compute single outputs."""
    problem, operands, rows = observation.problem, dict(observation.operands), sample.rows
    key = format_recipe(recipe)
    if problem.direction == "forward" and not problem.is_transposed and problem.groups == 1:
        operands |= {n: operands[n][rows] for n in ("w", "bias") if n in operands}
        problem = replace(problem, w=operands["w"].shape)
        sample = replace(sample, terms=find_terms(problem), rows=np.arange(len(rows)))
        key += rows.tobytes().hex()
    if key not in observation.cache:
        observation.cache[key] = emulate(problem, recipe, operands)
    return sample.pick(observation.cache[key]).astype(np.float64)


def make_turned(problem: Problem, cause: CauseCode, says: str, text: str) -> Hypothesis | None:
    """The same order over taps from the last to the first, as kernels have it that turn the weights around.

    None for problems whose sums no kernel turns, and for sums of very many products.
    """
    if problem.stated or find_terms(problem).form != "scatter":
        return None
    volume = find_terms(problem).volume
    renamed = lambda k: k // volume * volume + volume - 1 - k % volume  # noqa: E731
    return _make_renamed(problem, cause, f"{says}, taps from the last to the first", text, renamed)


def make_channels_fastest(problem: Problem, cause: CauseCode, says: str, text: str) -> Hypothesis | None:
    """The same order over products with channels fastest, tap after tap, as kernels for channels-last data have it.

    None where that is the declared sequence, and for sums of very many products.
    """
    terms = None if problem.stated else find_terms(problem)
    if terms is None or min(terms.depth, terms.volume) == 1:
        return None
    renamed = lambda k: k % terms.depth * terms.volume + k // terms.depth  # noqa: E731
    return _make_renamed(problem, cause, f"{says}, channels fastest", text, renamed)


def _make_renamed(
    problem: Problem,
    cause: CauseCode,
    says: str,
    text: str,
    renamed: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
) -> Hypothesis | None:
    terms, recipe = find_terms(problem), parse_for(problem, text)
    if terms.count > _MOST_TURNED or recipe is None:
        return None
    numbers = renamed(np.arange(terms.count)).tolist()
    try:
        tree = map_terms(expand_order(recipe.orders[0], terms.axis_names, terms.axis_sizes), numbers.__getitem__)
    except RecipeError:
        return None
    recipe = replace(recipe, orders=(TreeOrder(tree, recipe.orders[0].own),))
    # A tree written out is too long for a sentence.
    narrow = "" if recipe.product in ("fused", "rounded") else f", products in {recipe.product}"
    return from_recipe(cause, "downgrade", says + narrow, recipe)
