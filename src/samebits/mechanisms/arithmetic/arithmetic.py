"""Hypotheses that compute the declared function with less: operands rounded, sums kept narrow, transforms, flushes.

Operand rounding is predicted as exact sums of rounded operands, whatever the order of addition. All others are recipes
and predicted by emulation, bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.recipe_causes import name_arithmetic
from samebits.mechanisms.arithmetic.narrow_sums import STORED, list_narrow_sums, list_plain_orders
from samebits.mechanisms.arithmetic.recipe_hypotheses import (
    from_recipe,
    make_recipe,
    parse_for,
)
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.mechanisms.facts.stored_result import Stored
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.sums.emulators.result_rounding import round_array, round_wide
from samebits.sums.recipes.hardware import MATRIX_UNITS, list_unit_recipes
from samebits.sums.recipes.recipe import Fft, Flush, Recipe, Rounding, Winograd
from samebits.sums.recipes.recipe_text import format_recipe
from samebits.sums.recipes.seen import list_seen

_OPERAND_ROUNDINGS = (
    Rounding("tf32"),
    Rounding("bfloat16"),
    Rounding("float16"),
    Rounding("tf32", "toward_zero"),
    Rounding("bfloat16", "toward_zero"),
    Rounding("float32"),
    Rounding("bfloat16", "nearest_if_odd"),
)
_THREADS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
_CHANNEL_BLOCKS = (16, 8, 64, 32)


def list_operand_hypotheses(problem: Problem, stored: Stored | None = None) -> Iterator[Hypothesis]:
    """Both operands rounded to a narrower format, one of them, each to its own; and the bias alone.

    The format that results are `stored` in comes first: an engine that stores in it has its operands in it, too.
    """
    # First, because rounding to a narrow exponent range loses subnormal operands too.
    yield from _flush_operands(problem)
    narrower = [r for r in _OPERAND_ROUNDINGS if _is_narrower(r, problem.dtype)]
    if stored is not None and stored.rounding is not None:
        kept = stored.rounding.format
        narrower.sort(key=lambda rounding: rounding.format != kept)
    # Weights alone are rounded where they are stored so, and nothing is stored as TF32.
    single = sorted(narrower, key=lambda r: r.format not in STORED)
    pairs = [*((r, r) for r in narrower), *((None, r) for r in single), *((r, None) for r in single)]
    pairs += [(a, b) for a, b in itertools.permutations(narrower, 2) if a.mode == b.mode]
    for x, w in pairs:
        recipe = Recipe(x=x, w=w, accumulator=Rounding("float64" if problem.dtype == "float64" else "float32"))
        yield _rounds_operands(f"rounds {_say_rounded(problem, recipe)} before it multiplies", recipe)
        if x and x == w and x.mode == "nearest_even" and x.format in STORED:
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
    is_nearest = is_nearest and stored.direction == "nearest" and stored.first is None
    is_nearest = is_nearest and stored.scale == 1.0
    recipe = Recipe() if is_nearest and stored.part is None else None
    yield Hypothesis(CauseCode.RESULT_ROUNDING, "downgrade", stored.says, predict, recipe=recipe)
    if stored.rounding is None or stored.late or not observation.problem.bias or stored.part is not None:
        return
    if stored.scale != 1.0:
        return
    rounding = stored.rounding

    for words, rounds_bias in (("a bias in that format", True), ("the bias", False)):

        def predict_twice(observation: Observation, sample: Sample, rounds_bias: bool = rounds_bias) -> Floats:
            sums = round_wide(sample.pick(observation.bare_sums()), rounding)
            bias = observation.operands["bias"].astype(np.float64)
            return observation.finish(sums, sample, round_wide(bias, rounding) if rounds_bias else bias)

        says = f"stores its sums in {rounding.format}, adds {words} and stores the result in that format again"
        # A sum that its bias cancels is up to twice as large as any result.
        unit = 2 * float(find_format(rounding.format).unit_roundoff)
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
            return None  # Rounding a whole operand to zero explains no result but zeros.
        if not recipe.via and not recipe.b and all(_is_equal(a, observation.operands[n]) for n, a in read.items()):
            return None  # Rounding would not change these operands.
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
    yield from list_narrow_sums(problem, wide=wide, thorough=thorough)
    if not wide:
        yield from _list_truncating_sums(problem)
    yield from list_transform_hypotheses(problem)
    for flush, order in itertools.product(("operands", "results", "operands,results"), list_plain_orders(problem)):
        says = f"flushes subnormal {flush.replace(',', ' and ')} to zero"
        yield make_recipe(problem, CauseCode.SUBNORMALS, says, f"direct flush={flush} order={order}")


def _list_truncating_sums(problem: Problem) -> Iterator[Hypothesis]:
    """float32 sums rounded toward zero, and the matrix units that add this problem's operands."""
    biases = ("last", "first") if problem.bias else ("last",)
    for product, order, bias in itertools.product(("fused", "rounded"), _common_orders(problem), biases):
        text = f"direct product={product} acc=float32/toward_zero order={order} bias={bias}"
        yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, "truncates its float32 sums", text)
    for unit in MATRIX_UNITS:
        if unit.operands.startswith((problem.dtype, "tf32" if problem.dtype == "float32" else "-")):
            yield make_recipe(problem, CauseCode.LOW_PRECISION_ACCUMULATOR, f"adds as {unit.unit} does", unit.text)
    if find_format(problem.dtype).width_bits <= 8:
        # Units keep so few bits of float8 sums that libraries join blocks of them.
        for says, recipe in list_unit_recipes(problem.dtype):
            if recipe.fused.rounding:
                own = replace(recipe, bias="last")
                says = f"{says} ({format_recipe(own)})"
                yield from_recipe(CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", says, own)


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
    """The bias added after the first block of channels, then the sums of the other blocks."""
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
    """Weight gradients where each thread adds up its share of the batch, or of the rows."""
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
    """Recipes with some operand rounding in the orders that engines most often use; `stored` is how results are."""
    via = rounding.via
    if stored is not None and stored.rounding is not None and stored.part is None and stored.scale == 1.0:
        via = stored.rounding.format
    for hypothesis in list_order_hypotheses(problem):
        assert hypothesis.recipe is not None
        recipe = replace(hypothesis.recipe, x=rounding.x, w=rounding.w, b=rounding.b, via=via, flush=rounding.flush)
        yield replace(recipe, bias="rounded", bias_terms=0) if stored is not None and stored.late else recipe


_LANES = ("k/192|k", "k/256|k", "k/384|k", "k/512|k", "pairs:k%4|k", "halves:k%8|k", "halves:k%16|k")


def _common_orders(problem: Problem) -> list[str]:
    if problem.stated:
        return ["k", *_LANES, "-k"]
    first, *spatial = find_terms(problem).axis_names
    every = ",".join(spatial)
    orders = [*list_plain_orders(problem), f"{every}|{first}", f"{first}|{every}"]
    for block in _CHANNEL_BLOCKS:
        orders += [
            f"{first}/{block},{every},{first}",
            f"{first}/{block}|{every},{first}",
            f"{first}/{block},{every}|{first}",
        ]
    # Backwards: where terms are of very different sizes, sums that begin with the small ones lose less.
    backwards = [",".join(f"-{name}" for name in order.split(",")) for order in list_plain_orders(problem)]
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
