"""Conditions in words."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.questions.reduce.conditions import Atom, Condition
from samebits.questions.reduce.features import Feature

_SIGNS = {"==": "=", ">=": ">=", "<=": "<=", "!=": "is not"}
_RELATIONS = {
    ("==", 0): "=",
    (">=", 1): ">",
    ("<=", -1): "<",
    ("!=", 0): "differs from",
    (">=", 0): ">=",
    ("<=", 0): "<=",
}


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
    if atom.comparison == "mod":
        return _say_multiple(words, number, atom.remainder)
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
