"""Sums made on paper that come close to the bound of the declared formats, in every format, direction and epilogue.

u is the accumulator's unit roundoff, v the result's. Numbers are written in multiples of SCALE, so that all factors are
numbers even of float8. Results are added up term by term in NumPy scalars, truths in fractions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from exact_terms import PRECISION, least_of, place, round_fraction, unit_of
from samebits.numbers import numpy_dtype
from samebits.problems import Epilogue, Problem
from samebits.sums.bounds import bound_errors

DTYPES = tuple(PRECISION)
PAIRS = tuple(itertools.product(DTYPES, DTYPES))
KINDS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
FORWARD = ("conv2d", "conv_transpose1d")
BACKWARD = tuple(itertools.product(("conv1d", "conv_transpose2d"), ("grad_input", "grad_weight")))
SCALE = 64
# Half the spacing above 1 as a product: 2^24 + 1 and 2^53 + 1 have factors that the formats hold.
JUST_ABOVE_ONE = {"float32": (97 * 257, 673), "float64": (3 * 107, 28059810762433)}


@dataclass(frozen=True)
class Adverse:
    """A sum of products (and a bias), the result of an attainable computation, and the share of the bound it reaches.

    With `least` above 1/2 a bound half as large would be exceeded; above 1/4, one four times as large is missed.
    """

    pairs: list[tuple[Fraction, Fraction]]
    result: float
    least: Fraction
    bias: Fraction | None = None

    @property
    def exact(self) -> Fraction:
        return sum((a * b for a, b in self.pairs), self.bias or Fraction(0))


def accumulator_of(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def is_narrower(dtype: str, out: str) -> bool:
    """Whether sums are rounded once more, to the result's format."""
    return PRECISION[out] < PRECISION[accumulator_of(dtype)]


