"""A tree that is being found: subtrees whose inside is known, or still to be asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.tree_shape import join_parts
from samebits.sums.recipes.tree import Chain, Item, list_terms, map_terms


@dataclass
class Subtree:
    """Terms that are summed among themselves, as far as is known.

    `chain` holds, once the pivot (the first of `members`) has been asked about all others, what joins its running sum
    one junction after the other: at each junction one subtree, or several in a multi-term addition. `anchor` is a term
    outside that lies under the junction at which this subtree is joined, -1 for a whole sum; `siblings` is the list of
    that junction, `whole` all its terms. A junction that looks like a copy of an earlier one waits for that one's
    first subtree, its `model`. Members found to join further up form a `loose` subtree: likely single terms.
    """

    members: npt.NDArray[np.int64]
    anchor: int = -1
    siblings: list[Subtree] = field(default_factory=list)
    whole: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    chain: list[list[Subtree]] | None = None
    model: Subtree | None = None
    tree: Item | None = None
    loose: bool = False

    @property
    def pivot(self) -> int:
        """The member that all others are asked against."""
        return int(self.members[0])

    def is_complete(self) -> bool:
        """Whether everything inside is known."""
        return all(s.chain is not None for s in self._list_unbuilt())

    def build(self) -> Item:
        """The tree, in the usual sequence (see `join_parts`)."""
        # Innermost first: a sum in descending sequence has as many levels as terms.
        for subtree in reversed(self._list_unbuilt()):
            subtree.tree = subtree._join_chain()
        return self.pivot if self.tree is None else self.tree

    def _list_unbuilt(self) -> list[Subtree]:
        """This subtree and those inside it that have several terms and no tree yet, outer ones before inner ones."""
        found: list[Subtree] = []
        open_ = [self]
        while open_:
            subtree = open_.pop()
            if subtree.tree is None and len(subtree.members) > 1:
                found.append(subtree)
                open_ += [s for junction in subtree.chain or () for s in junction]
        return found

    def _join_chain(self) -> Item:
        """The tree, those of all that joins its chain being built."""
        assert self.chain is not None
        current: Item = self.pivot
        run: list[int] = []
        for junction in self.chain:
            parts = [s.pivot if s.tree is None else s.tree for s in junction]
            if len(parts) == 1 and isinstance(parts[0], int) and not isinstance(current, int):
                run.append(parts[0])  # Long chains are joined at once.
                continue
            current = join_parts([_extend(current, run), *parts])
            run = []
        return _extend(current, run)

    def settle(self, inside: npt.NDArray[np.int64]) -> list[Subtree]:
        """Takes in how many members lie under the junction of the pivot and each other member; returns new subtrees.

        A count beyond the members' number means a junction further up: those members are not part of this subtree,
        they become one of their own at its junction.
        """
        others = self.members[1:]
        beside = others[inside > len(self.members)]
        own = inside <= len(self.members)
        others, inside = others[own], inside[own]
        new: list[Subtree] = []
        if len(beside):
            new.append(self._put_beside(beside))
            self.members = np.concatenate([self.members[:1], others])
        order = np.argsort(inside, kind="stable")
        changes = np.flatnonzero(np.diff(inside[order])) + 1
        self.chain = []
        first_of_size: dict[int, Subtree] = {}
        for part in np.split(others[order], changes) if len(others) else []:
            junction: list[Subtree] = []
            part = np.sort(part)
            # If all others meet before the lowest joins them, the sum may begin with the highest; if it does not, the
            # next lowest is asked, as any term may join last.
            descends = len(part) == len(others) and self.pivot < part[0]
            members = np.roll(part, 1) if descends else part
            subtree = Subtree(members, self.pivot, junction, part)
            junction.append(subtree)
            self.chain.append(junction)
            if len(part) > 1:
                subtree.model = first_of_size.setdefault(len(part), subtree)
                subtree.model = None if subtree.model is subtree else subtree.model
                new.append(subtree)
        return new

    def _put_beside(self, members: npt.NDArray[np.int64]) -> Subtree:
        """A new subtree at this one's junction."""
        aside = Subtree(members, self.anchor, self.siblings, self.whole, loose=len(members) > 1)
        self.siblings.append(aside)
        return aside

    def scatter(self) -> None:
        """Every member is a single term of the junction."""
        for term in self.members[1:]:
            self._put_beside(np.array([term]))
        self.members = self.members[:1]
        self.chain = []

    def can_copy(self) -> bool:
        """Whether all about the model's junction is known."""
        return self.model is not None and all(s.is_complete() for s in self.model.siblings)

    def copy_model(self) -> list[Item]:
        """The trees at this junction if it is a copy of its model's, term by term in ascending order."""
        assert self.model is not None
        renamed = dict(zip(self.model.whole.tolist(), self.whole.tolist(), strict=True))
        return [map_terms(s.build(), renamed.__getitem__) for s in self.model.siblings]

    def accept_copy(self, trees: list[Item]) -> None:
        """Makes the junction what `copy_model` returned."""
        self.siblings[:] = [
            Subtree(np.sort(np.array(list_terms(t))), self.anchor, self.siblings, self.whole, tree=t) for t in trees
        ]


def _extend(current: Item, run: list[int]) -> Item:
    if not run:
        return current
    if isinstance(current, Chain):
        return Chain((*current.items, *run), current.format)
    return Chain((current, *run))


def pick_pairs(tree: Item, count: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Some pairs of a tree's terms: the first two and the last two to meet, and random ones."""
    terms = list_terms(tree)
    if len(terms) < 2:
        return []
    pairs = {(terms[0], terms[1]), (terms[0], terms[-1])}
    for _ in range(2 * count):
        if len(pairs) >= count:
            break
        a, b = random.choice(len(terms), 2, replace=False)
        pairs.add((terms[int(a)], terms[int(b)]))
    return sorted(pairs)
