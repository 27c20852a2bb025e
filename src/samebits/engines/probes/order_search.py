"""One sum's tree and every position's, taken apart question by question: what `summation_order` asks with.

With a pivot and all other terms of a set: equal counts = one part hanging on the pivot's chain, and ascending counts
under the junction are the chain. The same is done inside each part. Of parts of one size only the first is taken apart;
the others are checked against it by a few pairs, and by a later replay on random data. Where all that would
take too many calls, a likely tree that explains a hundred pairs is taken first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.block_trees import PairAnswers
from samebits.engines.probes.likely_trees import choose_end_pairs, choose_more_pairs, choose_pairs, find_likely_trees
from samebits.engines.probes.mask_values import Scale
from samebits.engines.probes.query_batch import QueryBatch
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.subtrees import Subtree, pick_pairs
from samebits.engines.probes.tree_shape import Junctions, find_telling_units
from samebits.errors import ProbeStopped
from samebits.sums.recipes.tree import Item, list_terms, map_terms, restrict_tree

_PAIRS_PER_COPY = 3
_PAIRS_PER_TRANSFER = 8
_MOST_PIVOTS_MATCHED = 256
_MOST_REFINEMENTS = 6
# Where one pivot would take more calls than this, and the sum is not short, a likely order is tried first.
MOST_CALLS_PER_PIVOT = 8
_FEWEST_GUESSED = 128
# Likely trees that explain all answers are distinguished by what they differ in, seen from a few terms.
_MOST_NARROWED = 24
_PIVOTS_TOLD = 4


@dataclass
class FoundOrders:
    """Trees over the terms of whole sums, and which position uses which (-1: undetermined).

    `places` has the shape [batch, outputs]; a position that lacks terms uses its tree without them. `guessed`: a
    tree is a likely one that explains what was asked, not everything.
    """

    trees: list[Item]
    places: npt.NDArray[np.int64]
    scale: Scale | None
    notes: list[str] = field(default_factory=list[str])
    guessed: bool = False


@dataclass
class _Group:
    """Positions with the same terms and the same answers so far; one sampled column stands for them."""

    column: int
    exists: npt.NDArray[np.bool_]
    digest: tuple[int, int]
    order: int = -1


class _UnreadableError(Exception):
    """A position answered something that counts no units."""


class OrderSearch(QueryBatch):
    """Answers so far, groups of positions they distinguish, trees found."""

    def __init__(
        self,
        session: ProbeSession,
        scale: Scale,
        rows: npt.NDArray[np.int64],
        positions: npt.NDArray[np.bool_] | None,
        *,
        may_guess: bool,
        likely: Sequence[Item] = (),
    ):
        super().__init__(session, scale, rows, positions)
        self.may_guess = may_guess
        self.likely = likely
        self.guessed = False
        self.trees: list[Item] = []
        self.members: list[npt.NDArray[np.bool_]] = []
        self.notes: list[str] = []
        self.failed: dict[int, str] = {}
        # Answers are only ever added: a refuted tree stays refuted, and answers that agreed still agree.
        self.refuted: set[tuple[int, int]] = set()
        self.agreed: dict[tuple[int, int], int] = {}
        self.kept: dict[tuple[int, int], Junctions | None] = {}

    def run(self) -> FoundOrders:
        try:
            self._solve_all()
        except ProbeStopped as stop:
            self.notes.append(f"orders are missing: {stop}")
        groups = self._form_groups()
        for group in groups:
            self._match(group)
        places = np.full(self.terms.positions, -1, np.int64)
        for group in groups:
            own = (self.pattern == group.digest[0]) & (self.digests == np.uint64(group.digest[1]))
            places[own] = group.order if group.exists.any() else 0
            if group.column in self.failed:
                self.notes.append(f"{int(own.sum())} positions: {self.failed[group.column]}")
        return FoundOrders(self.trees, places.reshape(self.terms.batch, -1), self.scale, self.notes, self.guessed)

    def _solve_all(self) -> None:
        """Takes apart the group with the most terms, then whichever its tree leaves unexplained."""
        while True:
            unexplained = []
            for group in self._form_groups():
                self._match(group)
                if group.order < 0 and group.column not in self.failed and group.exists.any():
                    unexplained.append(group)
            if not unexplained:
                return
            group = max(unexplained, key=lambda g: int(g.exists.sum()))
            try:
                tree = self._transfer(group) or self._take_apart(group)
            except _UnreadableError as trouble:
                self.failed[group.column] = str(trouble)
                continue
            group.digest = self._digest_of(group.column)
            if self._explains(Junctions(tree, self.terms.count), group):
                self.trees.append(tree)
                self.members.append(group.exists)
            else:
                self.failed[group.column] = "the answers fit no tree"

    def _transfer(self, group: _Group) -> Item | None:
        """A known tree with its terms renamed in ascending order, if a few pairs confirm that it is the group's."""
        own = np.flatnonzero(group.exists)
        units = self._choose_units(own, -1, group)
        present = self.units[units] & group.exists
        for tree in self.trees:
            terms = sorted(list_terms(tree))
            if len(terms) != len(own):
                continue
            renamed = dict(zip(terms, own.tolist(), strict=True))
            candidate = map_terms(tree, renamed.__getitem__)
            pairs = pick_pairs(candidate, _PAIRS_PER_TRANSFER, self.random)
            self.ask([(a, b, units) for a, b in pairs])
            junctions = Junctions(candidate, self.terms.count)
            if all(
                int(junctions.count_outside(a, np.array([b]), present)[0]) == self._read(a, b, units, group)
                for a, b in pairs
            ):
                return candidate
        return None

    def _digest_of(self, column: int) -> tuple[int, int]:
        position = self.sample[column]
        return int(self.pattern[position]), int(self.digests[position])

    def _form_groups(self) -> list[_Group]:
        found: dict[tuple[int, int], _Group] = {}
        for column in range(len(self.sample)):
            digest = self._digest_of(column)
            if digest not in found:
                found[digest] = _Group(column, self.exists[digest[0]], digest)
        return list(found.values())

    def _match(self, group: _Group) -> None:
        """Gives a group the first tree found that explains all its answers."""
        for number in range(len(self.trees)):
            pair = (group.column, number)
            if pair in self.refuted:
                continue
            junctions = self._keep(number, group)
            if junctions is not None and self._explains(junctions, group, self.agreed.get(pair, 0)):
                self.agreed[pair] = len(self.answers)
                group.order = number
                return
            self.refuted.add(pair)

    def _keep(self, number: int, group: _Group) -> Junctions | None:
        """A found tree with the terms that a group's positions have; None if it lacks any of them."""
        key = (number, group.digest[0])
        if key not in self.kept:
            lacks = (group.exists & ~self.members[number]).any()
            tree = None if lacks else restrict_tree(self.trees[number], group.exists)
            self.kept[key] = None if tree is None else Junctions(tree, self.terms.count)
        return self.kept[key]

    def _explains(self, junctions: Junctions, group: _Group, since: int = 0) -> bool:
        """Whether a tree gives the group's answers, those from number `since` on."""
        if len(junctions.sequence) != int(group.exists.sum()):
            return False
        by_pivot: dict[tuple[int, int], list[int]] = {}
        for pivot, other, units in itertools.islice(self.answers, since, None):
            if group.exists[pivot] and group.exists[other]:
                by_pivot.setdefault((pivot, units), []).append(other)
        for (pivot, units), others in list(by_pivot.items())[:_MOST_PIVOTS_MATCHED]:
            expected = junctions.count_outside(pivot, np.array(others), self.units[units] & group.exists)
            given = np.array([self.answers[pivot, o, units][group.column] for o in others])
            if not np.array_equal(expected, given):
                return False
        return True

    def _take_apart(self, group: _Group) -> Item:
        """The tree of one group's positions."""
        members = np.flatnonzero(group.exists)
        if self.may_guess and len(members) > max(MOST_CALLS_PER_PIVOT * len(self.rows), _FEWEST_GUESSED):
            guessed = self._guess(members, group)
            if guessed is not None:
                return guessed
        root = Subtree(members)
        open_, waiting = [root], []
        while open_ or waiting:
            if not open_:
                ready = [s for s in waiting if s.can_copy()]
                waiting = [s for s in waiting if not s.can_copy()]
                open_ = self._check_copies(ready, group)
                if not ready:
                    open_, waiting = waiting, []
                continue
            open_ = self._scatter_loose(open_, group)
            new: list[Subtree] = []
            for subtree, inside in zip(open_, self._ask_inside(open_, group), strict=True):
                new.extend(subtree.settle(inside))
            waiting += [s for s in new if s.model is not None]
            open_ = [s for s in new if s.model is None]
        return root.build()

    def _guess(self, members: npt.NDArray[np.int64], group: _Group) -> Item | None:
        """The likely order that explains a hundred pairs, where asking about every term would take too long."""
        pairs = choose_pairs(members, self.random, self.session.numbered_terms.axis_sizes)
        if self._fits_whole(group):
            outside = self._ask_pairs(pairs, members, group)
            outside |= self._ask_pairs(choose_more_pairs(members, outside), members, group)
            answers = [PairAnswers(self.units[0], outside)]
        else:
            length = self.scale.capacity - 1
            early, late = choose_end_pairs(members, length)
            some = self.random.choice(members, length, replace=False)
            asked = ((pairs, some), (early, members[:length]), (late, members[-length:]))
            answers = [PairAnswers(self._mark(own), self._ask_pairs(p, own, group)) for p, own in asked]
        found = find_likely_trees(self.session.numbered_terms, members, answers, self.likely, _MOST_NARROWED)
        tree = self._narrow(found, members, group)
        self.guessed |= tree is not None
        return tree

    def _ask_pairs(
        self, pairs: list[tuple[int, int]], units: npt.NDArray[np.int64], group: _Group
    ) -> dict[tuple[int, int], int]:
        """The number of units outside each pair's junction; all terms carry a unit if a result can count them all."""
        number = self._choose_units(units, -1, group)
        self.ask([(a, b, number) for a, b in pairs])
        return {(a, b): self._read(a, b, number, group) for a, b in pairs}

    def _mark(self, members: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        marks = np.zeros(self.terms.count, bool)
        marks[members] = True
        return marks

    def _narrow(self, trees: list[Item], members: npt.NDArray[np.int64], group: _Group) -> Item | None:
        """The first of some trees that also gives the answers by which the others differ from it."""
        pivots = [int(members[0]), int(members[-1]), *self.random.choice(members, _PIVOTS_TOLD).tolist()]
        left = [(tree, Junctions(tree, self.terms.count)) for tree in trees]
        at = 1
        while at < len(left):
            telling = find_telling_units(left[0][1], left[at][1], pivots, self.scale.capacity - 1)
            if telling is None:
                at += 1
                continue
            a, b, marked = telling
            marks = self._mark(marked)
            self.units.append(marks)
            self.ask([(a, b, len(self.units) - 1)])
            answer = self._read(a, b, len(self.units) - 1, group)
            left = [(t, j) for t, j in left if int(j.count_outside(a, np.array([b]), marks)[0]) == answer]
            at = 1
        return left[0][0] if left else None

    def _scatter_loose(self, subtrees: list[Subtree], group: _Group) -> list[Subtree]:
        """Splits loose subtrees into single terms where neighbours confirm it; returns the subtrees left to ask."""
        loose = [(s, self._choose_units(s.members, s.anchor, group)) for s in subtrees if s.loose]
        self.ask([(int(a), int(b), u) for s, u in loose for a, b in itertools.pairwise(s.members)])
        left = [s for s in subtrees if not s.loose]
        for s, u in loose:
            present = int((self.units[u] & group.exists).sum())
            pairs = itertools.pairwise(s.members)
            if all(present - self._read(int(a), int(b), u, group) > len(s.members) for a, b in pairs):
                s.scatter()
            else:
                left.append(s)
        return left

    def _check_copies(self, ready: list[Subtree], group: _Group) -> list[Subtree]:
        """Asks a few pairs of every supposed copy; returns the subtrees that are no copies."""
        asked: list[tuple[Subtree, list[Item], list[tuple[int, int, int, int]]]] = []
        questions: list[tuple[int, int, int]] = []
        for subtree in ready:
            trees = subtree.copy_model()
            units = self._choose_units(subtree.whole, subtree.anchor, group)
            present = self.units[units] & group.exists
            elsewhere = int(present.sum()) - int(present[subtree.whole].sum())
            expected: list[tuple[int, int, int]] = []
            for tree in trees:
                junctions = Junctions(tree, self.terms.count)
                # Units of the junction's other subtrees are outside, as those elsewhere are.
                others = int(present[subtree.whole].sum()) - int(present[junctions.sequence].sum())
                for a, b in pick_pairs(tree, _PAIRS_PER_COPY, self.random):
                    inside = int(junctions.count_outside(a, np.array([b]), present)[0])
                    expected.append((a, b, inside + others + elsewhere))
            for one, two in list(itertools.pairwise(trees))[:_PAIRS_PER_COPY]:
                expected.append((min(list_terms(one)), min(list_terms(two)), -len(subtree.whole)))
            questions += [(a, b, units) for a, b, _ in expected]
            asked.append((subtree, trees, [(units, a, b, n) for a, b, n in expected]))
        self.ask(questions)
        return [s for s, trees, pairs in asked if not self._accept(s, trees, pairs, group)]

    def _accept(
        self, subtree: Subtree, trees: list[Item], pairs: list[tuple[int, int, int, int]], group: _Group
    ) -> bool:
        """Accepts a copy if all its pairs answer as expected; an expected -n requires more than n units inside."""
        for units, a, b, expected in pairs:
            outside = self._read(a, b, units, group)
            present = int((self.units[units] & group.exists).sum())
            if (present - outside <= -expected) if expected < 0 else (outside != expected):
                subtree.model = None
                return False
        subtree.accept_copy(trees)
        return True

    def _ask_inside(self, subtrees: list[Subtree], group: _Group) -> list[npt.NDArray[np.int64]]:
        """For each subtree, the number of members under the pivot's junction with each other member (see `settle`)."""
        small = [s for s in subtrees if len(s.members) < self.scale.capacity or self._fits_whole(group)]
        units = {id(s): self._choose_units(s.members, s.anchor, group) for s in small}
        self.ask([(s.pivot, int(j), units[id(s)]) for s in small for j in s.members[1:]])
        found: dict[int, npt.NDArray[np.int64]] = {}
        for s in subtrees:
            if id(s) not in units:
                found[id(s)] = self._refine(s, group)
                continue
            present = self.units[units[id(s)]] & group.exists
            outside = np.array([self._read(s.pivot, int(j), units[id(s)], group) for j in s.members[1:]], np.int64)
            found[id(s)] = int(present.sum()) - outside
        return [found[id(s)] for s in subtrees]

    def _fits_whole(self, group: _Group) -> bool:
        return int(group.exists.sum()) <= self.scale.capacity

    def _choose_units(self, members: npt.NDArray[np.int64], anchor: int, group: _Group) -> int:
        """The number of the unit set to ask with: all terms if a result can count them, else these members only."""
        if self._fits_whole(group):
            return 0
        self.units.append(self._mark(members if anchor < 0 else np.append(members, anchor)))
        return len(self.units) - 1

    def _refine(self, subtree: Subtree, group: _Group) -> npt.NDArray[np.int64]:
        """As `_ask_inside`, for more members than a result can count: asks with units in ever finer parts of them.

        The junctions with one pivot are nested, so sorting by what they hold of any units puts them in sequence; those
        that tie are asked again with units among themselves only.
        """
        others = subtree.members[1:]
        level = np.zeros(len(others), np.int64)
        beside = np.zeros(len(others), bool)
        for round_ in range(_MOST_REFINEMENTS):
            ties = [np.flatnonzero(level == v) for v in np.unique(level)]
            ties = [t for t in ties if len(t) > 1]
            asked: list[tuple[npt.NDArray[np.int64], int]] = []
            for tie in ties:
                step = -(-len(tie) // max(self.scale.capacity - 3, 1))
                asked.append((tie, self._choose_units(others[tie[round_ % step :: step]], subtree.anchor, group)))
            self.ask([(subtree.pivot, int(others[t]), u) for tie, u in asked for t in tie])
            keys = np.zeros(len(others), np.int64)
            for tie, u in asked:
                outside = np.array([self._read(subtree.pivot, int(others[t]), u, group) for t in tie], np.int64)
                if round_ == 0 and subtree.anchor >= 0:
                    beside |= outside == 0
                keys[tie] = outside.max(initial=0) - outside
            _, finer = np.unique(np.stack([level, keys]), axis=1, return_inverse=True)
            finer = finer.reshape(-1)
            settled = len(np.unique(finer)) == len(np.unique(level)) and round_ > 0
            level = finer
            if settled:
                break
        own = ~beside
        counts = np.array([int((level[own] <= v).sum()) + 1 for v in level], np.int64)
        return np.where(beside, len(subtree.members) + 1, counts)

    def _read(self, pivot: int, other: int, units: int, group: _Group) -> int:
        value = float(self.answers[pivot, other, units][group.column])
        if not 0 <= value <= self.terms.count or value != int(value):
            raise _UnreadableError(f"terms {pivot} and {other} as masks leave {value:g} units, which no sum does")
        return int(value)
