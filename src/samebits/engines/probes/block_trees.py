"""Sums in shards, each in parts, one to a thread, each in blocks, each perhaps in lanes: which sizes answers allow.

A shard is what one call of a matrix product adds: so many images of a batch, as many as fit a cache.

Where two terms of different blocks meet, how many terms lie under their junction follows from the sizes alone, so all
sizes are tried at once; only for those that fit is the inside a block asked after, by trees that are written out.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.problems.terms import Terms
from samebits.sums.recipes.tree import Chain, Item, flatten_chain

_MOST_PARTS = 64
_LARGEST_BLOCK = 8192
# Parts end where a vector does, and so does what is added before the tail.
_VECTORS = (1, 8, 16)
_LANES = (1, 2, 4, 8, 16)
# Sizes that separate fewer pairs than this would fit by chance.
_LEAST_PAIRS = 6
# Where parts have blocks of different sizes: the most parts, and the most sizes of each, that are tried.
_MOST_OWN_PARTS, _MOST_OWN_SIZES = 2, 8
# Shards are few: each is a matrix product of its own.
_MOST_SHARDS = 64
# Lanes of an unrolled loop end where whole steps do; what is left is added to their sum.
_STEP = 8
# Written out and compared: so many trees at most, of long sums so many terms of all of them.
_MOST_TREES, _MOST_TERMS = 400, 2**21
_MOST_CUTS = 1000


_Places = int | npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Numbering:
    """Some terms in the sequence of nested loops over the axes, `axes` slowest first."""

    axes: tuple[int, ...]
    sequence: npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairAnswers:
    """What one set of units says: by pair of terms, how many units lie outside of their junction."""

    units: npt.NDArray[np.bool_]
    outside: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class _Asked:
    """All answers for terms in one sequence: by pair the two places, and how many units lie under the junction.

    `before` counts, by set of units, the units before every place; `number` is a pair's set.
    """

    before: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    inside: npt.NDArray[np.int64]

    def between(self, start: _Places, end: _Places) -> npt.NDArray[np.int64]:
        """How many units of each pair's set stand from one place to another."""
        return self.before[self.number, end] - self.before[self.number, start]

    def within(self, start: int, end: int) -> _Asked:
        """The pairs that stand there."""
        own = (self.first >= start) & (self.last < end)
        return _Asked(self.before, self.number[own], self.first[own], self.last[own], self.inside[own])


# The blocks of its parts.
_Shard = list[list[npt.NDArray[np.int64]]]


@dataclass(frozen=True)
class _Cuts:
    """Where shards' parts begin and end, the size of each one's blocks, and how many pairs are in different ones."""

    parts: list[list[tuple[int, int]]]
    sizes: tuple[int, ...]
    told: int

    def apply(self, sequence: npt.NDArray[np.int64]) -> list[_Shard]:
        """The terms of a sequence in those blocks."""
        size_of = iter(self.sizes)
        return [[_cut(sequence, start, end, next(size_of)) for start, end in shard] for shard in self.parts]