def split(value: Fraction) -> tuple[Fraction, Fraction]:
    """A small integer times a power of two as two factors; below 1 both are small."""
    power = Fraction(1, 2 ** ((value.denominator.bit_length() - 1) // 2))
    return value / power, power


def add_up(dtype: str, pairs, bias=None) -> float:
    """Products rounded and added from left to right in the accumulator's format, the bias last."""
    number = numpy_dtype(accumulator_of(dtype)).type
    total = number(0)
    for a, b in pairs:
        total = total + number(float(a)) * number(float(b))
    return float(total if bias is None else total + number(float(bias)))


def absorb(dtype: str, out: str, count: int, with_bias: bool) -> Adverse:
    """1 + u + u + ...: the running 1 absorbs every u, all `count` products and the bias among them.

    Where products are rounded, the first is 1 + u and loses its own u: with n = 4 m + 3 terms the sum is 1 + n u, whose
    truth is 1 + (n + 1) u, a tie to even, and the bound (n u + u) (1 + O(n u)) is reached. Products of narrower formats
    are exact: n - 1 of n + 1 units. A result wider than the accumulator adds no unit of its own: n - 1 of n.
    """
    u = unit_of(accumulator_of(dtype))
    tiny = split(u * SCALE)
    if dtype in JUST_ABOVE_ONE:
        x, w = JUST_ABOVE_ONE[dtype]
        pairs = [(Fraction(x * SCALE), w * u)] + [tiny] * (count - 1)
        bias, least = (u * SCALE if with_bias else None), Fraction(99, 100)
        return Adverse(pairs, add_up(dtype, pairs, bias), least, bias)
    if with_bias:
        return Adverse([tiny] * count, add_up(dtype, [(SCALE, 1)] + [tiny] * count), Fraction(89, 100), Fraction(SCALE))
    pairs = [split(Fraction(SCALE))] + [tiny] * (count - 1)
    return Adverse(pairs, add_up(dtype, pairs), Fraction(87, 100))


def cross_a_tie(dtype: str, out: str) -> Adverse:
    """A sum of 1 + v, whose truth is 1; 3 u is rounded up to 4 u, three times -u is absorbed, and 1 + 2 v results."""
    u, v = unit_of(accumulator_of(dtype)), unit_of(out)
    pairs = [split(term * SCALE) for term in (Fraction(1), v, 3 * u, -u, -u, -u)]
    return Adverse(pairs, round_fraction(Fraction(add_up(dtype, pairs)), out), Fraction(98, 100))


def add_bias_late(dtype: str, out: str) -> Adverse:
    """The sum is rounded to the result's format, then the bias is added and the sum of both rounded.

    Where the bias may have a bit more than the result: 2 + 6 v becomes 2 + 8 v, minus 1 + 5 v is 1 + 3 v and becomes
    1 + 4 v; the truth of 1 + v is 1: 4 v of 4 v + 5 v^2. Where both have one format: 2 + 2 v becomes 2, minus 1 - v is
    1 + v and becomes 1; the truth of 1 + 3 v is 1 + 4 v: 4 v of 4 v + 11 v^2, which float8_e5m2 (v = 1/8) makes 0.744,
    the largest that a search of all its biases and sums in steps of v / 8 finds. Where the bias has fewer bits it is a
    power of two: 1 + v and a trifle becomes 1 + 2 v, minus 1 is 2 v instead of v: v of v + 3 v^2.
    """
    u, v = unit_of(accumulator_of(dtype)), unit_of(out)
    if PRECISION[dtype] > PRECISION[out]:
        terms, bias, least = (Fraction(2), 6 * v), 1 + 5 * v, 1 / (1 + Fraction(5, 4) * v)
    elif PRECISION[dtype] == PRECISION[out]:
        terms, bias, least = (Fraction(2), 2 * v), 1 - v, 1 / (1 + Fraction(11, 4) * v)
    else:
        terms, bias, least = (Fraction(1), v, 2 * u), Fraction(1), 1 / (1 + 3 * v)
    pairs = [split(term * SCALE) for term in terms]
    rounded = Fraction(round_fraction(Fraction(add_up(dtype, pairs)), out))
    result = round_fraction(rounded - bias * SCALE, out)
    # What the bound holds beside these terms, for sums and for underflow, is less than a hundredth of it.
    return Adverse(pairs, result, least * Fraction(99, 100), -bias * SCALE)


def make_adverse(dtype: str, out: str, count: int, with_bias: bool) -> Adverse:
    if not is_narrower(dtype, out):
        return absorb(dtype, out, count, with_bias)
    return add_bias_late(dtype, out) if with_bias else cross_a_tie(dtype, out)


def make_problem(kind: str, direction: str, dtype: str, out: str, with_bias: bool = False) -> Problem:
    """A problem in two groups whose fullest sum has 3 taps or positions times 5 (with bias 6) channels or images."""
    depth = 6 if with_bias else 5
    is_transposed = kind.startswith("conv_transpose")
    flat = (1,) * (int(kind[-2]) - 1)
    if direction == "grad_weight":
        attributes = {"x": (depth, 2, *flat, 3 if is_transposed else 5), "w": (2, 1, *flat, 3)}
    elif (direction == "forward") != is_transposed:
        channels, size = (4, 2) if is_transposed else (2 * depth, 7)
        attributes = {"x": (1, channels, *flat, size), "w": (4, depth, *flat, 3), "dilation": (*flat, 2)}
    else:
        channels, size = (2 * depth, 3) if is_transposed else (4, 10)
        attributes = {"x": (1, channels, *flat, size), "w": (2 * depth, 2, *flat, 6), "stride": (*flat, 2)}
    return Problem(kind, direction=direction, groups=2, bias=with_bias, dtype=dtype, out=out, **attributes)


def check_reach(problem: Problem, adverse: Adverse, **options) -> None:
    """Asserts that the error is at most the bound and at least the promised share of it."""
    at, operands = place(problem, adverse.pairs, adverse.bias)
    true_value = round_fraction(adverse.exact, problem.out)
    truth = np.zeros(problem.out_shape, numpy_dtype(problem.out))
    truth[at] = true_value
    bound = Fraction(float(bound_errors(problem, operands, truth, **options)[at]))
    error = abs(Fraction(adverse.result) - Fraction(true_value))
    assert adverse.least * bound <= error <= bound, f"{float(error / bound)} of the bound"


def add_epilogue(problem: Problem, adverse: Adverse, name: str) -> Problem:
    """The problem with that epilogue: a clip is one whose limits are result and truth, so that it clips neither."""
    if name == "clip":
        ends = sorted([adverse.result, round_fraction(adverse.exact, problem.out)])
        return replace(problem, then=Epilogue("clip", *ends))
    return replace(problem, then=Epilogue("relu") if name == "relu" else None)


@pytest.mark.slow
@pytest.mark.parametrize("epilogue", ["none", "relu", "clip"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("kind", FORWARD)
@pytest.mark.parametrize(("dtype", "out"), PAIRS)
def test_a_forward_result_reaches_the_bound_in_every_format(dtype, out, kind, with_bias, epilogue):
    problem = make_problem(kind, "forward", dtype, out, with_bias)
    adverse = make_adverse(dtype, out, problem.reduction_length, with_bias)
    check_reach(add_epilogue(problem, adverse, epilogue), adverse)


@pytest.mark.parametrize(("kind", "direction"), BACKWARD)
@pytest.mark.parametrize(("dtype", "out"), PAIRS)
def test_a_gradient_reaches_the_bound_in_every_format(dtype, out, kind, direction):
    problem = make_problem(kind, direction, dtype, out)
    check_reach(problem, make_adverse(dtype, out, problem.reduction_length, False))


@pytest.mark.parametrize("direction", ["forward", "grad_input", "grad_weight"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "out"), [("float32", "float32"), ("float16", "float16")])
def test_every_kind_and_direction_reaches_the_bound(dtype, out, kind, direction):
    problem = make_problem(kind, direction, dtype, out)
    check_reach(problem, make_adverse(dtype, out, problem.reduction_length, False))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_negated_sum_reaches_the_bound_as_well(dtype):
    problem = make_problem("conv1d", "forward", dtype, dtype)
    adverse = absorb(dtype, dtype, 15, False)
    mirrored = replace(adverse, pairs=[(-a, b) for a, b in adverse.pairs], result=-adverse.result)
    check_reach(problem, mirrored)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_the_last_rounding_the_sum_alone_reaches_the_bound(dtype):
    """The first product is exactly 1 here: 14 units are lost of 15, and the truth 1 + 14 u needs no rounding."""
    tiny = split(unit_of(dtype) * SCALE)
    pairs = [split(Fraction(SCALE))] + [tiny] * 14
    problem = make_problem("conv1d", "forward", dtype, dtype)
    check_reach(problem, Adverse(pairs, add_up(dtype, pairs), Fraction(93, 100)), rounds_result=False)


@pytest.mark.parametrize(("dtype", "out"), [("float32", "float16"), ("float16", "float16"), ("bfloat16", "bfloat16")])
def test_a_long_sum_in_a_narrow_format_reaches_the_bound(dtype, out):
    """1 + v and then 2 v in steps of u, all absorbed: the result is 1 and the truth of 1 + 3 v is 1 + 4 v."""
    u, v = unit_of("float32"), unit_of(out)
    steps = int(2 * v / u)
    problem = Problem("conv1d", (1, 2 + steps, 1), (1, 2 + steps, 1), dtype=dtype, out=out)
    power = 2.0**-12
    x, w = np.full(2 + steps, power), np.full(2 + steps, power)
    x[:2], w[:2] = (1.0, float(v)), 1.0
    products = x.astype(np.float32) * w.astype(np.float32)
    result = round_fraction(Fraction(float(np.add.accumulate(products)[-1])), out)
    truth = np.array([[[round_fraction(1 + v + steps * u, out)]]], numpy_dtype(out))
    operands = {"x": x.reshape(problem.x).astype(numpy_dtype(dtype)), "w": w.reshape(problem.w).astype(truth.dtype)}
    operands["w"] = operands["w"].astype(numpy_dtype(dtype))
    bound = bound_errors(problem, operands, truth).item()
    assert 0.97 * bound <= abs(result - float(truth.item())) <= bound


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_that_underflow_reach_half_of_the_bound(dtype):
    """15 products of half the smallest number become 0 each; the truth of 7.5 numbers is 8.

    The bound holds a whole number for each product and for the truth, 16 in all, where rounding loses at most half of
    one: no more than half of it can be reached.
    """
    problem = make_problem("conv1d", "forward", dtype, "float32")
    pairs = [split(least_of("float32") / 2)] * 15
    check_reach(problem, Adverse(pairs, add_up(dtype, pairs), Fraction(49, 100)))


@pytest.mark.parametrize("out", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_a_result_that_underflows_reaches_half_of_the_bound(out):
    """Half the smallest number, whose truth is 0, is a trifle more once 3 parts became 4 and -1 part nothing, thrice.

    The bound holds a whole number for the truth and one for the result, each rounded by at most half of one.
    """
    least = least_of(out)
    part = max(least / 2 * unit_of("float32"), least_of("float32") / 4)
    pairs = [split(term) for term in (least / 2, 3 * part, -part, -part, -part)]
    problem = make_problem("conv1d", "forward", "float32", out)
    result = round_fraction(Fraction(add_up("float32", pairs)), out)
    check_reach(problem, Adverse(pairs, result, Fraction(49, 100)))


@pytest.mark.parametrize("out", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_a_result_that_underflows_before_its_bias_reaches_a_third_of_the_bound(out):
    """1.5 numbers become 2, minus 1 is 1; the truth of half a number is 0: 1 of 3 + v.

    The bound allows a whole number for each of three roundings. The last one is exact down there, and the other two can
    lose half of one.
    """
    least = least_of(out)
    pairs, problem = [split(3 * least / 2)], make_problem("conv1d", "forward", "float32", out, with_bias=True)
    rounded = Fraction(round_fraction(Fraction(add_up("float32", pairs)), out))
    reach = Fraction(99, 100) / (3 + unit_of(out))
    check_reach(problem, Adverse(pairs, round_fraction(rounded - least, out), reach, -least))
