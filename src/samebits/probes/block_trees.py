"""Sums in parts, one to a thread, each in blocks, each perhaps in lanes: which sizes a few answers leave possible.

Where two terms of different blocks meet, how many terms lie under their junction follows from the sizes alone, so all
sizes are tried at once; only for those that fit is the inside of a block asked after, by trees that are written out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.problems.terms import Terms
from samebits.recipes.tree import Chain, Item, flatten_chain

_MOST_PARTS = 64
_LARGEST_BLOCK = 8192
# Parts end where a vector does, and so does what is added before the tail.
_VECTORS = (1, 8, 16)
_LANES = (1, 2, 4, 8, 16)
# In blocks of which fewer pairs were asked about, sizes would fit by chance.
_LEAST_PAIRS = 6
# Where parts have blocks of sizes of their own: so many parts, and sizes of each, are tried.
_MOST_OWN_PARTS, _MOST_OWN_SIZES = 2, 8
# Written out and compared: so many trees at most, of long sums so many terms of all of them.
_MOST_TREES, _MOST_TERMS = 400, 2**21


@dataclass(frozen=True)
class _Numbering:
    """Some terms in the sequence of nested loops over the axes, `axes` slowest first."""

    axes: tuple[int, ...]
    sequence: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Answers:
    """By pair of terms, how many units lie under their junction."""

    pairs: npt.NDArray[np.int64]
    inside: npt.NDArray[np.int64]
    units: npt.NDArray[np.bool_]


def propose_block_trees(
    terms: Terms, members: npt.NDArray[np.int64], units: npt.NDArray[np.bool_], outside: Mapping[tuple[int, int], int]
) -> Iterator[Item]:
    """Trees over `members` in parts and blocks whose sizes explain how many units lie outside each pair's junction.

    What pairs inside one block, or in what is added last, say is left to the caller to compare.
    """
    most = min(_MOST_TREES, _MOST_TERMS // len(members))
    if not most:
        return
    inside = int(units[members].sum()) - np.array(list(outside.values()), np.int64)
    answers = _Answers(np.array(list(outside), np.int64), inside, units)
    numberings = list(_list_numberings(terms, members))
    for inside_too in (False, True):
        yield from itertools.islice(_propose(terms, numberings, answers, inside_too=inside_too), most)


def _propose(terms: Terms, numberings: Sequence[_Numbering], answers: _Answers, *, inside_too: bool) -> Iterator[Item]:
    """Blocks added up as their terms are numbered; `inside_too`: or in another sequence, or in lanes."""
    for outer in numberings:
        slowest = np.unravel_index(outer.sequence, terms.axis_sizes)[outer.axes[0]]
        length = int(slowest.max()) + 1
        for end in dict.fromkeys(length // lanes * lanes for lanes in _LANES if length >= lanes):
            main = outer.sequence[slowest < end]
            for blocks in _find_blocks(main, answers):
                inner, lanes = (numberings, _LANES) if inside_too else ([outer], (1,))
                yield from _build_trees(terms, blocks, outer.sequence[slowest >= end], inner, lanes)


def _list_numberings(terms: Terms, members: npt.NDArray[np.int64]) -> Iterator[_Numbering]:
    index = np.unravel_index(members, terms.axis_sizes)
    real = [axis for axis, size in enumerate(terms.axis_sizes) if size > 1]
    for axes in itertools.permutations(real):
        # The last key given is the first to be sorted by.
        yield _Numbering(axes, members[np.lexsort([index[axis] for axis in reversed(axes)])])


def _find_blocks(sequence: npt.NDArray[np.int64], answers: _Answers) -> Iterator[list[list[npt.NDArray[np.int64]]]]:
    """The terms in parts of one size, and in blocks in each, that explain every pair of terms in different blocks."""
    count = len(sequence)
    rank = np.full(len(answers.units), -1, np.int64)
    rank[sequence] = np.arange(count)
    before = np.concatenate([[0], np.cumsum(answers.units[sequence])])
    first, last = np.sort(rank[answers.pairs], axis=1).T
    known = first >= 0
    first, last, inside = first[known], last[known], answers.inside[known]
    exact = [-(-count // parts) for parts in range(1, min(_MOST_PARTS, count) + 1)]
    for part in dict.fromkeys(-(-size // vector) * vector for size in exact for vector in _VECTORS):
        joined = first // part == last // part
        if (before[np.minimum((last // part + 1) * part, count)][~joined] != inside[~joined]).any():
            continue
        starts = range(0, count, part)
        sizes: list[list[int]] = []
        apart = int((~joined).sum())
        for start in starts:
            own = joined & (first // part == start // part)
            end = min(start + part, count)
            sizes.append(_find_sizes(start, end, before, (first[own], last[own], inside[own])))
        for chosen in _choose_sizes(sizes):
            size_of = np.array(chosen)[first // part]
            told = apart + int((joined & (first % part // size_of != last % part // size_of)).sum())
            if told >= _LEAST_PAIRS:
                yield [
                    [
                        sequence[a : min(a + size, start + part, count)]
                        for a in range(start, min(start + part, count), size)
                    ]
                    for start, size in zip(starts, chosen, strict=True)
                ]


def _find_sizes(
    start: int,
    end: int,
    before: npt.NDArray[np.int64],
    asked: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> list[int]:
    """Sizes of one part's blocks that its pairs leave possible: those that explain most first, then whole vectors."""
    first, last, inside = asked
    sizes = np.arange(min(end - start, _LARGEST_BLOCK), 1, -1)[:, None]
    one, other = (first - start) // sizes, (last - start) // sizes
    block_start, block_end = start + one * sizes, np.minimum(start + (other + 1) * sizes, end)
    different = before[block_end] - before[start] == inside
    within = inside <= before[block_end] - before[block_start]
    apart = one != other
    fits = np.where(apart, different, within).all(axis=1)
    told, found = apart.sum(axis=1)[fits], sizes[fits, 0]
    return found[np.lexsort([found % _VECTORS[1] != 0, -told])].tolist()


