"""Summation trees: who is added to whom, in which sequence, within one sum.

An item is a term (its number), a `Chain` (items added one after the other, left to right, to a running sum) or a
`Fused` group (terms that enter the running sum in a single multi-term addition). What joining means for bits:

    a chain's first item starts the running sum (a term: 0 + product; a group: one multi-term sum; a chain: its value)
    a later term is multiplied and added to the running sum, fused or not as the recipe says
    a later group enters the running sum in one multi-term addition
    a later chain is finished first and then added
    a chain with a format of its own rounds its running sum to that, too, after its first item and every addition
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Fused:
    """Terms added in one multi-term addition."""

    terms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Items added left to right; `format` is the running sum's, where it differs from the recipe's accumulator."""

    items: tuple[Item, ...]
    format: str = ""


Item = int | Chain | Fused
# What the orders of one recipe may expand to, terms and sums together: the longest sums of real layers (weight
# gradients) have 5 million terms, and 2^23 items take a gigabyte.
MOST_ITEMS = 2**23
# Fewer items are looked at one by one in less time.
_SEVERAL = 4


def holds_terms_alone(items: Sequence[Item]) -> TypeGuard[Sequence[int]]:
    """Whether there are several items and all of them are terms, as in most chains: those are handled as a whole."""
    return len(items) >= _SEVERAL and set(map(type, items)) == {int}


def flatten_chain(chain: Chain) -> Chain:
    """The same sums with fewer parentheses: a chain that begins with a chain of its own format is one chain."""
    items = chain.items
    while items and isinstance(items[0], Chain) and items[0].format == chain.format:
        items = (*items[0].items, *items[1:])
    if len(items) == 1 and isinstance(items[0], Chain) and not chain.format:
        return items[0]
    return Chain(items, chain.format)


def list_terms(item: Item) -> list[int]:
    """All terms in the order in which they are met."""
    if isinstance(item, int):
        return [item]
    if isinstance(item, Fused):
        return list(item.terms)
    found: list[int] = []
    if holds_terms_alone(item.items):
        found.extend(item.items)
        return found
    for part in item.items:
        if isinstance(part, int):
            found.append(part)
        else:
            found.extend(list_terms(part))
    return found


def count_items(item: Item) -> int:
    """How many terms and sums a tree holds, itself included."""
    if isinstance(item, int):
        return 1
    if isinstance(item, Fused):
        return 1 + len(item.terms)
    return 1 + sum(1 if isinstance(p, int) else count_items(p) for p in item.items)


def restrict_tree(item: Item, exists: npt.NDArray[np.bool_] | Callable[[int], bool]) -> Item | None:
    """The tree without the terms that do not exist; None if nothing is left."""
    has: Callable[[int], bool] = exists if callable(exists) else exists.tolist().__getitem__
    return _restrict(item, has)


def _restrict(item: Item, has: Callable[[int], bool]) -> Item | None:
    if isinstance(item, int):
        return item if has(item) else None
    if isinstance(item, Fused):
        left = tuple(t for t in item.terms if has(t))
        return Fused(left) if left else None
    parts = [_restrict(p, has) for p in item.items]
    kept = tuple(p for p in parts if p is not None)
    return flatten_chain(Chain(kept, item.format)) if kept else None


def map_terms(item: Item, number: Callable[[int], int]) -> Item:
    """The tree with every term renamed."""
    if isinstance(item, int):
        return number(item)
    if isinstance(item, Fused):
        return Fused(tuple(map(number, item.terms)))
    if holds_terms_alone(item.items):
        return Chain(tuple(map(number, item.items)), item.format)
    return Chain(tuple(map_terms(p, number) for p in item.items), item.format)


def count_depth(item: Item) -> int:
    """How many running sums exist at once while the tree is executed."""
    if not isinstance(item, Chain):
        return 1
    if holds_terms_alone(item.items):
        return min(len(item.items), 2)
    inner = [count_depth(p) + (i > 0) for i, p in enumerate(item.items) if not isinstance(p, int)]
    return max([*inner, min(len(item.items), 2)])


