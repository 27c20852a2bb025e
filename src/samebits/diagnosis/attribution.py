"""Why sides differ: each engine's recipe, proved by replaying it on the very operands that were compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from samebits.findings import Difference, Evidence, Replay, Side, Verdict
from samebits.formats.format import find_format
from samebits.probes.interview import Interview
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.profiles import search_recipe
from samebits.profiles.order_words import describe_order
from samebits.profiles.replaying import Replayer
from samebits.recipes.order import expand_order, list_carried_formats
from samebits.recipes.recipe import Fft, Recipe, Winograd
from samebits.recipes.text import format_recipe, parse_recipe
from samebits.recipes.tree import Chain, Item, canonical_tree, list_terms
from samebits.runner import Runner

SUMMATION_ORDER = "summation-order"
# Of two causes the one that says more about a loss of precision.
_GRAVITY = (SUMMATION_ORDER, "winograd", "fft", "low-precision-accumulator", "reduced-precision-operands")
_MOST_CALLS, _MOST_TIME_S = 600, 20.0
# Additions are compared one by one up to this many terms.
_MOST_COMPARED_TERMS = 1024


@dataclass(frozen=True)
class Attribution:
    """A side's recipe, how much of its result the recipe reproduces, and what that recipe does to precision."""

    recipe: str
    replay: Replay
    cause: str | None
    evidence: list[Evidence]


def attribute(
    runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Attribution | None:
    """The recipe of a runner, replayed on the operands that were compared; None where none was found."""
    interview = Interview(runner, problem, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
    try:
        found = search_recipe(interview)
    except Exception:  # A runner is anybody's code; what it did to the comparison itself is a finding already.
        return None
    if found.recipe is None:
        return None
    matched, compared, _ = Replayer(problem, operands, result).score(found.recipe)
    says = f"its recipe reproduces {round(matched * compared):,} of {compared:,} outputs bit for bit"
    cause = name_cause(problem, found.recipe) if matched == 1.0 else None
    return Attribution(format_recipe(found.recipe), Replay(matched, compared), cause, [Evidence("replay", says)])


def name_cause(problem: Problem, recipe: Recipe) -> str:
    """What a recipe does that another correct one need not: the gravest of its ways, at least an order of its own."""
    precision = find_format(problem.dtype).precision
    if any(r and find_format(r.format).precision < precision for r in (recipe.x, recipe.w)):
        return "reduced-precision-operands"
    # Half formats are summed in float32 by whoever declares nothing.
    declared = max(precision, find_format("float32").precision)
    if find_format(recipe.accumulator.format).precision < declared or any(map(list_carried_formats, recipe.orders)):
        return "low-precision-accumulator"
    if isinstance(recipe.algorithm, Winograd):
        return "winograd"
    return "fft" if isinstance(recipe.algorithm, Fft) else SUMMATION_ORDER


def judge_attributed(verdict: Verdict, attribution: Attribution | None) -> Verdict:
    """A result beyond its bound whose loss is proved by replay is a downgrade; other verdicts stay."""
    if verdict == "undecided" and attribution and attribution.cause not in (None, SUMMATION_ORDER):
        return "downgrade"
    return verdict


def name_common_cause(verdict: Verdict, sides: list[Side]) -> str | None:
    """The cause of the whole comparison: the gravest of the sides', if every side that ran is explained."""
    ran = [s for s in sides if s.failure is None]
    causes = {s.cause for s in ran if s.verdict != "identical"}
    if verdict in ("identical", "wrong") or not causes or None in causes:
        return None
    return max((c for c in causes if c), key=_GRAVITY.index)


def explain_parting(problem: Problem, sides: list[Side], differences: list[Difference]) -> Evidence | None:
    """How the first two sides with different bits come to differ, in words; None where it cannot be said."""
    recipes = {s.name: parse_recipe(s.recipe) for s in sides if s.recipe and s.replay and s.replay.matched == 1.0}
    for d in differences:
        if d.differing and d.a in recipes and d.b in recipes:
            return Evidence("structure", f"{d.a} and {d.b} {_say_parting(problem, recipes[d.a], recipes[d.b])}")
    return None


def _say_parting(problem: Problem, one: Recipe, two: Recipe) -> str:
    terms = find_terms(problem)
    if one.algorithm != two.algorithm:
        return "use different algorithms"
    if (one.x, one.w) != (two.x, two.w):
        return f"multiply different numbers: {_say_operands(one)}, against {_say_operands(two)}"
    if one.accumulator != two.accumulator:
        return f"keep their sums in different formats: {one.accumulator.format}, against {two.accumulator.format}"
    trees = [expand_order(r.orders[0], terms.axis_names, terms.axis_sizes) for r in (one, two)]
    if canonical_tree(trees[0]) == canonical_tree(trees[1]):
        if one.product != two.product:
            return "add in the same order; one rounds products before adding them, the other does not"
        return "add in the same order and round at different points"
    number = _find_first_difference(trees[0], trees[1]) if terms.count <= _MOST_COMPARED_TERMS else None
    where = f" from the {_ordinal(number)} addition on" if number else ""
    words = [describe_order(r.orders[0], t, terms) for r, t in zip((one, two), trees, strict=True)]
    return f"add in different orders{where}: {words[0]}, against {words[1]}"


def _say_operands(recipe: Recipe) -> str:
    rounded = [f"{n} rounded to {r.format}" for n, r in (("x", recipe.x), ("w", recipe.w)) if r]
    return " and ".join(rounded) or "operands as they are"


def _find_first_difference(one: Item, two: Item) -> int | None:
    """The number, from 1, of the first addition of one tree that joins other terms than any of the other's."""
    known = set(_list_additions(two))
    for number, joined in enumerate(_list_additions(one), 1):
        if joined not in known:
            return number
    return None


def _list_additions(tree: Item) -> list[frozenset[int]]:
    """The terms under every addition, in the sequence in which they are made."""
    if not isinstance(tree, Chain):
        return []
    made = _list_additions(tree.items[0])
    held = list_terms(tree.items[0])
    for part in tree.items[1:]:
        made += _list_additions(part)
        held = held + list_terms(part)
        made.append(frozenset(held))
    return made


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"
