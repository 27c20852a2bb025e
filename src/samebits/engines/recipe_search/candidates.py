"""Candidate recipes: what the probes' answers spell, then its neighbours where they leave something open."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from samebits.engines.recipe_search.order_names import name_orders
from samebits.engines.recipe_search.stages import ArithmeticStage, OrderStage
from samebits.numbers.format import FLOAT32, find_format
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms
from samebits.problems.windows import name_axes
from samebits.sums.recipes.hardware import list_unit_recipes
from samebits.sums.recipes.order import IN_ORDER, Key, KeyedOrder, Level, Order, TreeOrder, expand_order
from samebits.sums.recipes.order_map import Places, places_from_array
from samebits.sums.recipes.recipe import Bias, Fft, FusedSum, Recipe, Rounding, Winograd
from samebits.sums.recipes.tree import (
    Chain,
    Item,
    fuse_singles,
    has_fused,
    store_finished_sums,
    store_sums,
    swap_first_pairs,
)

_LIKELY_FUSED_BITS = (24, 25, 23, 13)
_MOST_ALIGNMENT_BITS = 28
_HIDDEN_ROUNDINGS = (
    ("tf32", "toward_zero"),
    ("tf32", "nearest_even"),
    ("bfloat16", "nearest_even"),
    ("float16", "nearest_even"),
)
# Of terms that the running sum holds when they are two.
_FIRST_PAIR = 2
_CHANNEL_BLOCKS = (4, 8, 16, 32, 2, 64)
_CHANNEL_RULES = ("halves", "pairs", "splits")


@dataclass(frozen=True)
class Sums:
    """How a candidate's sums are kept: the accumulator, and the bits that a multi-term addition aligns to."""

    accumulator: Rounding
    fused: FusedSum


def propose_plain_transforms(problem: Problem) -> Iterator[Recipe]:
    """Every transform in every accumulator, its channels added in order."""
    names = ["float32", "float16"] if problem.dtype == "float16" else ["float32"]
    biases: list[Bias] = ["last", "rounded"] if problem.bias and problem.out != "float32" else ["last"]
    for algorithm, name, bias in itertools.product((Fft(), Winograd(2), Winograd(4), Winograd(6)), names, biases):
        yield Recipe(algorithm=algorithm, accumulator=Rounding(name), bias=bias)


def propose_channel_sums(recipe: Recipe, depth: int) -> Iterator[Recipe]:
    """A Winograd recipe with its channels added in other orders and its products rounded or not."""
    for product, order in itertools.product(("fused", "rounded"), _propose_channel_orders(depth)):
        yield replace(recipe, product=product, orders=(order,))


def _propose_channel_orders(depth: int) -> Iterator[Order]:
    yield IN_ORDER
    yield from (KeyedOrder((Level((Key("c"),), rule),)) for rule in _CHANNEL_RULES)
    for block in (b for b in _CHANNEL_BLOCKS if b < depth):
        yield KeyedOrder((Level((Key("c", block),)), Level((Key("c"),))))
        yield KeyedOrder((Level((Key("c", 1, block),)), Level((Key("c"),))))
        for rule in _CHANNEL_RULES:
            yield KeyedOrder((Level((Key("c", 1, block),), rule), Level((Key("c"),))))
            yield KeyedOrder((Level((Key("c", block),)), Level((Key("c"),), rule)))


def propose_direct(problem: Problem, order: OrderStage, arithmetic: ArithmeticStage) -> Iterator[Recipe]:
    """Sums of products: the recipe that the answers spell first."""
    yield from _propose_sums_of_products(problem, order, arithmetic)
    trees = order.orders.trees
    main = arithmetic.find_main_accumulator(problem.dtype)
    if trees and main.mode == "toward_zero" and not any(has_fused(t) for t in trees):
        # A matrix unit whose steps have one product each: nothing else truncates.
        alone = replace(order.orders, trees=[fuse_singles(t) for t in trees])
        yield from _propose_sums_of_products(problem, replace(order, orders=alone), arithmetic)


