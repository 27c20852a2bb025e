"""Conditions on problems: quantities compared with numbers, joined by `and`; sometimes two of them by `or`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.questions.reduce.features import Feature

Columns = Mapping[str, npt.NDArray[np.int64]]
Truths = npt.NDArray[np.bool_]
_LARGEST_MODULUS = 64
_BLOCKS = (2, 4, 8, 16, 32, 64)
# What a comparison costs in addition to its quantity: a condition is the cheapest one that fits.
_COSTS = {
    "==": 1.0, ">=": 1.0, "<=": 1.0, "mod": 1.2, "no multiple": 1.2, "!=": 1.3, "mod >=": 1.4, "mod <=": 1.4,
}  # fmt: skip
_UNUSUAL_MODULUS = 0.15


@dataclass(frozen=True)
class Atom:
    """One quantity compared: `number` is what with, or the modulus, whose `remainder` is asked for."""

    feature: str
    comparison: str
    number: int
    cost: float
    remainder: int = 0

    def hold(self, columns: Columns) -> Truths:
        """At which of the points it is true."""
        values = columns[self.feature]
        match self.comparison:
            case "==":
                return values == self.number
            case ">=":
                return values >= self.number
            case "<=":
                return values <= self.number
            case "!=":
                return values != self.number
            case "mod":
                return values % self.number == self.remainder
            case "mod >=":
                return values % self.number >= self.remainder
            case "mod <=":
                return values % self.number <= self.remainder
            case _:
                return values % self.number != 0


@dataclass(frozen=True)
class Condition:
    """Clauses, all of which hold; a clause holds where one of its atoms does."""

    clauses: tuple[tuple[Atom, ...], ...]

    @property
    def cost(self) -> float:
        """How far from simple."""
        return sum(atom.cost for clause in self.clauses for atom in clause)

    def hold(self, columns: Columns) -> Truths:
        """At which of the points it is true."""
        found = np.ones(len(next(iter(columns.values()))), bool)
        for clause in self.clauses:
            found &= hold_any(clause, columns)
        return found

    def replace_clause(self, i: int, clause: tuple[Atom, ...]) -> Condition:
        """The condition with another clause in place of one."""
        return Condition((*self.clauses[:i], clause, *self.clauses[i + 1 :]))


def hold_any(clause: tuple[Atom, ...], columns: Columns) -> Truths:
    """At which of the points one of the atoms is true."""
    return np.logical_or.reduce([atom.hold(columns) for atom in clause])


def list_atoms(features: Mapping[str, Feature], columns: Columns, faulty: Truths) -> Iterator[Atom]:
    """Every comparison that is true at all faulty points and false at a right one."""
    for name, feature in features.items():
        positive, negative = np.unique(columns[name][faulty]), np.unique(columns[name][~faulty])
        for atom in _list_comparisons(name, feature, positive, negative):
            own = {name: negative}
            if not atom.hold(own).all() and atom.hold({name: positive}).all():
                yield atom


def _list_comparisons(
    name: str, feature: Feature, positive: npt.NDArray[np.int64], negative: npt.NDArray[np.int64]
) -> Iterator[Atom]:
    least, most = int(positive[0]), int(positive[-1])
    if feature.other is not None:
        yield from (_make(name, feature, *pair) for pair in (("==", 0), (">=", 1), ("<=", -1), ("!=", 0)))
        yield from (_make(name, feature, *pair) for pair in ((">=", 0), ("<=", 0)))
        return
    if least == most:
        yield _make(name, feature, "==", least)
    if feature.is_flag:
        return
    yield _make(name, feature, ">=", least)
    yield _make(name, feature, "<=", most)
    for modulus in range(2, _LARGEST_MODULUS + 1):
        remainders = np.unique(positive % modulus)
        if len(remainders) == 1:
            yield _make(name, feature, "mod", modulus, int(remainders[0]))
        if remainders[0] != 0:
            yield _make(name, feature, "no multiple", modulus)
        # As a loop has that takes several at a time, and goes wrong with what is left.
        if modulus in _BLOCKS and len(remainders) > 1:
            if remainders[0] > 1:
                yield _make(name, feature, "mod >=", modulus, int(remainders[0]))
            if remainders[-1] < modulus - 1:
                yield _make(name, feature, "mod <=", modulus, int(remainders[-1]))


def _make(name: str, feature: Feature, comparison: str, number: int, remainder: int = 0) -> Atom:
    cost = feature.cost + _COSTS[comparison]
    if comparison in ("mod", "no multiple", "mod >=", "mod <="):
        cost += number / 1000 + (0 if number in _BLOCKS else _UNUSUAL_MODULUS)
    return Atom(name, comparison, number, cost, remainder)


def list_usual_atoms(features: Mapping[str, Feature], columns: Columns) -> Iterator[Atom]:
    """Comparisons that either half of an `or` may be: true and false somewhere, with few numbers."""
    for name, feature in features.items():
        if feature.other is not None:
            candidates = [_make(name, feature, *pair) for pair in (("==", 0), (">=", 1), ("<=", -1), ("!=", 0))]
        else:
            values = [int(v) for v in np.unique(columns[name])]
            candidates = [_make(name, feature, "==", values[0])]
            if not feature.is_flag:
                candidates += [_make(name, feature, c, v) for v in values for c in (">=", "<=")]
                candidates += [_make(name, feature, "no multiple", m) for m in _BLOCKS]
                candidates += [_make(name, feature, "mod", m, 0) for m in _BLOCKS]
                candidates.append(_make(name, feature, "mod", 2, 1))
        for atom in candidates:
            true = atom.hold(columns)
            if true.any() and not true.all():
                yield atom


def list_nearby(clause: tuple[Atom, ...]) -> list[tuple[Atom, ...]]:
    """The clause with one threshold a little further out or in: values that nobody asked about yet."""
    found: list[tuple[Atom, ...]] = []
    for i, atom in enumerate(clause):
        if atom.comparison in (">=", "<="):
            for step in (-16, -8, -4, -2, -1, 1, 2, 4, 8, 16):
                moved = replace(atom, number=atom.number + step)
                found.append((*clause[:i], moved, *clause[i + 1 :]))
    return found


_SIGNS = {"==": "=", ">=": ">=", "<=": "<=", "!=": "is not"}
_RELATIONS = {
    ("==", 0): "=",
    (">=", 1): ">",
    ("<=", -1): "<",
    ("!=", 0): "differs from",
    (">=", 0): ">=",
    ("<=", 0): "<=",
}


# Quantities whose words are a plural: what is a multiple of something is their number.
_COUNTED = re.compile(
    r"(?:(?:in|out)put )?(?:rows|columns|terms|groups|channels|outputs|products|positions|multiply-adds)\b(?! times)"
)


def say_condition(condition: Condition, features: Mapping[str, Feature]) -> str:
    """All clauses, joined by `and`; empty where there are none."""
    order = list(features)
    clauses = sorted(condition.clauses, key=lambda clause: order.index(clause[0].feature))
    return " and ".join(_say_clause(clause, features) for clause in clauses)


def _say_clause(clause: tuple[Atom, ...], features: Mapping[str, Feature]) -> str:
    said = [_say_atom(atom, features[atom.feature]) for atom in clause]
    return said[0] if len(said) == 1 else f"({' or '.join(said)})"


def _say_atom(atom: Atom, feature: Feature) -> str:
    words, number = feature.words, atom.number
    if feature.other is not None:
        return f"{words} {_RELATIONS[atom.comparison, number]} {feature.other}"
    if feature.is_flag:
        return f"{'with' if _holds_at(atom, 1) else 'without'} {words if words.startswith('an ') else f'a {words}'}"
    if atom.comparison in ("mod", "no multiple") and _COUNTED.match(words):
        words = f"the number of {words}"
    if atom.comparison == "mod":
        return _say_multiple(words, number, atom.remainder)
    if atom.comparison in ("mod >=", "mod <="):
        return f"{words} modulo {number} {atom.comparison.removeprefix('mod ')} {atom.remainder}"
    if atom.comparison == "no multiple":
        return f"{words} is odd" if number == 2 else f"{words} is no multiple of {number}"
    if atom.comparison == ">=" and number == feature.floor + 1:
        return f"{words} > {feature.floor}"
    if atom.comparison == "<=" and number == feature.floor:
        return f"{words} = {number}"
    return f"{words} {_SIGNS[atom.comparison]} {number}"


def _say_multiple(words: str, modulus: int, remainder: int) -> str:
    if modulus == 2:
        return f"{words} is {'odd' if remainder else 'even'}"
    return f"{words} is {f'{remainder} more than ' if remainder else ''}a multiple of {modulus}"


def _holds_at(atom: Atom, value: int) -> bool:
    return {"==": value == atom.number, ">=": value >= atom.number, "!=": value != atom.number}.get(
        atom.comparison, False
    )
