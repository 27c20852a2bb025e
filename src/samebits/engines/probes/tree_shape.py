"""Trees without an execution order: who is joined with whom, and how many terms lie under a pair's junction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from samebits.sums.recipes.tree import Chain, Fused, Item, flatten_chain, list_terms


class Junctions:
    """For every pair of terms the number of units under their junction, computed pivot by pivot.

    Terms stand in depth-first order, so the terms under a node are an interval of it.
    """

    def __init__(self, tree: Item, count: int):
        self.sequence = np.array(list_terms(tree), np.int64)
        self.rank = np.full(count, -1, np.int64)
        self.rank[self.sequence] = np.arange(len(self.sequence))
        self._begin: list[int] = []
        self._end: list[int] = []
        self._collect(tree, 0)
        self.begin, self.end = np.array(self._begin, np.int64), np.array(self._end, np.int64)

    def _collect(self, item: Item, at: int) -> int:
        """Notes the interval of every junction under an item that starts at rank `at`; returns its end."""
        if isinstance(item, int):
            return at + 1
        if isinstance(item, Fused):
            self._note(at, at + len(item.terms))
            return at + len(item.terms)
        end = self._collect(item.items[0], at)
        for part in item.items[1:]:
            end = self._collect(part, end) if not isinstance(part, Fused) else end + len(part.terms)
            self._note(at, end)
        return end

    def _note(self, begin: int, end: int) -> None:
        self._begin.append(begin)
        self._end.append(end)

    def count_outside(
        self, pivot: int, others: npt.NDArray[np.int64], units: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """For every other term the units outside its junction with the pivot; the pair itself counts as inside.

        `units` marks, by term, which are there and carry a unit.
        """
        place = self.rank[pivot]
        around = np.flatnonzero((self.begin <= place) & (self.end > place))
        order = np.argsort(self.end[around] - self.begin[around], kind="stable")
        around = around[order]
        begins, ends = self.begin[around], self.end[around]
        cumulative = np.concatenate([[0], np.cumsum(units[self.sequence])])
        inside = cumulative[ends] - cumulative[begins]
        # Intervals are nested: the first that holds the other term's rank.
        ranks = self.rank[others]
        below = np.searchsorted(-begins, -ranks, side="left")
        above = np.searchsorted(ends, ranks, side="right")
        return cumulative[-1] - inside[np.minimum(np.maximum(below, above), len(inside) - 1)]

    def list_under(self, one: int, other: int) -> npt.NDArray[np.int64]:
        """The terms under the junction of two."""
        low, high = sorted((int(self.rank[one]), int(self.rank[other])))
        around = np.flatnonzero((self.begin <= low) & (self.end > high))
        smallest = around[np.argmin(self.end[around] - self.begin[around])]
        return self.sequence[self.begin[smallest] : self.end[smallest]]


def find_telling_units(
    one: Junctions, other: Junctions, pivots: Sequence[int], most: int
) -> tuple[int, int, npt.NDArray[np.int64]] | None:
    """A pair of terms, and at most `most` terms to carry units, for which two trees give different answers.

    Only pairs with one of `pivots` are looked through; None where the trees agree on all of them.
    """
    count = len(one.rank)
    every = np.zeros(count, bool)
    every[one.sequence] = True
    for pivot in pivots:
        others = np.flatnonzero(every & (np.arange(count) != pivot))
        differ = one.count_outside(pivot, others, every) != other.count_outside(pivot, others, every)
        if not differ.any():
            continue
        term = int(others[differ][0])
        under = [set(tree.list_under(pivot, term).tolist()) - {pivot, term} for tree in (one, other)]
        only = max(under[0] - under[1], under[1] - under[0], key=len)
        return pivot, term, np.array(sorted(only)[:most], np.int64)
    return None


def join_parts(parts: list[Item]) -> Item:
    """One addition of two items, or a multi-term addition of terms onto at most one sum."""
    sums = sorted((p for p in parts if not isinstance(p, int)), key=_first_term)
    single = sorted(p for p in parts if isinstance(p, int))
    if len(parts) == 2:
        # A multi-term sum that was finished is added as a whole; its terms do not enter the other one's.
        later = (Chain((p,)) if isinstance(p, Fused) else p for p in sums[1:])
        return flatten_chain(Chain((*sums[:1], *later, *single)))
    if not sums:
        return Fused(tuple(single))
    if len(sums) == 1:
        return flatten_chain(Chain((sums[0], Fused(tuple(single)))))
    # Sums and terms in one addition: no recipe says so; the sums are joined first.
    return flatten_chain(Chain((*sums, Fused(tuple(single))) if single else tuple(sums)))


def _first_term(item: Item) -> int:
    if isinstance(item, int):
        return item
    return min(list_terms(item))
