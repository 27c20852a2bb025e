"""Hypotheses that compute the declared function with less: operands rounded, sums kept narrow, transforms, flushes.

Operand rounding is predicted as exact sums of rounded operands, whatever the order of addition. All others are recipes
and predicted by emulation, bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.emulators.result_rounding import round_array, round_wide
from samebits.findings.causes import CauseCode
from samebits.formats.format import find_format
from samebits.hypotheses.hypothesis import Hypothesis
from samebits.hypotheses.observation import Floats, Observation, Sample
from samebits.hypotheses.recipe_hypotheses import (
    from_recipe,
    make_channels_fastest,
    make_recipe,
    make_turned,
    parse_for,
)
from samebits.hypotheses.stored_result import Stored
from samebits.hypotheses.stored_sums import list_stored_sums
from samebits.judging.recipe_causes import name_arithmetic
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.recipes.hardware import MATRIX_UNITS
from samebits.recipes.recipe import Fft, Flush, Recipe, Rounding, Winograd
from samebits.recipes.seen import list_seen

_OPERAND_ROUNDINGS = (
    Rounding("tf32"),
    Rounding("bfloat16"),
    Rounding("float16"),
    Rounding("tf32", "toward_zero"),
    Rounding("bfloat16", "toward_zero"),
    Rounding("float32"),
    Rounding("bfloat16", "nearest_if_odd"),
)
# Formats that results are stored in.
_STORED = ("float16", "bfloat16")
_SPLITS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64)
_THREADS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
_CHANNEL_BLOCKS = (16, 8, 64, 32)
_PROMOTED_AFTER = (4, 8, 16, 32, 64, 128, 256)


def list_operand_hypotheses(problem: Problem, stored: Stored | None = None) -> Iterator[Hypothesis]:
    """Both operands rounded to a narrower format, one of them, each to its own; and the bias alone.

    The format that results are `stored` in comes first: whoever stores in it has its operands in it, too.
    """
    # First, because rounding to a narrow exponent range loses subnormal operands too.
    yield from _flush_operands(problem)
    narrower = [r for r in _OPERAND_ROUNDINGS if _is_narrower(r, problem.dtype)]
    if stored is not None and stored.rounding is not None:
        kept = stored.rounding.format
        narrower.sort(key=lambda rounding: rounding.format != kept)
    # Weights alone are rounded where they are stored so, and nothing is stored as TF32.
    single = sorted(narrower, key=lambda r: r.format not in _STORED)
    pairs = [*((r, r) for r in narrower), *((None, r) for r in single), *((r, None) for r in single)]
    pairs += [(a, b) for a, b in itertools.permutations(narrower, 2) if a.mode == b.mode]
    for x, w in pairs:
        recipe = Recipe(x=x, w=w, accumulator=Rounding("float64" if problem.dtype == "float64" else "float32"))
        yield _rounds_operands(f"rounds {_say_rounded(problem, recipe)} before it multiplies", recipe)
        if x and x == w and x.mode == "nearest_even" and x.format in _STORED:
            narrow = replace(recipe, via=x.format)
            yield _rounds_operands(f"computes in {x.format}: rounds operands and results", narrow)
            if problem.bias:
                says = f"computes in {x.format}: rounds operands, bias and results"
                yield _rounds_operands(says, replace(narrow, b=x))
                # Frameworks add the bias in another kernel, to what is stored.
                says = f"computes in {x.format}: rounds operands, stores sums, adds the bias and rounds again"
                yield _rounds_operands(says, replace(narrow, b=x), late=True)
    for rounding in narrower if problem.bias else ():
        if rounding.mode == "nearest_even":
            plain = Recipe(b=rounding, accumulator=Rounding("float64" if problem.dtype == "float64" else "float32"))
            yield _rounds_operands(f"rounds the bias to {rounding.format} before it is added", plain)


def list_stored_hypotheses(observation: Observation) -> Iterator[Hypothesis]:
    """The declared sums, stored as the numbers of the result show; none where they show nothing."""
    stored = observation.stored
    if stored is None:
        return

    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.finish(sample.pick(observation.bare_sums()), sample)

    is_nearest = stored.rounding is not None and stored.rounding.mode == "nearest_even"
    is_nearest = is_nearest and stored.direction == "nearest"
    recipe = Recipe() if is_nearest and stored.part is None else None
    yield Hypothesis(CauseCode.RESULT_ROUNDING, "downgrade", stored.says, predict, recipe=recipe)
    if stored.rounding is None or stored.late or not observation.problem.bias or stored.part is not None:
        return
    rounding = stored.rounding

    for words, rounds_bias in (("a bias in that format", True), ("the bias", False)):

        def predict_twice(observation: Observation, sample: Sample, rounds_bias: bool = rounds_bias) -> Floats:
            sums = round_wide(sample.pick(observation.bare_sums()), rounding)
            bias = observation.operands["bias"].astype(np.float64)
            return observation.finish(sums, sample, round_wide(bias, rounding) if rounds_bias else bias)

        says = f"stores its sums in {rounding.format}, adds {words} and stores the result in that format again"
        unit = float(find_format(rounding.format).unit_roundoff)
        yield Hypothesis(CauseCode.RESULT_ROUNDING, "downgrade", says, predict_twice, unit=unit)


def _is_narrower(rounding: Rounding, dtype: str) -> bool:
    format_, declared = find_format(rounding.format), find_format(dtype)
    return format_.precision < declared.precision or format_.exponent_bits < declared.exponent_bits


def _say_rounded(problem: Problem, recipe: Recipe) -> str:
    """ "x and w to tf32", "x to bfloat16 and w to float16"."""
    to: dict[Rounding, list[str]] = {}
    for name in problem.operand_shapes:
        rounding = recipe.find_rounding(problem, name) if name != "bias" else None
        if rounding:
            to.setdefault(rounding, []).append(name)
    how = {"toward_zero": " (truncated)", "nearest_if_odd": " (truncated where even)"}
    return " and ".join(f"{' and '.join(names)} to {r.format}{how.get(r.mode, '')}" for r, names in to.items())


def _flush_operands(problem: Problem) -> Iterator[Hypothesis]:
    """Subnormal operands taken for zero, where the format is as wide as float32."""
    if problem.dtype not in ("float32", "bfloat16"):
        return
    recipe = Recipe(flush=Flush(operands=True))
    yield _rounds_operands("takes subnormal operands for zero", recipe, CauseCode.SUBNORMALS)


def _is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)


def _rounds_operands(
    says: str, recipe: Recipe, cause: CauseCode = CauseCode.REDUCED_PRECISION_OPERANDS, *, late: bool = False
) -> Hypothesis:
    """Operands rounded as a recipe says; `late`: sums are rounded to `via` before the bias is added, and after."""

    def predict(observation: Observation, sample: Sample) -> Floats | None:
        read = observation.read_operands(recipe)
        if observation.result.any() and any(observation.operands[n].any() and not a.any() for n, a in read.items()):
            return None  # Rounding to zero whatever is multiplied explains no result but zeros.
        if not recipe.via and not recipe.b and all(_is_equal(a, observation.operands[n]) for n, a in read.items()):
            return None  # These operands are what they would be rounded to.
        bias = round_array(observation.operands["bias"].astype(np.float64), recipe.b) if recipe.b else None
        if late:
            sums = round_wide(observation.as_bare_sums().sum_instead(read, sample), Rounding(recipe.via))
            return round_wide(observation.finish(sums, sample, bias), Rounding(recipe.via))
        values = observation.sum_instead(read, sample, bias=bias)
        return round_wide(values, Rounding(recipe.via)) if recipe.via else values

    unit = float(find_format(recipe.via).unit_roundoff) if recipe.via else 0.0
    # No recipe rounds twice to a format that is not the result's.
    return Hypothesis(cause, "downgrade", says, predict, recipe=None if late else recipe, unit=unit)


def list_recipe_hypotheses(problem: Problem, *, thorough: bool = True) -> Iterator[Hypothesis]:
    """Narrow accumulators and partial sums, truncating sums, matrix units, transforms, flushes: likeliest first.

    `thorough` adds partial sums of numbers of products that no kernel is known to use.
    """
    wide = find_format(problem.dtype).precision > find_format("float32").precision
    yield from _list_narrow_sums(problem, wide=wide, thorough=thorough)
    if not wide:
        yield from _list_truncating_sums(problem)
    yield from list_transform_hypotheses(problem)
    for flush, order in itertools.product(("operands", "results", "operands,results"), _plain_orders(problem)):
        says = f"flushes subnormal {flush.replace(',', ' and ')} to zero"
        yield make_recipe(problem, CauseCode.SUBNORMALS, says, f"direct flush={flush} order={order}")


def _list_narrow_sums(problem: Problem, *, wide: bool, thorough: bool) -> Iterator[Hypothesis]:
    """All sums, or those of so many products, kept in a half format; of float64 operands in float32."""
    accumulators = ["float32"] if wide else list(_STORED)
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
    for name in _STORED:
        for product, order, bias in itertools.product(
            ("fused", "rounded"), _chained_orders(problem), ("last", "rounded", "first") if problem.bias else ("last",)
        ):
            own = f" b={name}" if problem.bias else ""
            text = f"direct x={name} w={name}{own} acc={name} product={product} order={order} bias={bias} via={name}"
            says = f"computes in {name} throughout: rounds operands and keeps its sums in it"
            yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text)


def _list_partial_sums(problem: Problem, bias: str) -> Iterator[Hypothesis]:
    """Split-K, narrow sums added to float32 ones, and the 14 bits that float8 units keep."""
    for name in _STORED:
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
    """A narrow sum as the order says; `along_products`: that of the declared sequence, then with channels fastest."""
    yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text)
    fastest = (
        make_channels_fastest(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, says, text) if along_products else None
    )
    if fastest is not None:
        yield fastest


def _list_truncating_sums(problem: Problem) -> Iterator[Hypothesis]:
    """float32 sums rounded toward zero, and the matrix units that add this problem's operands."""
    biases = ("last", "first") if problem.bias else ("last",)
    for product, order, bias in itertools.product(("fused", "rounded"), _common_orders(problem), biases):
        text = f"direct product={product} acc=float32/toward_zero order={order} bias={bias}"
        yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, "truncates its float32 sums", text)
    for unit in MATRIX_UNITS:
        if unit.operands.startswith((problem.dtype, "tf32" if problem.dtype == "float32" else "-")):
            yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, f"adds as {unit.unit} does", unit.text)


