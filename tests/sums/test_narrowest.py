"""The bound of arithmetic that is all bfloat16: nothing computed so lies beyond it, and some sums come close."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adverse_orders import add_in_any_order, apply_epilogue, random_operands
from exact_terms import PRECISION, list_terms, place, read_terms, round_fraction, unit_of
from samebits.numbers import numpy_dtype
from samebits.problems import Epilogue, Problem
from samebits.sums.bounds import bound_narrowest_errors
from samebits.sums.tiles.magnitudes import sum_magnitudes

# As precise as bfloat16 or more so.
RESULTS = ("float64", "float32", "float16", "bfloat16")
GEOMETRIES = (
    {"kind": "conv1d", "x": (1, 2, 5), "w": (2, 2, 3), "padding": ((1, 1),)},
    {"kind": "conv1d", "x": (1, 20, 1), "w": (1, 20, 1)},
    {"kind": "conv2d", "x": (2, 2, 3, 3), "w": (2, 1, 2, 2), "groups": 2, "dilation": (1, 2)},
    {"kind": "conv_transpose1d", "x": (1, 3, 3), "w": (3, 1, 3), "stride": (2,)},
)
EPILOGUES = (None, Epilogue("relu"), Epilogue("clip", -0.5, 0.75))


def in_bfloat16(value: Fraction | float) -> Fraction:
    return Fraction(round_fraction(Fraction(value), "bfloat16"))


def bound_of(problem: Problem, operands, true: dict[tuple[int, ...], float]) -> np.ndarray:
    truth = np.zeros(problem.out_shape, numpy_dtype(problem.out))
    for at, value in true.items():
        truth[at] = value
    return bound_narrowest_errors(problem, truth, sum_magnitudes(problem, operands))


def compute_in_bfloat16(problem: Problem, pairs, bias, chance: random.Random) -> float:
    """Operands, products and sums rounded to bfloat16, added in any order; at last to the result's format.

    The bias is among the terms, or added when the sum was rounded to the result's format.
    """
    leaves = [float(in_bfloat16(in_bfloat16(a) * in_bfloat16(b))) for a, b in pairs]
    late = bias is not None and chance.random() < 0.5
    if bias is not None and not late:
        leaves.append(float(in_bfloat16(bias)))
    total = add_in_any_order(leaves, "bfloat16", chance)
    if late:
        total = round_fraction(Fraction(round_fraction(Fraction(total), problem.out)) + in_bfloat16(bias), "bfloat16")
    return apply_epilogue(problem, round_fraction(Fraction(total), problem.out))


def make_problems(dtype: str, out: str):
    def build(geometry, direction, bias, then):
        if direction != "forward":
            bias, then = False, None
        return Problem(**geometry, direction=direction, bias=bias, then=then, dtype=dtype, out=out)

    directions = st.sampled_from(["forward", "forward", "grad_input", "grad_weight"])
    return st.builds(build, st.sampled_from(GEOMETRIES), directions, st.booleans(), st.sampled_from(EPILOGUES))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("out", PRECISION)
def test_nothing_computed_in_bfloat16_is_beyond_the_bound(dtype, out):
    @settings(max_examples=25)
    @given(make_problems(dtype, out), st.sampled_from([0, 3, 12]), st.integers(0, 2**32))
    def check(problem, spread, seed):
        chance = random.Random(seed)
        operands = random_operands(problem, chance, spread, 0)
        terms = list_terms(problem)
        true, results = {}, {}
        for at in chance.sample(list(terms), min(6, len(terms))):
            pairs = read_terms(problem, operands, terms[at])
            bias = Fraction(float(operands["bias"][at[1]])) if problem.bias else None
            exact = sum((a * b for a, b in pairs), bias or Fraction(0))
            true[at] = apply_epilogue(problem, round_fraction(exact, out))
            results[at] = compute_in_bfloat16(problem, pairs, bias, chance)
        bound = bound_of(problem, operands, true)
        for at, value in true.items():
            if math.isfinite(value) and math.isfinite(results[at]):
                assert abs(Fraction(results[at]) - Fraction(value)) <= Fraction(float(bound[at])), at

    check()


@pytest.mark.parametrize("out", ["float8_e4m3fn", "float8_e5m2"])
def test_a_float8_result_of_one_product_in_bfloat16_is_within_the_bound(out):
    """Just above a tie, 1 + v and a trifle that bfloat16 drops: the truth is 1 + 2 v, the result 1.

    The bound is 4 v (1 + 2 v), 4 u and the 1 / 64 and a little that one product may be off in bfloat16.
    """
    unit = unit_of(out)
    problem = Problem("conv1d", (1, 1, 1), (1, 1, 1), out=out)
    at, operands = place(problem, [(1 + unit + Fraction(1, 2**20), Fraction(1))])
    result = round_fraction(in_bfloat16(1 + unit + Fraction(1, 2**20)), out)
    assert (result, float(1 + 2 * unit)) == (1.0, round_fraction(1 + unit + Fraction(1, 2**20), out))
    bound = Fraction(float(bound_of(problem, operands, {at: float(1 + 2 * unit)})[at]))
    assert Fraction(3, 10) * bound <= 2 * unit <= bound


@pytest.mark.parametrize("out", ["float8_e4m3fn", "float8_e5m2"])
def test_a_float8_sum_rounded_before_its_bias_in_bfloat16_is_within_the_bound(out):
    """1 + v and a trifle that bfloat16 drops becomes 1, minus 1 is 0; the truth is v.

    The bound has v S for the rounding before the bias, 5 / 251 of S for the sum and 4 v of truth and error after it.
    S = 2 + v counts product and bias, and only one of them is rounded there: at most about half of it can be lost.
    """
    unit = unit_of(out)
    problem = Problem("conv1d", (1, 1, 1), (1, 1, 1), bias=True, out=out)
    total = 1 + unit + Fraction(1, 2**20)
    at, operands = place(problem, [(total, Fraction(1))], Fraction(-1))
    result = Fraction(round_fraction(in_bfloat16(total), out)) - 1
    true = round_fraction(total - 1, out)
    assert (result, true) == (0, float(unit))
    bound = Fraction(float(bound_of(problem, operands, {at: true})[at]))
    assert Fraction(3, 10) * bound <= unit <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("out", RESULTS)
@pytest.mark.parametrize(("direction", "with_bias"), [("forward", False), ("forward", True), ("grad_weight", False)])
def test_a_sum_in_bfloat16_reaches_five_eighths_of_the_bound(dtype, out, direction, with_bias):
    """Operands of 1 + u become 1, and 1 absorbs u, nineteen times: 21 u are lost.

    The bound counts n + 3 = 23 roundings as if each met the whole sum, 23 u / (1 - 23 u) of it, and 4 u at the end:
    32 u in all.
    """
    unit = Fraction(1, 2**8)
    shape = {"x": (1, 20, 1), "w": (1, 20, 1)} if direction == "forward" else {"x": (20, 1, 1), "w": (1, 1, 1)}
    count = 20
    if with_bias:
        shape, count = {"x": (1, 19, 1), "w": (1, 19, 1)}, 19
    problem = Problem("conv1d", **shape, direction=direction, bias=with_bias, dtype=dtype, out=out)
    pairs = [(1 + unit, 1 + unit)] + [(1 + unit, unit * (1 + unit))] * (count - 1)
    bias = unit * (1 + unit) if with_bias else None
    at, operands = place(problem, pairs, bias)
    total = Fraction(0)
    for a, b in pairs:
        total = in_bfloat16(total + in_bfloat16(in_bfloat16(a) * in_bfloat16(b)))
    total = in_bfloat16(total + in_bfloat16(bias or 0))
    true = round_fraction(sum((a * b for a, b in pairs), bias or Fraction(0)), out)
    bound = Fraction(float(bound_of(problem, operands, {at: true})[at]))
    assert Fraction(5, 8) * bound <= abs(total - Fraction(true)) <= bound


def test_float16_that_flushes_subnormals_reaches_four_fifths_of_the_bound():
    """Seven products just below 2^-14 become zero: 7 parts of a bound of 8 for them and 0.6 for rounding."""
    problem = Problem("conv1d", (1, 7, 1), (1, 7, 1), dtype="float16", out="float32")
    at, operands = place(problem, [(1 - Fraction(1, 2**11), Fraction(1, 2**14))] * 7)
    true = float(7 * (1 - Fraction(1, 2**11)) / 2**14)
    bound = float(bound_of(problem, operands, {at: true})[at])
    assert 0.8 * bound <= true <= bound


@pytest.mark.parametrize(
    ("length", "with_bias", "finite"), [(252, False, True), (253, False, False), (252, True, False)]
)
def test_nothing_is_said_of_sums_of_253_terms_or_more(length, with_bias, finite):
    problem = Problem("conv1d", (1, length, 1), (1, length, 1), bias=with_bias)
    operands = {name: np.ones(shape, np.float32) for name, shape in problem.operand_shapes.items()}
    bound = bound_of(problem, operands, {})
    assert bound.shape == problem.out_shape
    assert math.isfinite(bound.item()) == finite
