"""The cheapest condition that is true at all faulty points and false at all right ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from samebits.questions.reduce.conditions import (
    Atom,
    Columns,
    Condition,
    Truths,
    hold_any,
    list_atoms,
    list_usual_atoms,
)
from samebits.questions.reduce.features import Feature

Clause = tuple[Atom, ...]
_MOST_CLAUSES, _MOST_NODES, _MOST_PAIRED = 14, 8_000, 700
# What two comparisons joined by `or` cost beyond themselves; what is cheaper than any such pair needs none.
_OR, _COST_OF_OR = 0.4, 2.4
# A clause that is only necessary is worth saying where it excludes this share of the right points, or more.
_WORTH_SAYING = 0.02
_NO_COST = float("inf")


@dataclass
class Clauses:
    """Clauses that are true at all faulty points, and which right points each of them excludes."""

    clauses: list[Clause]
    costs: npt.NDArray[np.float64]
    excluded: npt.NDArray[np.bool_]


def list_clauses(features: Mapping[str, Feature], columns: Columns, faulty: Truths, *, pairs: bool = True) -> Clauses:
    """Single comparisons; also pairs joined by `or` where no single ones suffice, or only many together."""
    single: list[Clause] = [(atom,) for atom in list_atoms(features, columns, faulty)]
    right = {name: values[~faulty] for name, values in columns.items()}
    found = _collect(single, right)
    simple = find_cheapest(found) if pairs else None
    if not pairs or (simple is not None and simple.cost <= _COST_OF_OR):
        return found
    return _collect(single + _list_pairs(features, columns, faulty), right)


def _collect(clauses: list[Clause], right: Columns) -> Clauses:
    count = len(next(iter(right.values())))
    excluded = np.array([~hold_any(clause, right) for clause in clauses], bool).reshape(len(clauses), count)
    return Clauses(
        clauses, np.array([sum(a.cost for a in clause) + _OR * (len(clause) - 1) for clause in clauses]), excluded
    )


def _list_pairs(features: Mapping[str, Feature], columns: Columns, faulty: Truths) -> list[Clause]:
    """Pairs of comparisons of which one is true at every faulty point; of those true at the same points one counts."""
    found: dict[bytes, Atom] = {}
    for atom in sorted(list_usual_atoms(features, columns), key=lambda a: a.cost):
        found.setdefault(atom.hold(columns).tobytes(), atom)
    atoms = list(found.values())[:_MOST_PAIRED]
    if not atoms:
        return []
    true = np.array([atom.hold(columns) for atom in atoms])
    missing = (~true[:, faulty]).astype(np.int32)
    # No faulty point at which both are false, and not the pair of an atom that is enough by itself.
    both = missing @ missing.T == 0
    alone = missing.sum(axis=1) == 0
    return [
        (atoms[i], atoms[j])
        for i, j in zip(*np.nonzero(np.triu(both, 1)), strict=True)
        if not alone[i] and not alone[j]
    ]


def find_cheapest(clauses: Clauses) -> Condition | None:
    """The cheapest set of clauses that excludes every right point; None where all together do not."""
    if clauses.excluded.shape[1] == 0:
        return Condition(())
    if not clauses.clauses or not clauses.excluded.any(axis=0).all():
        return None
    order = np.argsort(clauses.costs, kind="stable")
    excluded = clauses.excluded[order]
    # Of clauses that exclude the same points the cheapest; points that the same clauses exclude are one.
    _, first = np.unique(excluded, axis=0, return_index=True)
    kept = np.sort(first)
    points = np.unique(excluded[kept], axis=1)
    search = _Search(points, clauses.costs[order][kept])
    search.start_greedily()
    search.descend((), np.zeros(points.shape[1], bool), 0.0)
    return Condition(tuple(clauses.clauses[order[kept[i]]] for i in search.best or ()))


def find_necessary(clauses: Clauses) -> Condition:
    """A condition that is true at all faulty points, though at some right ones too: clauses that each exclude many."""
    order = np.argsort(clauses.costs, kind="stable")
    excluded, chosen = clauses.excluded[order], list[int]()
    done = np.zeros(excluded.shape[1], bool)
    while len(chosen) < _MOST_CLAUSES:
        gains = (excluded & ~done).sum(axis=1)
        if not len(gains) or gains.max() < max(_WORTH_SAYING * excluded.shape[1], 1):
            break
        best = int(np.argmax(gains / clauses.costs[order]))
        chosen.append(best)
        done |= excluded[best]
    return Condition(tuple(clauses.clauses[order[i]] for i in chosen))


@dataclass
class _Search:
    """Branch and bound: the point that fewest clauses exclude is excluded by one of them."""

    excluded: npt.NDArray[np.bool_]
    costs: npt.NDArray[np.float64]
    best: tuple[int, ...] | None = None
    best_cost: float = _NO_COST
    nodes: int = 0
    counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = self.excluded.sum(axis=0)

    def start_greedily(self) -> None:
        """A first set: the clause that excludes most for its cost, again and again; then those left out that may be."""
        done, chosen = np.zeros(self.excluded.shape[1], bool), list[int]()
        while not done.all():
            best = int(np.argmax((self.excluded & ~done).sum(axis=1) / self.costs))
            chosen.append(best)
            done |= self.excluded[best]
        for i in sorted(chosen, key=lambda i: -self.costs[i]):
            rest = [j for j in chosen if j != i]
            if rest and self.excluded[rest].any(axis=0).all():
                chosen = rest
        self.best, self.best_cost = tuple(chosen), float(self.costs[chosen].sum())

    def descend(self, chosen: tuple[int, ...], done: npt.NDArray[np.bool_], cost: float) -> None:
        self.nodes += 1
        if done.all():
            self.best, self.best_cost = chosen, cost
            return
        if len(chosen) == _MOST_CLAUSES or self.nodes > _MOST_NODES:
            return
        open_points = np.flatnonzero(~done)
        point = open_points[np.argmin(self.counts[open_points])]
        candidates = np.flatnonzero(self.excluded[:, point])
        gain = self.excluded[np.ix_(candidates, open_points)].sum(axis=1)
        for i in candidates[np.lexsort((self.costs[candidates], -gain))]:
            if cost + self.costs[i] < self.best_cost - 1e-9:
                self.descend((*chosen, int(i)), done | self.excluded[i], cost + float(self.costs[i]))


def list_alternatives(condition: Condition, clauses: Clauses, most_dearer: float) -> list[Condition]:
    """Conditions that fit as well: one clause replaced by another, not much dearer."""
    chosen = [next(i for i, c in enumerate(clauses.clauses) if c == clause) for clause in condition.clauses]
    found: list[Condition] = []
    for place, own in enumerate(chosen):
        others = [i for i in chosen if i != own]
        rest = clauses.excluded[others].any(axis=0) if others else np.zeros(clauses.excluded.shape[1], bool)
        needed = ~rest
        fits = clauses.excluded[:, needed].all(axis=1) & (clauses.costs <= clauses.costs[own] + most_dearer)
        found += [condition.replace_clause(place, clauses.clauses[i]) for i in np.flatnonzero(fits) if i != own]
    return found