def _choose_sizes(sizes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """One size for all parts; of few parts also a size for each."""
    for size in sizes[0]:
        if all(size in own or not own for own in sizes):
            yield (size,) * len(sizes)
    if 1 < len(sizes) <= _MOST_OWN_PARTS:
        some = itertools.product(*(own[:_MOST_OWN_SIZES] for own in sizes))
        yield from (chosen for chosen in some if len(set(chosen)) > 1)


def _build_trees(
    terms: Terms,
    parts: Sequence[Sequence[npt.NDArray[np.int64]]],
    tail: npt.NDArray[np.int64],
    numberings: Sequence[_Numbering],
    lanes: Sequence[int],
) -> Iterator[Item]:
    """The parts and blocks with what may be inside a block, and the tail term by term at the end."""
    for numbering in numberings:
        place = np.zeros(terms.count, np.int64)
        place[numbering.sequence] = np.arange(len(numbering.sequence))
        last = tail[np.argsort(place[tail])].tolist()
        along = np.unravel_index(np.arange(terms.count), terms.axis_sizes)[numbering.axes[-1]]
        for number, adjacent in itertools.product(lanes, (True, False)):
            if number <= 2 and not adjacent:
                continue
            sums = [_join([_add_block(own, place, along, number, adjacent) for own in part]) for part in parts]
            yield flatten_chain(Chain((_join(sums), *last))) if last else _join(sums)


def _add_block(
    own: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    along: npt.NDArray[np.int64],
    lanes: int,
    adjacent: bool,
) -> Item:
    """A block's terms by their place, in one chain or in lanes along an axis."""
    own = own[np.argsort(place[own])]
    number = (along[own] - along[own].min()) % lanes
    sums = [Chain(tuple(own[number == n].tolist())) for n in range(lanes) if (number == n).any()]
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