def _propose_sums_of_products(problem: Problem, order: OrderStage, arithmetic: ArithmeticStage) -> Iterator[Recipe]:
    possible = set(arithmetic.product.possible) if arithmetic.product else {"fused", "rounded"}
    if "fused_reversed" in possible:
        possible.add("fused")
    products = [p for p in ("fused", "rounded") if p in possible] or ["fused", "rounded"]
    stages = list(_propose_stages(problem, arithmetic))
    inner = list(
        itertools.product(_propose_sums(problem, order, arithmetic), products, _propose_biases(problem, arithmetic))
    )
    for swap in _propose_swaps(arithmetic):
        named, where = _name_places(problem, order, swap=swap)
        for orders in _propose_stored_sums(problem, arithmetic, named):
            for sums, product, (bias, bias_terms) in inner:
                roundings = _propose_roundings(problem, arithmetic, sums.accumulator)
                for (x, w), stage in itertools.product(roundings, stages):
                    own = (stage.bias, 0) if stage.bias else (bias, bias_terms)
                    yield Recipe(
                        x=x, w=w, b=stage.b, product=product, accumulator=sums.accumulator, orders=tuple(orders),
                        where=where, fused=sums.fused, bias=own[0], bias_terms=own[1], via=stage.via,
                    )  # fmt: skip


def propose_units(problem: Problem) -> Iterator[Recipe]:
    """Sums by the matrix units that multiply the problem's format, whole or joined in blocks by ordinary additions.

    For sums whose order does not show, or not rightly: what float8 can hold is too small to be lost in a float32 sum.
    """
    for _, recipe in list_unit_recipes(problem.dtype):
        yield replace(recipe, bias="last")


@dataclass(frozen=True)
class _Stages:
    """How bias and sums are stored: an engine that computes in a half format stores in it too."""

    b: Rounding | None = None
    via: str = ""
    bias: Bias | None = None


def _propose_stages(problem: Problem, arithmetic: ArithmeticStage) -> Iterator[_Stages]:
    yield _Stages()
    if find_format(problem.out).width_bits <= 8:
        # Compilers convert to eight bits by way of sixteen.
        yield _Stages(via="float16")
    seen = {r.format: r for r in map(arithmetic.find_rounding, ("x", "w")) if r and r.format in ("bfloat16", "float16")}
    for name, rounding in seen.items():
        if find_format(name).precision < find_format(problem.out).precision:
            yield _Stages(via=name)
            if problem.bias:
                yield _Stages(b=rounding, via=name, bias="last")
                yield _Stages(b=rounding, via=name, bias="rounded")
                yield _Stages(via=name, bias="rounded")
                yield _Stages(b=rounding, bias="last")


def _propose_biases(problem: Problem, arithmetic: ArithmeticStage) -> list[tuple[Bias, int]]:
    """Where the bias may enter, and after how many terms."""
    if not problem.bias:
        return [("last", 0)]
    found = arithmetic.bias
    if not found or not found.position:
        return [("last", 0), ("first", 0), ("rounded", 0)]
    biases: list[tuple[Bias, int]] = [(found.position, found.terms)]
    if found.terms == _FIRST_PAIR:
        # Or the sum starts from the bias and the other term of the pair comes first.
        biases.append(("first", 0))
    return biases


def _propose_roundings(
    problem: Problem, arithmetic: ArithmeticStage, accumulator: Rounding
) -> Iterator[tuple[Rounding | None, Rounding | None]]:
    """The operand roundings seen; first none, where the running sum alone could have rounded operands so."""
    x, w = (arithmetic.find_rounding(n) for n in ("x", "w"))
    names = [accumulator.format, *(a.format for a in arithmetic.accumulators if a.format)]
    narrow = min(find_format(n).precision for n in names)
    hidden = narrow < find_format(problem.dtype).precision and all(
        r is None or find_format(r.format).precision >= narrow for r in (x, w)
    )
    if hidden:
        yield None, None
    yield x, w
    if hidden:
        # The running sum hides what is finer than it is.
        both = (Rounding(f, m) for f, m in _HIDDEN_ROUNDINGS if find_format(f).precision >= narrow or f == "bfloat16")
        yield from ((r, r) for r in both)


def _propose_swaps(arithmetic: ArithmeticStage) -> tuple[bool, bool]:
    """Whether to swap the first two terms, likelier first: the lower comes first unless the products say otherwise."""
    possible = arithmetic.product.possible if arithmetic.product else ()
    return (True, False) if "fused_reversed" in possible and "fused" not in possible else (False, True)