def list_order_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Correct sums in the orders that engines most often use: proof that a difference is rounding."""
    # Frameworks round a half result before they add its bias.
    late = ("rounded",) if find_format(problem.out).precision < find_format("float32").precision else ()
    biases = ("last", "first", *late) if problem.bias else ("last",)
    for order, product in itertools.product(_common_orders(problem), ("fused", "rounded")):
        for bias in biases:
            recipe = parse_for(problem, f"direct product={product} order={order} bias={bias}")
            if recipe is not None:
                yield from_recipe(CauseCode.SUMMATION_ORDER, "rounding", f"adds in the order {order}", recipe)
    for seen in list_seen(problem):
        recipe = seen.parse()
        if recipe.bias == "rounded" and not late:
            continue
        if name_arithmetic(problem, recipe) == CauseCode.SUMMATION_ORDER:
            says = f"adds as {seen.engines[0]} was seen to"
            yield from_recipe(CauseCode.SUMMATION_ORDER, "rounding", says, recipe)
    yield from _list_thread_splits(problem)
    yield from _list_early_biases(problem)


def _list_early_biases(problem: Problem) -> Iterator[Hypothesis]:
    """The bias added once a block of channels is, to which the sums of the others are added."""
    if not problem.bias or problem.stated:
        return
    terms = find_terms(problem)
    first, *spatial = terms.axis_names
    for block in (b for b in _CHANNEL_BLOCKS if b < terms.depth):
        text = f"direct order={first}/{block}|{','.join(spatial)},{first} bias=after/{block * terms.volume}"
        recipe = parse_for(problem, text)
        if recipe is not None:
            says = f"adds the bias after {block} channels"
            yield from_recipe(CauseCode.SUMMATION_ORDER, "rounding", says, recipe)


def _list_thread_splits(problem: Problem) -> Iterator[Hypothesis]:
    """Weight gradients of which each thread adds up its share of the batch, or of the rows."""
    if problem.direction != "grad_weight":
        return
    terms = find_terms(problem)
    names = ",".join(terms.axis_names)
    for axis, size in list(zip(terms.axis_names, terms.axis_sizes, strict=True))[:2]:
        for block in dict.fromkeys(-(-size // threads) for threads in _THREADS if threads <= size):
            recipe = parse_for(problem, f"direct order={axis}/{block}|{names}")
            if recipe is not None:
                says = f"adds the sums of {-(-size // block)} shares of {axis}"
                yield from_recipe(CauseCode.SUMMATION_ORDER, "rounding", says, recipe)


def list_operand_recipes(problem: Problem, rounding: Recipe, stored: Stored | None = None) -> Iterator[Recipe]:
    """Recipes with some operand rounding in the orders that engines most often use, results stored as told."""
    via = rounding.via
    if stored is not None and stored.rounding is not None and stored.part is None:
        via = stored.rounding.format
    for hypothesis in list_order_hypotheses(problem):
        assert hypothesis.recipe is not None
        recipe = replace(hypothesis.recipe, x=rounding.x, w=rounding.w, b=rounding.b, via=via, flush=rounding.flush)
        yield replace(recipe, bias="rounded", bias_terms=0) if stored is not None and stored.late else recipe


_LANES = ("k/192|k", "k/256|k", "k/384|k", "k/512|k", "pairs:k%4|k", "halves:k%8|k", "halves:k%16|k")


def _chained_orders(problem: Problem) -> list[str]:
    """One product after the other: channels or taps fastest, taps from either end where a gradient turns kernels."""
    orders = _plain_orders(problem)
    if not problem.stated and find_terms(problem).form == "scatter":
        first, *spatial = find_terms(problem).axis_names
        back = [f"-{name}" for name in spatial]
        orders += [",".join((first, *back)), ",".join((*back, first))]
    return orders


def _split_sums(problem: Problem, name: str) -> Iterator[tuple[str, str]]:
    """Split-K: so many parts added in float32, each stored in a narrow format, and added in that or in float32.

    Parts may be the taps, as where a product of matrices is made for each.
    """
    # A kernel that puts zeros between inputs splits these too.
    lengths = dict.fromkeys((problem.reduction_length, find_terms(problem).count))
    for parts, length in itertools.product(_SPLITS, lengths):
        size = -(-length // parts)
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


def _plain_orders(problem: Problem) -> list[str]:
    if problem.stated:
        return ["k"]
    first, *spatial = find_terms(problem).axis_names
    return [",".join((first, *spatial)), ",".join((*spatial, first))]


def _common_orders(problem: Problem) -> list[str]:
    if problem.stated:
        return ["k", *_LANES, "-k"]
    first, *spatial = find_terms(problem).axis_names
    every = ",".join(spatial)
    orders = [*_plain_orders(problem), f"{every}|{first}", f"{first}|{every}"]
    for block in _CHANNEL_BLOCKS:
        orders += [
            f"{first}/{block},{every},{first}",
            f"{first}/{block}|{every},{first}",
            f"{first}/{block},{every}|{first}",
        ]
    # Backwards: where terms are of very different sizes, sums that begin with the small ones lose less.
    backwards = [",".join(f"-{name}" for name in order.split(",")) for order in _plain_orders(problem)]
    return [*orders, *_LANES, *backwards]


def list_transform_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Winograd and Fourier transforms, where the problem lets them be used."""
    if problem.stated or all(a.kernel == 1 for a in problem.axes):
        return
    names = ["float32"] if problem.dtype in ("float32", "float64") else ["float32", "float16"]
    three = all(a.kernel == 3 and a.stride == 1 and a.dilation == 1 for a in problem.axes)
    for name in names:
        if three and problem.rank == 2:
            for m in (4, 2, 6):
                recipe = Recipe(algorithm=Winograd(m), accumulator=Rounding(name))
                yield from_recipe(CauseCode.WINOGRAD, "downgrade", f"uses Winograd's F({m},3) in {name}", recipe)
    if all(a.stride == 1 and a.dilation == 1 for a in problem.axes):
        yield from_recipe(CauseCode.FFT, "downgrade", "uses a Fourier transform in float32", Recipe(algorithm=Fft()))
