"""Short names for trees that were found: the keyed order that expands to them, if a simple one does."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.problems.terms import Terms
from samebits.sums.recipes.order import EVERY_AXIS, Key, KeyedOrder, Level, Order, TreeOrder, expand_order
from samebits.sums.recipes.seen import propose_likely_orders, split_levels
from samebits.sums.recipes.tree import Chain, Item, canonical_tree, list_terms, restrict_tree

_MOST_TIME_S = 0.5


def name_orders(trees: Sequence[Item], terms: Terms) -> tuple[list[Order], list[int]]:
    """Orders for trees over terms (whole or partial sums), and which of them each tree is.

    Trees that are parts of one keyed order share it. A tree without a simple name stays a tree; one that lacks terms
    gets the missing ones appended, which no output that uses it has.
    """
    deadline = time.perf_counter() + _MOST_TIME_S
    orders: list[Order] = []
    numbers: list[int] = []
    for tree in trees:
        for number, order in enumerate(orders):
            if isinstance(order, KeyedOrder) and _is_order_of(order, tree, terms):
                numbers.append(number)
                break
        else:
            orders.append(_name_one(tree, terms, deadline))
            numbers.append(len(orders) - 1)
    return orders, numbers


def _name_one(tree: Item, terms: Terms, deadline: float) -> Order:
    wanted = canonical_tree(tree)
    for order in _propose(tree, terms):
        if time.perf_counter() > deadline:
            break
        if _expands_to(order, tree, wanted, terms):
            return order
    missing = sorted(set(range(terms.count)) - set(list_terms(tree)))
    if missing:
        items = tree.items if isinstance(tree, Chain) and not tree.format else (tree,)
        return TreeOrder(Chain((*items, *missing)))
    return TreeOrder(tree)


def _is_order_of(order: KeyedOrder, tree: Item, terms: Terms) -> bool:
    return _expands_to(order, tree, canonical_tree(tree), terms)


@functools.lru_cache(maxsize=4)
def _expand(order: KeyedOrder, names: tuple[str, ...], sizes: tuple[int, ...]) -> Item | None:
    try:
        return expand_order(order, names, sizes)
    except RecipeError:
        return None


def _expands_to(order: KeyedOrder, tree: Item, wanted: Item, terms: Terms) -> bool:
    expanded = _expand(order, terms.axis_names, terms.axis_sizes)
    if expanded is None:
        return False
    own = list_terms(tree)
    if len(own) < terms.count:
        exists = np.zeros(terms.count, bool)
        exists[own] = True
        expanded = restrict_tree(expanded, exists)
        if expanded is None:
            return False
    return canonical_tree(expanded) == wanted


def _propose(tree: Item, terms: Terms) -> Iterator[KeyedOrder]:
    """Likely orders, likeliest first: what the sequence of terms spells, then common blockings and lanes."""
    sequence = np.array(list_terms(tree), np.int64)
    if len(sequence) == terms.count:
        keys = _decode(sequence, terms.axis_names, terms.axis_sizes)
    else:
        keys = _decode_part(sequence, terms)
    if keys:
        yield from _split_blocks(keys, tree, dict(zip(terms.axis_names, _present_sizes(sequence, terms), strict=True)))
        yield from split_levels(keys, tree)
    yield from propose_likely_orders(terms.axis_names, terms.axis_sizes, tree)


def _split_blocks(keys: list[Key], tree: Item, sizes: dict[str, int]) -> Iterator[KeyedOrder]:
    """Plain keys divided into blocks of the size that the tree's first finished sum has; the last may be shorter."""
    blocks = [len(list_terms(p)) for p in tree.items[1:] if isinstance(p, Chain)] if isinstance(tree, Chain) else []
    if not blocks or any(k.axis not in sizes or k.block > 1 or k.modulus for k in keys):
        return
    inner = 1
    for i in reversed(range(len(keys))):
        size = sizes[keys[i].axis]
        if blocks[0] % inner == 0 and 1 < blocks[0] // inner < size:
            outer = Key(keys[i].axis, blocks[0] // inner, 0, keys[i].descending)
            yield KeyedOrder((Level((*keys[:i], outer)), Level(tuple(keys[i:]))))
        inner *= size


def _present_sizes(sequence: npt.NDArray[np.int64], terms: Terms) -> list[int]:
    return [len(np.unique(i)) for i in np.unravel_index(sequence, terms.axis_sizes)]


def _decode_part(sequence: npt.NDArray[np.int64], terms: Terms) -> list[Key] | None:
    """As `_decode` where terms are missing, but along whole axes: positions are numbered without the gaps."""
    index = np.unravel_index(sequence, terms.axis_sizes)
    present = [np.unique(i) for i in index]
    sizes = tuple(len(p) for p in present)
    if int(np.prod(sizes)) != len(sequence):
        return None
    dense = [np.searchsorted(p, i) for p, i in zip(present, index, strict=True)]
    keys = _decode(np.ravel_multi_index(dense, sizes), terms.axis_names, sizes)
    whole = {n for n, a, b in zip(terms.axis_names, sizes, terms.axis_sizes, strict=True) if a == b}
    if keys is None or any((k.block > 1 or k.modulus) and k.axis not in whole for k in keys):
        return None
    named = {k.axis for k in keys}
    return keys + [Key(n) for n in terms.axis_names if n not in named]


def _decode(sequence: npt.NDArray[np.int64], names: tuple[str, ...], sizes: tuple[int, ...]) -> list[Key] | None:
    """The nested loops that meet the terms in this sequence, slowest first, as keys; None where it is no such nest."""
    loops: list[tuple[int, int]] = []
    rest = sequence
    while len(rest) > 1:
        steps = np.diff(rest)
        extent = int(np.argmax(np.append(steps, steps[0] + 1) != steps[0])) + 1
        if len(rest) % extent:
            return None
        loops.append((int(steps[0]), extent))
        table = rest.reshape(-1, extent)
        if not (np.diff(table, axis=1) == steps[0]).all():
            return None
        rest = table.min(axis=1) if steps[0] < 0 else table[:, 0]
    digits = [key for step, extent in loops[::-1] for key in _name_digit(step, extent, names, sizes)]
    every = dict(zip(names, sizes, strict=True)) | {EVERY_AXIS: len(sequence)}
    return [_simplify(key, digits[:i], every) for i, key in enumerate(digits)]


def _name_digit(step: int, extent: int, names: tuple[str, ...], sizes: tuple[int, ...]) -> list[Key]:
    """One loop as keys of axes, or of the numbering of all terms where it covers parts of several axes."""
    descending, step = step < 0, abs(step)
    strides = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
    axes = list(zip(names, sizes, strides, strict=True))
    for name, size, stride in axes:
        if step % stride == 0 and step < stride * size and step * extent <= stride * size:
            return [Key(name, step // stride, extent, descending)]
    covered: list[Key] = []
    left, at = extent, step
    for name, size, stride in axes[::-1]:
        if left == 1 or at != stride:
            continue
        part = min(size, left)
        if left % part:
            return [Key(EVERY_AXIS, step, extent, descending)]
        covered.insert(0, Key(name, 1, part, descending))
        left, at = left // part, stride * size
    return covered if left == 1 else [Key(EVERY_AXIS, step, extent, descending)]


def _simplify(key: Key, before: list[Key], sizes: dict[str, int]) -> Key:
    """The key without its remainder where nothing above it is left to distinguish."""
    reach = key.block * key.modulus
    above = {k.block for k in before if k.axis == key.axis}
    if reach >= sizes[key.axis] or reach in above:
        return Key(key.axis, key.block, 0, key.descending)
    return key
