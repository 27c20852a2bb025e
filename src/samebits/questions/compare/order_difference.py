"""How two replayed sides come to differ: their recipes compared."""

from __future__ import annotations

from samebits.findings import Difference, Evidence, Side, is_agreement
from samebits.findings.words.order_words import describe_order, ordinal, say_operands
from samebits.findings.words.place_words import shorten_names
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.sums.recipes.order import Order, expand_order
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import parse_recipe
from samebits.sums.recipes.tree import Chain, Item, canonical_tree, list_terms

# Additions are compared one by one up to this many terms.
_MOST_COMPARED_TERMS = 1024


def explain_difference(problem: Problem, sides: list[Side], differences: list[Difference]) -> Evidence | None:
    """How the first two replayed sides with different bits come to differ, in words; None where it cannot be said."""
    short = shorten_names(sides)
    recipes = {s.name: parse_recipe(s.recipe) for s in sides if s.recipe and s.replay and s.replay.is_whole}
    agreeing = {s.name: is_agreement(s.verdict) for s in sides}
    # A side that deviates from a correct one says more than two correct ones that differ.
    for d in sorted(differences, key=lambda d: agreeing[d.a] == agreeing[d.b]):
        if d.differing and d.a in recipes and d.b in recipes:
            says = _say_difference(problem, recipes[d.a], recipes[d.b])
            return Evidence("structure", f"{short[d.a]} and {short[d.b]} {says}")
    return None


def _say_difference(problem: Problem, one: Recipe, two: Recipe) -> str:
    terms = find_terms(problem)
    if one.algorithm != two.algorithm:
        return "use different algorithms"
    if (one.x, one.w) != (two.x, two.w):
        return f"multiply different numbers: {say_operands(one)}, against {say_operands(two)}"
    if one.accumulator != two.accumulator:
        if one.accumulator.format != two.accumulator.format:
            return f"keep their sums in different formats: {one.accumulator.format}, against {two.accumulator.format}"
        return f"round their sums in different modes: {one.accumulator.mode}, against {two.accumulator.mode}"
    orders, partly = _choose_orders(one, two), ""
    if orders != (one.orders[0], two.orders[0]):
        partly = " in a part of the outputs"
    trees = [expand_order(order, terms.axis_names, terms.axis_sizes) for order in orders]
    if canonical_tree(trees[0]) == canonical_tree(trees[1]):
        if one.product != two.product:
            return "add in the same order; one rounds products before adding them, the other does not"
        return "add in the same order and round at different points"
    number = _find_first_difference(trees[0], trees[1]) if terms.count <= _MOST_COMPARED_TERMS else None
    where = f" from the {ordinal(number)} addition on" if number else ""
    words = [describe_order(order, tree, terms) for order, tree in zip(orders, trees, strict=True)]
    return f"add in different orders{partly}{where}: {words[0]}, against {words[1]}"


def _choose_orders(one: Recipe, two: Recipe) -> tuple[Order, Order]:
    """The first order of each, or one of a recipe with several that the other has not."""
    first, second = one.orders[0], two.orders[0]
    if first != second:
        return first, second
    return (
        next((order for order in one.orders if order not in two.orders), first),
        next((order for order in two.orders if order not in one.orders), second),
    )


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
