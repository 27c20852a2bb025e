"""Trees that a few answers suggest, where asking about every term of a long sum would take too many calls.

Kernels add by digits: a term's number in lanes, blocks and unrolled steps, which are powers of two but for a tail. How
many terms lie under the junction of the first term and of the term 2^i says which digit joins when, and how.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.block_trees import PairAnswers, propose_block_trees
from samebits.engines.probes.tree_shape import Junctions
from samebits.problems.terms import Terms
from samebits.sums.recipes.order import EVERY_AXIS, Key, KeyedOrder, Level, Rule, expand_order
from samebits.sums.recipes.seen import propose_likely_orders
from samebits.sums.recipes.tree import Chain, Item, flatten_chain, list_terms, map_terms, restrict_tree

Pair = tuple[int, int]
_NEAR = 12
_LARGEST_TAIL = 64
_LONGEST_START = 16
_MOST_BLOCKS = 4096
_LANES = (2, 4, 8, 16, 32)
_LONG = 4096


def choose_pairs(members: npt.NDArray[np.int64], random: np.random.Generator, axis_sizes: Sequence[int]) -> list[Pair]:
    """Pairs of terms that distinguish likely trees: with the first term, along axes, near both ends, and at random."""
    last = len(members) - 1
    doubling = 2 ** np.arange(last.bit_length())
    with_first = {*range(1, min(_NEAR, last) + 1), *doubling.tolist(), *(last + 1 - doubling).tolist()}
    with_first |= set(np.geomspace(_NEAR, max(last, _NEAR), _NEAR // 2).astype(int).tolist())
    places = {(0, j) for j in with_first if 0 < j <= last} | {(2, 3), (last - 2, last - 1)}
    # A tail that is added last (the part of a batch behind whole shards) begins where the last term's junctions end.
    places |= {(int(last - step), last) for step in doubling if step > 1}
    places |= {tuple(sorted(random.choice(len(members), 2, replace=False).tolist())) for _ in range(_NEAR)}
    near = [(int(members[a]), int(members[b])) for a, b in sorted(places) if 0 <= a < b <= last]
    return list(dict.fromkeys([*near, *_choose_along_axes(members, axis_sizes)]))


def _choose_along_axes(members: npt.NDArray[np.int64], axis_sizes: Sequence[int]) -> Iterator[Pair]:
    """The first term, and those that are 1, 2, 4 ... after it along an axis, with the next of these."""
    first, present = int(members[0]), set(members.tolist())
    for axis, size in enumerate(axis_sizes):
        step = math.prod(axis_sizes[axis + 1 :])
        along = [first, *(first + step * 2**i for i in range(max(size - 1, 0).bit_length()))]
        pairs = {*((first, other) for other in along[1:]), *itertools.pairwise(along)}
        yield from sorted(pair for pair in pairs if present.issuperset(pair))


def choose_end_pairs(members: npt.NDArray[np.int64], length: int) -> tuple[list[Pair], list[Pair]]:
    """Pairs to ask with units in the first, and in the last, `length` members: they show the blocks there exactly."""
    last = len(members) - 1
    steps = 2 ** np.arange(length.bit_length())
    early = {(0, int(j)) for j in steps if j < length}
    late = {(a, int(last + 1 - j)) for j in steps if 1 < j < length for a in (0, last)}
    first, second = ([(int(members[min(p)]), int(members[max(p)])) for p in sorted(pairs)] for pairs in (early, late))
    return first, second


def choose_more_pairs(members: npt.NDArray[np.int64], outside: Mapping[Pair, int]) -> list[Pair]:
    """Further pairs, for sums whose first terms are added one by one before lanes begin; see `propose_digit_trees`."""
    start = _find_start(_read_inside(members, outside))
    steps = 2 ** np.arange(len(members).bit_length())
    return [(int(members[0]), int(members[start + s])) for s in steps if start and start + s < len(members)]


def _read_inside(members: npt.NDArray[np.int64], outside: Mapping[Pair, int]) -> dict[int, int]:
    """By place among the members: how many lie under the junction of that member and the first."""
    first = int(members[0])
    return {int(np.searchsorted(members, b)): len(members) - n for (a, b), n in outside.items() if a == first}


def _find_start(inside: Mapping[int, int]) -> int:
    """The last of the terms that join the first one by one, before others do; 0 where that is no short run."""
    start = 0
    while inside.get(start + 1) == start + 2:
        start += 1
    return start if 1 < start <= _LONGEST_START else 0


def find_likely_trees(
    terms: Terms, members: npt.NDArray[np.int64], answers: Sequence[PairAnswers], known: Iterable[Item], most: int
) -> list[Item]:
    """The likely trees over `members` that explain how many units lie outside the junction of each pair.

    `known` trees of other outputs come first; where one kind of trees explains the answers, no other is tried. At most
    so many.
    """
    exists = np.zeros(terms.count, bool)
    exists[members] = True
    own = (tree for tree in known if len(list_terms(tree)) == len(members) and exists[list_terms(tree)].all())
    here = [PairAnswers(a.units & exists, a.outside) for a in answers]
    counted = next((a.outside for a in here if a.units[members].all()), None)
    orders, blocks = _propose(terms, members, exists, counted), propose_block_trees(terms, members, here)
    # Blocks follow from the answers; each order that is only likely takes a tenth of a second to write out.
    sources = (own, blocks, orders) if len(members) > _LONG else (own, orders, blocks)
    for source in sources:
        fitting = (tree for tree in source if _explains_all(Junctions(tree, terms.count), here))
        fits = list(itertools.islice(fitting, most))
        if fits:
            return fits
    return []


def _explains_all(junctions: Junctions, answers: Sequence[PairAnswers]) -> bool:
    return all(
        int(junctions.count_outside(one, np.array([other]), a.units)[0]) == count
        for a in answers
        for (one, other), count in a.outside.items()
    )


def _propose(
    terms: Terms,
    members: npt.NDArray[np.int64],
    exists: npt.NDArray[np.bool_],
    outside: Mapping[Pair, int] | None,
) -> Iterator[Item]:
    """Trees suggested by counts of units in all terms, if these could be counted; then trees that any sum may have."""
    blocks: tuple[int, ...] = ()
    if outside is not None:
        inside = _read_inside(members, outside)
        for tree in propose_digit_trees(len(members), inside):
            yield map_terms(tree, lambda t: int(members[t]))
        # In a sum divided into blocks, the first term's junctions end where blocks do.
        ends = {end for j, end in inside.items() if end < len(members) and end != j + 1}
        blocks = (math.gcd(*ends),) if ends else ()
        for tree in propose_halved_blocks(len(members), min(ends) // 2) if ends else ():
            yield map_terms(tree, lambda t: int(members[t]))
    for tree in propose_lane_trees(len(members)):
        yield map_terms(tree, lambda t: int(members[t]))
    names, sizes = terms.axis_names, terms.axis_sizes
    for order in propose_likely_orders(names, sizes, blocks=blocks):
        tree = expand_order(order, names, sizes)
        if len(members) < terms.count:
            tree = restrict_tree(tree, exists)
        if tree is not None:
            yield tree


def propose_lane_trees(count: int) -> Iterator[Item]:
    """Trees of an unrolled loop's lanes: the first lane also takes the remaining terms; lanes are joined in order."""
    for lanes in _LANES:
        whole = count // lanes * lanes
        if whole < 2 * lanes:
            continue
        first = (*range(0, whole, lanes), *range(whole, count))
        rest = (Chain(tuple(range(lane, whole, lanes))) for lane in range(1, lanes))
        yield Chain((*first, *rest))