def chain_pairs(items: Sequence[Item]) -> Item:
    """Adjacent pairs added, then pairs of those, and so on; an odd one waits for the next round."""
    level = list(items)
    while len(level) > 1:
        joined: list[Item] = [_join(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = joined + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def chain_halves(items: Sequence[Item]) -> Item:
    """The upper half added onto the lower, item by item, again and again; an odd middle one waits."""
    level = list(items)
    while len(level) > 1:
        half = -(-len(level) // 2)
        level = [_join(level[i], level[i + half]) if i + half < len(level) else level[i] for i in range(half)]
    return level[0]


def chain_splits(items: Sequence[Item]) -> Item:
    """First half and second half, each summed the same way, then added (the first one shorter where they differ)."""
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return _join(chain_splits(items[:half]), chain_splits(items[half:]))


def _join(a: Item, b: Item) -> Chain:
    return flatten_chain(Chain((a, b)))


def has_fused(item: Item) -> bool:
    """Whether a tree holds a multi-term addition."""
    if not isinstance(item, Chain):
        return isinstance(item, Fused)
    return not holds_terms_alone(item.items) and any(has_fused(p) for p in item.items)


def fuse_singles(item: Item) -> Item:
    """The tree with every single term as a multi-term addition of its own, as the last one of a unit's steps is."""
    if isinstance(item, int):
        return Fused((item,))
    if isinstance(item, Fused):
        return item
    return Chain(tuple(fuse_singles(p) for p in item.items), item.format)


def store_sums(item: Item, format_: str, *, parts: bool, running: bool) -> Item:
    """The tree with the outermost finished sums in another format: each before it is added (`parts`), their sum so far
    (`running`), or both.
    """
    if not isinstance(item, Chain):
        return item
    count = next((i for i, p in enumerate(item.items) if i and isinstance(p, Chain)), len(item.items))
    first: Item = Chain(item.items[:count]) if count > 1 else item.items[0]
    sums = [Chain((s,), format_) if parts else s for s in (first, *item.items[count:])]
    return Chain(tuple(sums), format_ if running else item.format)


def store_finished_sums(item: Item, format_: str) -> Item:
    """The tree with every sum that is finished before it is added in another format; what they make together is not."""
    if not isinstance(item, Chain):
        return Chain((item,), format_)
    count = next((i for i, p in enumerate(item.items) if i and isinstance(p, Chain)), 0)
    if not count:
        return Chain((item,), format_)
    first: Item = Chain(item.items[:count]) if count > 1 else item.items[0]
    return Chain(tuple(store_finished_sums(part, format_) for part in (first, *item.items[count:])), item.format)


def swap_first_pairs(item: Item) -> Item:
    """The tree with the first two terms of every chain exchanged: the other product is the one that is fused."""
    if not isinstance(item, Chain):
        return item
    parts = tuple(swap_first_pairs(p) for p in item.items)
    if len(parts) > 1 and isinstance(parts[0], int) and isinstance(parts[1], int):
        parts = (parts[1], parts[0], *parts[2:])
    return Chain(parts, item.format)


def iterate_chains(item: Item) -> Iterator[Chain]:
    """All chains, inner ones first."""
    if isinstance(item, Chain):
        for part in item.items:
            if isinstance(part, Chain):
                yield from iterate_chains(part)
        yield item


def canonical_tree(item: Item) -> Item:
    """One spelling for all trees that give the same bits: sums are commutative, so the longer operand comes first.

    Two single terms keep their order (the first one's product is rounded before the second is fused onto it).
    """
    if isinstance(item, int):
        return item
    if isinstance(item, Fused):
        return Fused(tuple(sorted(item.terms)))
    parts = [canonical_tree(p) for p in item.items]
    if len(parts) > 1 and isinstance(parts[0], Chain | int) and isinstance(parts[1], Chain):
        first, second = parts[0], parts[1]
        if isinstance(first, Chain) and first.format == item.format == second.format:
            both = sorted((first, second), key=_rank)
            parts[:2] = both
    return flatten_chain(Chain(tuple(parts), item.format))


def _rank(item: Item) -> tuple[int, int]:
    terms = list_terms(item)
    return -len(terms), min(terms)