def propose_block_trees(terms: Terms, members: npt.NDArray[np.int64], answers: Sequence[PairAnswers]) -> Iterator[Item]:
    """Trees over `members` in parts and blocks whose sizes explain how many units lie outside each pair's junction.

    Answers about pairs inside one block, or in the tail, are left to the caller to compare.
    """
    most = min(_MOST_TREES, _MOST_TERMS // len(members))
    if not most:
        return
    numberings = list(_list_numberings(terms, members))
    for inside_too in (False, True):
        yield from itertools.islice(_propose(terms, numberings, answers, inside_too=inside_too), most)


def _propose(
    terms: Terms, numberings: Sequence[_Numbering], answers: Sequence[PairAnswers], *, inside_too: bool
) -> Iterator[Item]:
    """Trees of blocks whose terms are added as numbered; with `inside_too` also in another sequence, or in lanes."""
    found: list[tuple[_Cuts, _Numbering, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for outer in numberings:
        slowest = np.unravel_index(outer.sequence, terms.axis_sizes)[outer.axes[0]]
        length = int(slowest.max()) + 1
        for end in dict.fromkeys(length // lanes * lanes for lanes in _LANES if length >= lanes):
            main, tail = outer.sequence[slowest < end], outer.sequence[slowest >= end]
            cuts = itertools.islice(_find_blocks(main, answers, len(main) // end), _MOST_CUTS)
            found += [(cut, outer, main, tail) for cut in cuts]
    # What explains most pairs by blocks assumes least of what is inside them.
    for cut, outer, main, tail in sorted(found, key=lambda f: -f[0].told):
        inner, lanes = (numberings, _LANES) if inside_too else ([outer], (1,))
        yield from _build_trees(terms, cut.apply(main), tail, inner, lanes)


def _list_numberings(terms: Terms, members: npt.NDArray[np.int64]) -> Iterator[_Numbering]:
    index = np.unravel_index(members, terms.axis_sizes)
    real = [axis for axis, size in enumerate(terms.axis_sizes) if size > 1]
    for axes in itertools.permutations(real):
        # The last key given is the first to be sorted by.
        yield _Numbering(axes, members[np.lexsort([index[axis] for axis in reversed(axes)])])


def _find_blocks(sequence: npt.NDArray[np.int64], answers: Sequence[PairAnswers], step: int) -> Iterator[_Cuts]:
    """The terms in shards, in parts of each, and in blocks of these, that explain every pair in different blocks.

    A shard has whole multiples of `step` terms.
    """
    count, asked = len(sequence), _place_answers(sequence, answers)
    for size in _find_shard_sizes(count, step, asked):
        starts = [*range(0, count, size), count]
        apart = int((asked.first // size != asked.last // size).sum())
        seen: set[str] = set()
        for number, vector in itertools.product(range(1, min(_MOST_PARTS, size) + 1), _VECTORS):
            parts = [_divide(a, b, number, vector) for a, b in itertools.pairwise(starts)]
            if (key := str(parts)) not in seen:
                seen.add(key)
                yield from _find_parts(parts, asked, apart)


def _place_answers(sequence: npt.NDArray[np.int64], answers: Sequence[PairAnswers]) -> _Asked:
    """The answers about terms of a sequence, which need not hold all terms."""
    rank = np.full(len(answers[0].units), -1, np.int64)
    rank[sequence] = np.arange(len(sequence))
    before = [np.concatenate([[0], np.cumsum(a.units[sequence])]) for a in answers]
    number = np.repeat(np.arange(len(answers)), [len(a.outside) for a in answers])
    pairs = np.array([pair for a in answers for pair in a.outside], np.int64)
    inside = np.array([int(a.units.sum()) - n for a in answers for n in a.outside.values()], np.int64)
    first, last = np.sort(rank[pairs], axis=1).T
    known = first >= 0
    return _Asked(np.array(before, np.int64), number[known], first[known], last[known], inside[known])


def _find_shard_sizes(count: int, step: int, asked: _Asked) -> list[int]:
    """The numbers of terms that a shard may have: all, and the sizes that explain every pair in different shards."""
    smallest = max(-(-count // _MOST_SHARDS), step)
    sizes = np.arange(-(-smallest // step) * step, count, step)[:, None]
    if not sizes.size:
        return [count]
    apart = asked.first // sizes != asked.last // sizes
    ends = np.minimum((asked.last // sizes + 1) * sizes, count)
    within = asked.inside <= asked.between(asked.first // sizes * sizes, ends)
    fits = np.where(apart, asked.between(0, ends) == asked.inside, within).all(axis=1)
    return [count, *sizes[fits & (apart.sum(axis=1) >= _LEAST_PAIRS), 0].tolist()]


def _divide(start: int, end: int, number: int, vector: int) -> list[tuple[int, int]]:
    """One shard in parts of one length, whole vectors but for the last."""
    part = math.ceil(math.ceil((end - start) / number) / vector) * vector
    return [(a, min(a + part, end)) for a in range(start, end, part)]


def _find_parts(parts: list[list[tuple[int, int]]], asked: _Asked, apart: int) -> Iterator[_Cuts]:
    """The blocks of parts that explain all pairs within shards; `apart` counts the pairs in different shards."""
    flat = [part for shard in parts for part in shard]
    for shard in parts:
        starts, ends = np.array(shard, np.int64).T
        own = asked.within(int(starts[0]), int(ends[-1]))
        one, other = (np.searchsorted(starts, place, side="right") - 1 for place in (own.first, own.last))
        if (own.between(starts[0], ends[other]) != own.inside)[one != other].any():
            return
        apart += int((one != other).sum())
    sizes = [_find_sizes(start, end, asked) for start, end in flat]
    for chosen in _choose_sizes(sizes, [end - start for start, end in flat]):
        told = apart
        for size, (start, end) in zip(chosen, flat, strict=True):
            own = asked.within(start, end)
            told += int(((own.first - start) // size != (own.last - start) // size).sum())
        if told >= _LEAST_PAIRS:
            yield _Cuts(parts, chosen, told)


def _cut(sequence: npt.NDArray[np.int64], start: int, end: int, size: int) -> list[npt.NDArray[np.int64]]:
    return [sequence[a : min(a + size, end)] for a in range(start, end, size)]


def _find_sizes(start: int, end: int, asked: _Asked) -> list[int]:
    """The block sizes that one part's pairs allow: those that explain most pairs first, whole vectors before others."""
    own = asked.within(start, end)
    sizes = np.arange(min(end - start, _LARGEST_BLOCK), 1, -1)[:, None]
    one, other = (own.first - start) // sizes, (own.last - start) // sizes
    block_end = np.minimum(start + (other + 1) * sizes, end)
    different = own.between(start, block_end) == own.inside
    within = own.inside <= own.between(start + one * sizes, block_end)
    apart = one != other
    fits = np.where(apart, different, within).all(axis=1)
    told, found = apart.sum(axis=1)[fits], sizes[fits, 0]
    return found[np.lexsort([found % _VECTORS[1] != 0, -told])].tolist()


def _choose_sizes(sizes: Sequence[Sequence[int]], lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One size for all parts, a part that is shorter being one block; of few parts also a size for each."""
    for size in sizes[0]:
        if all(min(size, length) in own or not own for own, length in zip(sizes, lengths, strict=True)):
            yield (size,) * len(sizes)
    if 1 < len(sizes) <= _MOST_OWN_PARTS:
        some = itertools.product(*(own[:_MOST_OWN_SIZES] for own in sizes))
        yield from (chosen for chosen in some if len(set(chosen)) > 1)


def _build_trees(
    terms: Terms,
    shards: Sequence[_Shard],
    tail: npt.NDArray[np.int64],
    numberings: Sequence[_Numbering],
    lanes: Sequence[int],
) -> Iterator[Item]:
    """Shards, parts and blocks with what may be inside a block, and the tail term by term at the end."""
    for numbering in numberings:
        place = np.zeros(terms.count, np.int64)
        place[numbering.sequence] = np.arange(len(numbering.sequence))
        last = tail[np.argsort(place[tail])].tolist()
        along = np.unravel_index(np.arange(terms.count), terms.axis_sizes)[numbering.axes[-1]]
        for inside in _list_insides(lanes):
            add = functools.partial(_add_block, place=place, along=along, inside=inside)
            sums = [_join([_join([add(own) for own in part]) for part in shard]) for shard in shards]
            yield flatten_chain(Chain((_join(sums), *last))) if last else _join(sums)


@dataclass(frozen=True)
class _Inside:
    """How a block's terms are added: in so many lanes, joined next to next or in halves; in whole steps, or all."""

    lanes: int = 1
    adjacent: bool = True
    in_steps: bool = False


def _list_insides(lanes: Sequence[int]) -> Iterator[_Inside]:
    for number in lanes:
        for adjacent in (True, False) if number > 2 else (True,):
            yield from (_Inside(number, adjacent, in_steps) for in_steps in ((False, True) if number > 1 else (False,)))


def _add_block(
    own: npt.NDArray[np.int64], place: npt.NDArray[np.int64], along: npt.NDArray[np.int64], inside: _Inside
) -> Item:
    """A block's terms by their place, in one chain or in lanes: along an axis, or in steps along all of them."""
    own = own[np.argsort(place[own])]
    if inside.in_steps:
        step = max(_STEP, inside.lanes)
        whole = len(own) // step * step
        rest = own[whole:].tolist()
        if not whole:
            return _join(rest)
        lanes = _join_lanes([own[n : whole : inside.lanes] for n in range(inside.lanes)], inside.adjacent)
        return flatten_chain(Chain((lanes, *rest))) if rest else lanes
    number = (along[own] - along[own].min()) % inside.lanes
    return _join_lanes([own[number == n] for n in range(inside.lanes) if (number == n).any()], inside.adjacent)


def _join_lanes(lanes: Sequence[npt.NDArray[np.int64]], adjacent: bool) -> Item:
    sums: list[Item] = [_join(lane.tolist()) for lane in lanes]
    while len(sums) > 1:
        half = -(-len(sums) // 2)
        pairs = (
            (sums[i : i + 2] for i in range(0, len(sums), 2))
            if adjacent
            else itertools.zip_longest(sums[:half], sums[half:])
        )
        sums = [_join([s for s in pair if s is not None]) for pair in pairs]
    return sums[0]


def _join(sums: Sequence[Item]) -> Item:
    return sums[0] if len(sums) == 1 else flatten_chain(Chain(tuple(sums)))
