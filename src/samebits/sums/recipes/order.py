"""Summation orders as data: levels of sort keys, or an explicit tree; both become a tree once the axes are known.

A keyed order sorts the terms by its keys, slowest first. A key is an axis divided by a block size (`c/16`), an axis
modulo one (`k%4`), both (`c/4%2`), or negated (`-kh`); `k` numbers all terms. Each `|` closes a sum: what shares the
keys before it is added up on its own, by the rule of its level, and enters the level before as one item.

    c,kh,kw              all terms in order
    c/16|kh,kw,c         blocks of 16 channels, each summed in order; then the blocks, in order
    halves:k%8|k         eight lanes, then the upper half onto the lower
    k/16|fused:k         groups of 16 enter the running sum in one multi-term addition
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.sums.recipes.tree import (
    MOST_ITEMS,
    Chain,
    Fused,
    Item,
    chain_halves,
    chain_pairs,
    chain_splits,
    flatten_chain,
    iterate_chains,
    list_terms,
)

Rule = Literal["chain", "pairs", "halves", "splits", "fused"]
RULES: tuple[Rule, ...] = ("chain", "pairs", "halves", "splits", "fused")
_JOIN: dict[str, Callable[[Sequence[Item]], Item]] = {
    "pairs": chain_pairs,
    "halves": chain_halves,
    "splits": chain_splits,
}
# All terms of a sum numbered through.
EVERY_AXIS = "k"


@dataclass(frozen=True, slots=True)
class Key:
    """Sorts by (index // block) % modulus along an axis; modulus 0 leaves the remainder out."""

    axis: str
    block: int = 1
    modulus: int = 0
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """Keys that distinguish the items of one sum, the rule that adds them, the format partial sums are stored in."""

    keys: tuple[Key, ...]
    rule: Rule = "chain"
    format: str = ""


@dataclass(frozen=True, slots=True)
class Own:
    """What sums of one order do otherwise than the recipe says; empty: as the recipe says (see `Recipe`)."""

    product: str = ""
    bias: str = ""
    bias_terms: int = 0


AS_RECIPE = Own()


@dataclass(frozen=True, slots=True)
class KeyedOrder:
    """Levels from the last addition to the first."""

    levels: tuple[Level, ...]
    own: Own = AS_RECIPE


@dataclass(frozen=True, slots=True)
class TreeOrder:
    """A tree written out; its terms are numbered d * volume + v, as `problems.terms` numbers them."""

    tree: Item
    own: Own = AS_RECIPE


Order = KeyedOrder | TreeOrder
IN_ORDER = KeyedOrder((Level((Key(EVERY_AXIS),)),))


def expand_order(order: Order, axis_names: Sequence[str], axis_sizes: Sequence[int]) -> Item:
    """The tree of an order over terms numbered row-major along the axes.

    Raises RecipeError where a key names an axis that is not there, a tree misses, repeats or invents terms, or there
    are more than MOST_ITEMS terms.
    """
    count = math.prod(axis_sizes)
    if count > MOST_ITEMS:
        raise RecipeError(f"this problem's sums have {count:,} terms; orders are expanded to at most {MOST_ITEMS:,}")
    if isinstance(order, TreeOrder):
        _check_tree(order.tree, count)
        return order.tree
    return _expand_keys(order.levels, tuple(axis_names), tuple(axis_sizes))


def expand_orders(orders: Sequence[Order], axis_names: Sequence[str], axis_sizes: Sequence[int]) -> list[Item]:
    """The trees of all orders of a recipe; raises RecipeError as `expand_order` does, and for too many in all.

    One order may have MOST_ITEMS terms; all of them together twice as many.
    """
    count = len(orders) * math.prod(axis_sizes)
    if len(orders) > 1 and count > 2 * MOST_ITEMS:
        raise RecipeError(
            f"{len(orders):,} orders of this problem's sums have {count:,} terms in all; at most {2 * MOST_ITEMS:,}"
        )
    return [expand_order(order, axis_names, axis_sizes) for order in orders]


def _expand_keys(levels: tuple[Level, ...], axis_names: tuple[str, ...], axis_sizes: tuple[int, ...]) -> Item:
    keep = _keep_small if math.prod(axis_sizes) <= _SMALL_TREE else _keep_large
    return keep(levels, axis_names, axis_sizes)


def _expand_anew(levels: tuple[Level, ...], axis_names: tuple[str, ...], axis_sizes: tuple[int, ...]) -> Item:
    count = int(np.prod(axis_sizes, dtype=np.int64))
    index = dict(zip(axis_names, np.unravel_index(np.arange(count), axis_sizes), strict=True))
    index[EVERY_AXIS] = np.arange(count)
    columns = [[_rank(key, index) for key in level.keys] for level in levels]
    every = [c for level in columns for c in level]
    sequence = np.lexsort([np.arange(count), *every[::-1]])
    return _build(levels, columns, sequence)


# Recipes that are tried one after the other often share their order; trees of long sums are large.
_SMALL_TREE = 2048
_keep_small = functools.lru_cache(maxsize=256)(_expand_anew)
_keep_large = functools.lru_cache(maxsize=4)(_expand_anew)


def list_stored_formats(order: Order) -> set[str]:
    """The formats, other than the accumulator, that some of an order's partial sums are stored in."""
    if isinstance(order, KeyedOrder):
        return {level.format for level in order.levels} - {""}
    return {chain.format for chain in iterate_chains(order.tree)} - {""}


def _rank(key: Key, index: dict[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    if key.axis not in index:
        raise RecipeError(f"the order sorts by {key.axis!r}; this problem's sums have the axes {', '.join(index)}")
    rank = index[key.axis] // key.block
    if key.modulus:
        rank = rank % key.modulus
    return -rank if key.descending else rank


def _build(levels: tuple[Level, ...], columns: list[list[np.ndarray]], sequence: np.ndarray) -> Item:
    """The tree of terms in `sequence`, which is sorted by all columns."""
    level, own = levels[0], columns[0]
    if len(levels) == 1:
        return _join(level, [int(t) for t in sequence])
    changes = np.zeros(len(sequence), bool)
    for column in own:
        values = column[sequence]
        changes[1:] |= values[1:] != values[:-1]
    parts = np.split(sequence, np.flatnonzero(changes))
    return _join(level, [_build(levels[1:], columns[1:], part) for part in parts])


def _join(level: Level, items: list[Item]) -> Item:
    if level.rule == "fused":
        return Fused(tuple(t for item in items for t in list_terms(item)))
    if level.rule == "chain":
        return flatten_chain(Chain(tuple(items), level.format))
    joined = _JOIN[level.rule](items)
    return _store(joined, items, level.format) if level.format else joined


def _store(joined: Item, items: list[Item], format_: str) -> Item:
    """The same tree with the partial sums of `items` stored in `format_`."""
    own = {id(i) for i in items}
    if not isinstance(joined, Chain) or id(joined) in own:
        return joined
    return Chain(tuple(i if id(i) in own else _store(i, items, format_) for i in joined.items), format_)


def _check_tree(tree: Item, count: int) -> None:
    terms = np.array(list_terms(tree), np.int64)
    if len(terms) != count or not np.array_equal(np.sort(terms), np.arange(count)):
        raise RecipeError(f"the order's tree must hold each of the {count} terms of this problem's sums once")