def _propose_stored_sums(problem: Problem, arithmetic: ArithmeticStage, named: list[Order]) -> list[list[Order]]:
    """The orders with finished sums stored in a narrower format than terms are, where the probes saw one.

    Else last: each finished sum in the result's format, as where a sum is divided among blocks that write theirs.
    """
    terms = find_terms(problem)
    known = [a.format for a in arithmetic.accumulators if a.format]
    if len(known) > 1 and find_format(known[1]).precision < find_format(known[0]).precision:
        return [[_store_in(o, known[1], terms, parts=parts, running=True) for o in named] for parts in (False, True)]
    trees = [expand_order(order, terms.axis_names, terms.axis_sizes) for order in named]
    if find_format(problem.out).precision >= FLOAT32.precision or not any(_joins_finished_sums(t) for t in trees):
        return [named]
    outermost = [_store_in(order, problem.out, terms, parts=True, running=False) for order in named]
    every: list[Order] = [TreeOrder(store_finished_sums(tree, problem.out)) for tree in trees]
    return [named, outermost, every]


def _store_in(order: Order, name: str, terms: Terms, *, parts: bool, running: bool) -> Order:
    if isinstance(order, KeyedOrder) and len(order.levels) > 1:
        outer = replace(order.levels[0], format=name) if running else order.levels[0]
        again = (Level(outer.keys, "chain", name),) if parts else ()
        return KeyedOrder((outer, *again, *order.levels[1:]))
    tree = expand_order(order, terms.axis_names, terms.axis_sizes)
    return TreeOrder(store_sums(tree, name, parts=parts, running=running))


def _name_places(problem: Problem, order: OrderStage, *, swap: bool) -> tuple[list[Order], Places]:
    """The orders found, with names, and which output uses which."""
    terms = find_terms(problem)
    if not order.orders.trees or terms.count == 1:
        return [IN_ORDER], 0
    trees = [fuse_singles(t) if has_fused(t) else t for t in order.orders.trees]
    if swap:
        trees = [swap_first_pairs(t) for t in trees]
    orders, numbers = name_orders(trees, terms)
    places = np.array([*numbers, 0])[order.orders.places]
    full = np.zeros(problem.out_shape, np.int64)
    terms.view_result(full)[...] = places[None, None]
    return orders, places_from_array(full, name_axes(problem))


def _propose_sums(problem: Problem, order: OrderStage, arithmetic: ArithmeticStage) -> list[Sums]:
    """Accumulators, and for multi-term additions the bits they keep."""
    main = arithmetic.find_main_accumulator(problem.dtype)
    if not any(has_fused(t) for t in order.orders.trees):
        # A sum of one product, or two, leaves no term to ask with.
        narrow = [n for n in ("float16", "bfloat16", "tf32") if n != main.format] if not arithmetic.accumulators else []
        return [Sums(r, FusedSum()) for r in (main, *map(Rounding, narrow))]
    bits = [a.fraction_bits for a in arithmetic.accumulators if a.fraction_bits in range(1, _MOST_ALIGNMENT_BITS + 1)]
    formats = [
        Rounding(a.format, a.mode or "toward_zero")
        for a in arithmetic.accumulators
        if a.format and a.format != "float64"
    ]
    formats += [
        Rounding("float32", "toward_zero"),
        Rounding("float32"),
        Rounding("float16"),
        Rounding("e8m13", "toward_zero"),
    ]
    both = list(itertools.product(dict.fromkeys(formats), dict.fromkeys([*bits, *_LIKELY_FUSED_BITS])))
    alike = [Sums(format_, FusedSum(b)) for format_, b in both]
    # A matrix unit truncates; the sums it has finished, and a bias, are added by ordinary additions.
    apart = [
        Sums(Rounding(format_.format if format_.format != "e8m13" else "float32"), FusedSum(b, format_))
        for format_, b in both
        if format_.mode == "toward_zero"
    ]
    joined = any(_joins_finished_sums(t) for t in order.orders.trees)
    return [*apart, *alike] if joined else [*alike, *apart] if problem.bias else alike


def _joins_finished_sums(tree: Item) -> bool:
    """Whether a sum of several multi-term additions is added to another sum as a whole."""
    return isinstance(tree, Chain) and any(isinstance(part, Chain) for part in tree.items[1:])
