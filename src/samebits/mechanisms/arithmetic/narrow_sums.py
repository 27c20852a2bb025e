"""Hypotheses of sums kept in a half format: all of a sum, parts of it, parts stored on the way; with any bias.

Likeliest first; all are recipes, predicted bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from samebits.findings.causes import CauseCode
from samebits.mechanisms.arithmetic.recipe_hypotheses import make_channels_fastest, make_recipe, make_turned
from samebits.mechanisms.arithmetic.stored_sums import list_stored_sums
from samebits.mechanisms.facts.observation import Hypothesis
from samebits.problems import Problem
from samebits.problems.terms import find_terms

# Formats that results are stored in.
STORED = ("float16", "bfloat16")
_SPLIT_SIZES = (128, 256, 512)
_SPLITS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64)
_PROMOTED_AFTER = (4, 8, 16, 32, 64, 128, 256)


def list_narrow_sums(problem: Problem, *, wide: bool, thorough: bool) -> Iterator[Hypothesis]:
    """All sums, or those of so many products, kept in a half format; with `wide` (float64 operands), in float32."""
    accumulators = ["float32"] if wide else list(STORED)
    # A bias is often added by another kernel, in the result's format, or the running sum begins with it.
    biases = ("last", "rounded", "first") if problem.bias else ("last",)
    late = "rounded" if problem.bias else "last"
    if problem.dtype == "float32":
        yield from _list_narrow_throughout(problem)
    for name in accumulators:
        for product, order, bias in itertools.product(("fused", "rounded"), _chained_orders(problem), biases):
            text = f"direct acc={name} product={product} order={order} bias={bias}"
            yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, f"keeps its sums in {name}", text)
    for name, order in itertools.product(accumulators, _chained_orders(problem)):
        text = f"direct product={name} order={order} bias={late}"
        yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, f"rounds every product to {name}", text)
    if not wide:
        yield from _list_partial_sums(problem, late)
    for stored in list_stored_sums(problem, thorough=thorough):
        for name, bias in itertools.product(accumulators, dict.fromkeys((late, biases[-1]))):
            says = f"adds {stored.words} in float32 and stores the running sum in {name}"
            # A running sum that begins with the bias has it in its own format.
            text = f"direct order={stored.order.format(name)} bias={bias}{f' b={name}' if bias == 'first' else ''}"
            yield from _make_both_ways(problem, says, text, along_products=stored.along_products)


def _list_narrow_throughout(problem: Problem) -> Iterator[Hypothesis]:
    """Everything in one half format: operands, sums, bias and result."""
    for name in STORED:
        for product, order, bias in itertools.product(
            ("fused", "rounded"), _chained_orders(problem), ("last", "rounded", "first") if problem.bias else ("last",)
        ):
            own = f" b={name}" if problem.bias else ""
            text = f"direct x={name} w={name}{own} acc={name} product={product} order={order} bias={bias} via={name}"
            says = f"computes in {name} throughout: rounds operands and keeps its sums in it"
            yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text)


def _list_partial_sums(problem: Problem, bias: str) -> Iterator[Hypothesis]:
    """Split-K, narrow sums added to float32 ones, and the 14 bits that float8 units keep."""
    for name in STORED:
        split = [(order, words, "fused") for order, words in _split_sums(problem, name)]
        promoted = [(o, words, product) for o, words in _promoted_sums(problem, name) for product in ("fused", name)]
        for order, words, product in (*split, *promoted):
            text = f"direct product={product} order={order} bias={bias}"
            yield from _make_both_ways(
                problem, words, text, along_products=order.startswith(("k/", "chain@" + name + ":k/"))
            )
            turned = make_turned(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, words, text)
            if turned is not None:
                yield turned
    for size in (n for n in _PROMOTED_AFTER if n < problem.reduction_length):
        says = f"keeps sums of {size} products in 14 bits, truncated, and adds those in float32"
        text = f"direct acc=float32/toward_zero order=k/{size}|chain@e8m13:k bias={bias}"
        yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text)


def _make_both_ways(problem: Problem, says: str, text: str, *, along_products: bool) -> Iterator[Hypothesis]:
    """A narrow sum in the given order; with `along_products` also the one with channels fastest."""
    yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text)
    fastest = (
        make_channels_fastest(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text) if along_products else None
    )
    if fastest is not None:
        yield fastest


def _split_sums(problem: Problem, name: str) -> Iterator[tuple[str, str]]:
    """Split-K: so many parts added in float32, each stored in a narrow format, and added in that or in float32.

    Parts may be the taps, as where a product of matrices is made for each.
    """
    # A kernel that puts zeros between inputs splits these too.
    lengths = dict.fromkeys((problem.reduction_length, find_terms(problem).count))
    divided = [(-(-length // parts), length) for parts, length in itertools.product(_SPLITS, lengths)]
    # Or of a fixed size, the last one shorter: cuBLAS's on an H100.
    divided += [(size, length) for size, length in itertools.product(_SPLIT_SIZES, lengths) if length > size]
    for size, length in dict.fromkeys(divided):
        parts = -(-length // size)
        if size > 1 and parts > 1:
            zeros = "" if length == problem.reduction_length else ", and of zeros between inputs,"
            each = f"adds {parts} parts of its products{zeros} in float32, stores each in {name}"
            yield f"chain@{name}:k/{size}|chain@{name}:k/{size}|k", f"{each}, and adds these in {name}"
            yield f"k/{size}|chain@{name}:k/{size}|k", f"{each}, and adds these in float32"
    if problem.stated or find_terms(problem).volume == 1:
        return
    first, *spatial = find_terms(problem).axis_names
    taps = ",".join(spatial)
    for kept, inner in ((name, f"chain@{name}:{first}"), ("float32", f"chain@{name}:{taps}|{first}")):
        each = f"adds the products of each tap in {kept}, stores them in {name}"
        yield f"chain@{name}:{taps}|{inner}", f"{each}, and adds these in {name}"
        yield f"{taps}|{inner}", f"{each}, and adds these in float32"


def _promoted_sums(problem: Problem, name: str) -> Iterator[tuple[str, str]]:
    """Narrow sums of so many products, or channels, added to a float32 sum."""
    for size in _PROMOTED_AFTER:
        if size < problem.reduction_length:
            yield f"k/{size}|chain@{name}:k", f"keeps sums of {size} products in {name} and adds those in float32"
    if problem.stated:
        return
    first, *spatial = find_terms(problem).axis_names
    inner = ",".join(spatial)
    for size in _PROMOTED_AFTER:
        if size < find_terms(problem).depth:
            words = f"keeps sums of {size} channels in {name} and adds those in float32"
            yield f"{first}/{size}|chain@{name}:{first},{inner}", words
            yield f"{first}/{size}|chain@{name}:{inner},{first}", words


def _chained_orders(problem: Problem) -> list[str]:
    """One product after the other: channels or taps fastest, taps from either end where a gradient turns kernels."""
    orders = list_plain_orders(problem)
    if not problem.stated and find_terms(problem).form == "scatter":
        first, *spatial = find_terms(problem).axis_names
        back = [f"-{name}" for name in spatial]
        orders += [",".join((first, *back)), ",".join((*back, first))]
    return orders


def list_plain_orders(problem: Problem) -> list[str]:
    """Channels or taps fastest, as orders' texts."""
    if problem.stated:
        return ["k"]
    first, *spatial = find_terms(problem).axis_names
    return [",".join((first, *spatial)), ",".join((*spatial, first))]