def propose_halved_blocks(count: int, block: int) -> Iterator[Item]:
    """Blocks of one size, where what is left of less than two is halved, as matrix libraries do; in lanes or not."""
    bounds = [0]
    while count - bounds[-1] > 0:
        left = count - bounds[-1]
        bounds.append(bounds[-1] + (block if left >= 2 * block or left <= block else -(-left // 2)))
        bounds[-1] = min(bounds[-1], count)
        if block < 1 or len(bounds) > _MOST_BLOCKS:
            return
    for lanes in (1, 2, 4):
        parts = [
            tuple(Chain(tuple(range(a + lane, b, lanes))) for lane in range(lanes) if a + lane < b)
            for a, b in itertools.pairwise(bounds)
        ]
        yield flatten_chain(Chain(tuple(part[0] if len(part) == 1 else flatten_chain(Chain(part)) for part in parts)))


def propose_digit_trees(count: int, inside: Mapping[int, int]) -> Iterator[Item]:
    """Trees over terms 0 ... count - 1 by digits of their numbers, with what remains added at the end.

    `inside[2^i]` says how many terms lie under the junction of term 0 and term 2^i. Where a few terms are added one by
    one first, up to where memory is aligned, digits count from the last of them.
    """
    start = _find_start(inside)
    if start:
        rest = {j - start: n - start for j, n in inside.items() if j > start}
        head = tuple(range(start))
        for tree in _propose_digits(count - start, rest):
            yield _put_before(head, map_terms(tree, lambda t: t + start))
    yield from _propose_digits(count, inside)


def _put_before(head: tuple[int, ...], tree: Item) -> Item:
    """The tree with some terms before its first one."""
    if isinstance(tree, Chain):
        return flatten_chain(Chain((_put_before(head, tree.items[0]), *tree.items[1:]), tree.format))
    return Chain((*head, tree))


def _propose_digits(count: int, inside: Mapping[int, int]) -> Iterator[Item]:
    sizes = [1, *(2**i for i in range(1, _LARGEST_TAIL.bit_length()))]
    for main in dict.fromkeys(count // size * size for size in sizes):
        if main < 2:
            continue
        for levels in _read_levels(main, inside):
            tree = expand_order(KeyedOrder(levels), (EVERY_AXIS,), (main,))
            tail = tuple(range(main, count))
            if not tail:
                yield tree
                continue
            yield flatten_chain(Chain((tree, *tail)))
            if len(tail) > 1:
                yield Chain((tree, Chain(tail)))


def _read_levels(count: int, inside: Mapping[int, int]) -> Iterator[tuple[Level, ...]]:
    """The digits of `count` terms, from the last joined to the first, if the counts for powers of two give them all."""
    bits = [i for i in range((count - 1).bit_length()) if 2**i < count]
    if any(2**i not in inside for i in bits):
        return
    bits.sort(key=lambda i: (inside[2**i], i))
    found: list[Level] = []
    size = 1
    while bits:
        low = bits.pop(0)
        number = 1
        together = inside[2**low] == 2 * size
        while bits and bits[0] == low + number:
            if inside[2 ** bits[0]] != (size * (2**number + 1) if together else inside[2**low]):
                break
            bits.pop(0)
            number += 1
        at_top = 2 ** (low + number) >= count
        radix = -(-count // 2**low) if at_top else 2**number
        if (inside[2**low] != 2 * size if together else inside[2**low] != size * radix) or count % size:
            return
        key = Key(EVERY_AXIS, 2**low, 0 if at_top else 2**number, descending=not together)
        found.insert(0, Level((key,)))
        size *= radix
    if size != count:
        return
    yield tuple(found)
    fused: Rule = "fused"
    if len(found) > 1:
        # Instructions that multiply pairs add the second product first.
        inner = found[-1].keys[0]
        backwards = Key(inner.axis, inner.block, inner.modulus, descending=True)
        yield (*found[:-2], Level((*found[-2].keys, backwards)))
    yield (*found[:-1], Level(tuple(Key(k.axis, k.block, k.modulus) for k in found[-1].keys), fused))
