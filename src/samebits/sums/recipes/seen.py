"""Recipes that engines were seen to use, with version and processor: what `make replay` collects.

Only recipes whose order is written by keys are kept, because these mean something for problems of other sizes.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import find_terms
from samebits.sums.recipes.order import EVERY_AXIS, Key, KeyedOrder, Level, Rule
from samebits.sums.recipes.recipe import Flush, Recipe
from samebits.sums.recipes.recipe_text import parse_recipe
from samebits.sums.recipes.tree import Chain, Fused, Item


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


_BLOCKS = (4, 8, 16, 32, 64, 12, 24, 48, 2, 6, 128, 256, 512)
_RULES: tuple[Rule, ...] = ("halves", "pairs", "splits")


def propose_likely_orders(
    axis_names: Sequence[str], axis_sizes: Sequence[int], like: Item | None = None, blocks: Sequence[int] = ()
) -> Iterator[KeyedOrder]:
    """Keyed orders over the axes; with `like`, a tree to be named, those that its shape rules out are left out.

    `blocks` are sizes of blocks to try before the usual ones.
    """
    count, depth = int(np.prod(axis_sizes, dtype=np.int64)), axis_sizes[0]
    tree = like if like is not None else Chain((Chain((0, 1)), Chain((2, 3))))
    first, *spatial = axis_names
    plain = [tuple(Key(a) for a in names) for names in ((first, *spatial), (*spatial, first))]
    if len(spatial) > 1:
        plain.append((*(Key(a) for a in spatial[::-1]), Key(first)))
    down = tuple(Key(a, descending=True) for a in spatial)
    plain += [(*down, Key(first)), (Key(first), *down)]
    for base in plain:
        yield from split_levels(list(base), tree)
    if isinstance(tree, Chain) and any(isinstance(p, Fused) for p in tree.items):
        size = max(len(p.terms) for p in tree.items if isinstance(p, Fused))
        for base in plain[:2]:
            yield KeyedOrder((Level((Key(EVERY_AXIS, size),)), Level((Key(EVERY_AXIS),), "fused")))
            yield KeyedOrder((Level((*base[:-1], Key(base[-1].axis, size))), Level((base[-1],), "fused")))
    for block in (*blocks, *_BLOCKS):
        if not 1 < block < count:
            continue
        yield KeyedOrder((Level((Key(EVERY_AXIS, block),)), Level((Key(EVERY_AXIS),))))
        yield from _propose_lanes(block)
        if block < depth:
            every = tuple(Key(a) for a in spatial)
            outer = Key(first, block)
            yield KeyedOrder((Level((outer, *every, Key(first))),))
            yield KeyedOrder((Level((outer,)), Level((*every, Key(first)))))
            yield KeyedOrder((Level((outer,)), Level((Key(first), *every))))
            yield KeyedOrder((Level((outer, *every)), Level((Key(first),))))
            yield KeyedOrder((Level((*every, outer)), Level((Key(first),))))
            yield KeyedOrder((Level(every), Level((outer,)), Level((Key(first),))))


def _propose_lanes(block: int) -> Iterator[KeyedOrder]:
    for rule in _RULES:
        yield KeyedOrder((Level((Key(EVERY_AXIS, 1, block),), rule), Level((Key(EVERY_AXIS),))))
        yield KeyedOrder((Level((Key(EVERY_AXIS, block),)), Level((Key(EVERY_AXIS),), rule)))
    yield KeyedOrder((Level((Key(EVERY_AXIS, 1, block),)), Level((Key(EVERY_AXIS),))))


def split_levels(keys: list[Key], tree: Item) -> Iterator[KeyedOrder]:
    """The keys as one sum, then divided into two or three levels, then with another rule than one after the other."""
    plain = isinstance(tree, Chain) and all(isinstance(p, int) for p in tree.items)
    yield KeyedOrder((Level(tuple(keys)),))
    if plain:
        return
    places = range(1, len(keys))
    for cuts in itertools.chain(itertools.combinations(places, 1), itertools.combinations(places, 2)):
        bounds = [0, *cuts, len(keys)]
        yield KeyedOrder(tuple(Level(tuple(keys[a:b])) for a, b in itertools.pairwise(bounds)))
    for rule in _RULES:
        yield KeyedOrder((Level(tuple(keys), rule),))
        for at in places:
            yield KeyedOrder((Level(tuple(keys[:at]), rule), Level(tuple(keys[at:]))))
            yield KeyedOrder((Level(tuple(keys[:at])), Level(tuple(keys[at:]), rule)))
