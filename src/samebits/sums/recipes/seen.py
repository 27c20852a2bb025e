"""Recipes that engines were seen to use, with version and processor: what `make replay` collects.

Only recipes whose order is written by keys are kept, because these mean something for problems of other sizes.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import find_terms
from samebits.sums.recipes.recipe import Flush, Recipe
from samebits.sums.recipes.recipe_text import parse_recipe


class SeenRecipe(msgspec.Struct, frozen=True):
    """A recipe's text, who computed by it where, on what form of sums, and for how many problems it was replayed whole.

    `form` is as `name_form` has it; `engines` are `name version`.
    """

    recipe: str
    form: str
    engines: list[str]
    processors: list[str]
    replayed: int

    def parse(self) -> Recipe:
        """The recipe as data."""
        return parse_recipe(self.recipe)


def name_form(problem: Problem) -> str:
    """The form of a problem's sums, which names the axes of its orders."""
    lowered = lower_problem(problem).convolution
    return f"product {find_terms(lowered).form}" if lowered.stated else f"{problem.rank}-D {find_terms(problem).form}"


def list_seen(problem: Problem) -> Iterator[SeenRecipe]:
    """Those of the problem's form of sums, oftenest replayed first."""
    form = name_form(problem)
    yield from sorted((s for s in _load() if s.form == form), key=lambda s: -s.replayed)


def find_seen(problem: Problem, recipe: Recipe) -> SeenRecipe | None:
    """What is known of a recipe; None of one that was not seen."""
    return next((s for s in list_seen(problem) if s.parse() == recipe), None)


def strip_specials(recipe: Recipe) -> Recipe:
    """A recipe without what shows on NaN, subnormal numbers and zeros of padding only: so the library keeps them."""
    return replace(recipe, flush=Flush(), nan="kept", padding="skipped")


@functools.cache
def _load() -> tuple[SeenRecipe, ...]:
    text = importlib.resources.files("samebits.sums.recipes").joinpath("seen.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=list[SeenRecipe]))
