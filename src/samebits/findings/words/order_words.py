"""Summation orders in words: "4 sums of 144 products, each left to right by kh, kw; then left to right by c"."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.problems.terms import Terms
from samebits.sums.recipes.order import EVERY_AXIS, KeyedOrder, Level, Order, list_stored_formats
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Chain, Fused, Item, list_terms

_RULE_WORDS = {
    "chain": "left to right",
    "pairs": "adjacent pairs, then pairs of those",
    "halves": "upper half onto lower half, again and again",
    "splits": "halves summed apart, then added",
    "fused": "in one multi-term addition",
}


def describe_order(order: Order, tree: Item, terms: Terms) -> str:
    """One line: what is added first, and how that is put together."""
    own = [
        f"products {order.own.product}" if order.own.product else "",
        f"bias {order.own.bias}" if order.own.bias else "",
    ]
    ways = ", ".join(w for w in own if w)
    said = _describe_levels(order, terms) if isinstance(order, KeyedOrder) else _describe_tree(tree)
    return f"{said}; {ways}" if ways else said


def _describe_levels(order: KeyedOrder, terms: Terms) -> str:
    if len(order.levels) == 1:
        level = order.levels[0]
        return f"{terms.count:,} products {_say_rule(level)}, by {_say_keys(level)}"
    inner, sizes = order.levels[-1], _size_sums(order, terms)
    of = f"{sizes.max():,}" if sizes.min() == sizes.max() else f"up to {sizes.max():,}"
    said = f"{len(sizes):,} sums of {of} products, each {_say_rule(inner)} by {_say_keys(inner)}"
    for level in order.levels[-2::-1]:
        said += f"; then {_say_rule(level)} by {_say_keys(level)}"
    return said


def _size_sums(order: KeyedOrder, terms: Terms) -> npt.NDArray[np.int64]:
    """How many products each of the innermost sums adds up."""
    number = np.arange(terms.count)
    index = dict(zip(terms.axis_names, np.unravel_index(number, terms.axis_sizes), strict=True)) | {EVERY_AXIS: number}
    sums = np.zeros_like(number)
    for key in (key for level in order.levels[:-1] for key in level.keys):
        rank = index[key.axis] // key.block
        if key.modulus:
            rank = rank % key.modulus
        sums = np.unique(sums * terms.count + rank, return_inverse=True)[1]
    return np.bincount(sums)


def _say_rule(level: Level) -> str:
    words = _RULE_WORDS[level.rule]
    return f"{words}, kept in {level.format}" if level.format else words


def _say_keys(level: Level) -> str:
    return ", ".join(
        ("falling " if k.descending else "")
        + (f"{k.axis} in blocks of {k.block}" if k.block > 1 else k.axis)
        + (f" mod {k.modulus}" if k.modulus else "")
        for k in level.keys
    )


def _describe_tree(tree: Item) -> str:
    if isinstance(tree, Fused):
        return f"{len(tree.terms)} products in one multi-term addition"
    if isinstance(tree, int):
        return "one product"
    sums = [p for p in tree.items if isinstance(p, Chain) and len(p.items) > 1]
    singles = len([p for p in tree.items if isinstance(p, int)])
    apart = len([p for p in tree.items if isinstance(p, Chain) and len(p.items) == 1])
    groups = [p for p in tree.items if isinstance(p, Fused)]
    parts = [f"{singles:,} products one by one"] if singles else []
    if apart:
        parts.append(f"{apart:,} more, each rounded first")
    if groups:
        parts.append(f"{len(groups):,} multi-term additions of up to {max(len(g.terms) for g in groups)}")
    if sums:
        sizes = sorted({len(list_terms(s)) for s in sums})
        spread = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        parts.append(f"{len(sums):,} finished sums of {spread} products")
    return "left to right: " + ", ".join(parts)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ..."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


def say_what_it_does(recipe: Recipe, cause: CauseCode) -> str:
    """The way of a recipe that its cause names."""
    if cause == CauseCode.REDUCED_PRECISION_OPERANDS:
        rounded = [f"{names} to {name}" for name, names in _group_rounded(recipe, bias="the bias").items()]
        if not rounded:
            return f"computes by way of {recipe.via}"
        stored = f", and stores its sums in {recipe.via}" if recipe.via else ""
        return f"rounds {' and '.join(rounded)} before it multiplies{stored}"
    if cause == CauseCode.LOW_PRECISION_ACCUMULATOR:
        stored = sorted({name for order in recipe.orders for name in list_stored_formats(order)})
        if stored:
            return f"stores partial sums in {' and '.join(stored)}"
        truncates = recipe.accumulator.mode == "toward_zero"
        return f"{'truncates its sums to' if truncates else 'keeps its sums in'} {recipe.accumulator.format}"
    if cause == CauseCode.SUBNORMALS:
        return "takes subnormal numbers for zero"
    if cause == CauseCode.NAN_SEMANTICS:
        return "turns NaN into a bound of its clip or relu"
    if cause in (CauseCode.WINOGRAD, CauseCode.FFT):
        return f"transforms its operands ({cause})"
    return "adds the declared products in an order of its own"


def say_operands(recipe: Recipe) -> str:
    """What a recipe multiplies."""
    rounded = [f"{names} rounded to {name}" for name, names in _group_rounded(recipe).items()]
    return " and ".join(rounded) or "operands as they are"


def _group_rounded(recipe: Recipe, bias: str = "") -> dict[str, str]:
    """What is rounded to each format, in words: "x, w and the bias"; the bias only where it is given a name."""
    groups: dict[str, list[str]] = {}
    for name, rounding in (("x", recipe.x), ("w", recipe.w), (bias, recipe.b)):
        if rounding and name:
            groups.setdefault(rounding.format, []).append(name)
    return {format_: " and ".join(filter(None, (", ".join(n[:-1]), n[-1]))) for format_, n in groups.items()}
