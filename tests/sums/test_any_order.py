"""Random data added in random orders: no result is beyond the bound of the declared formats."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adverse_orders import apply_epilogue, random_operands, sum_fused, sum_rounded
from exact_terms import PRECISION, list_terms, read_terms, round_fraction
from samebits.numbers import numpy_dtype
from samebits.problems import Epilogue, Problem
from samebits.sums.bounds import bound_errors
from samebits.sums.tiles.magnitudes import sum_magnitudes

GEOMETRIES = (
    {"kind": "conv1d", "x": (1, 2, 5), "w": (2, 2, 3), "padding": ((1, 1),)},
    {"kind": "conv1d", "x": (1, 7, 1), "w": (1, 7, 1)},
    {"kind": "conv2d", "x": (2, 2, 3, 3), "w": (2, 1, 2, 2), "groups": 2, "dilation": (1, 2)},
    {"kind": "conv_transpose1d", "x": (1, 3, 3), "w": (3, 1, 3), "stride": (2,)},
)
EPILOGUES = (None, Epilogue("relu"), Epilogue("clip", -0.5, 0.75), Epilogue("clip", 0.1, 1.1))
# The largest exponents of the operands: products of about 1, and ones below the accumulator's or result's numbers.
SHIFTS = {"float16": (0, -11), "float8_e4m3fn": (0, -4), "float8_e5m2": (0, -7)}
DEEPEST = (0, -72)


def make_problems(dtype: str, out: str):
    """Every geometry, direction and epilogue that goes together."""

    def build(geometry, direction, bias, then):
        if direction != "forward":
            bias, then = False, None
        return Problem(**geometry, direction=direction, bias=bias, then=then, dtype=dtype, out=out)

    directions = st.sampled_from(["forward", "forward", "grad_input", "grad_weight"])
    return st.builds(build, st.sampled_from(GEOMETRIES), directions, st.booleans(), st.sampled_from(EPILOGUES))


def compute(problem: Problem, pairs, bias, chance: random.Random) -> float:
    """One output in a random order, fused or not, the bias added at a random place or to the rounded sum."""
    accumulator = "float64" if problem.dtype == "float64" else "float32"
    add = chance.choice([sum_rounded, sum_fused])
    if bias is None or chance.random() < 0.5:
        total = round_fraction(Fraction(add(pairs, bias, accumulator, chance)), problem.out)
    else:
        total = round_fraction(Fraction(add(pairs, None, accumulator, chance)), problem.out)
        if math.isfinite(total):
            total = round_fraction(Fraction(total) + bias, problem.out)
    return apply_epilogue(problem, total)


def cancel_some(problem: Problem, operands, terms, chance: random.Random) -> None:
    """Biases that are about minus an exact sum of their channel, so that truths are small and errors are not."""
    if problem.bias and chance.random() < 0.5:
        at = chance.choice(list(terms))
        total = sum((a * b for a, b in read_terms(problem, operands, terms[at])), Fraction(0))
        operands["bias"][at[1]] = round_fraction(-total, problem.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("out", PRECISION)
def test_no_order_of_addition_leads_beyond_the_bound(dtype, out):
    @settings(max_examples=25)
    @given(
        make_problems(dtype, out),
        st.sampled_from(SHIFTS.get(dtype, DEEPEST)),
        st.sampled_from([0, 3, 12]),
        st.integers(0, 2**32),
    )
    def check(problem, shift, spread, seed):
        chance = random.Random(seed)
        operands = random_operands(problem, chance, spread, shift)
        terms = list_terms(problem)
        cancel_some(problem, operands, terms, chance)
        true, results = {}, {}
        for at in chance.sample(list(terms), min(6, len(terms))):
            pairs = read_terms(problem, operands, terms[at])
            bias = Fraction(float(operands["bias"][at[1]])) if problem.bias else None
            exact = sum((a * b for a, b in pairs), bias or Fraction(0))
            true[at] = apply_epilogue(problem, round_fraction(exact, out))
            results[at] = compute(problem, pairs, bias, chance)
        check_within(problem, operands, true, results)

    check()


def check_within(problem: Problem, operands, true, results) -> None:
    """Asserts |result - truth| <= bound exactly, wherever neither overflows."""
    truth = np.zeros(problem.out_shape, numpy_dtype(problem.out))
    for at, value in true.items():
        truth[at] = value
    bound = bound_errors(problem, operands, truth)
    for at, value in true.items():
        if math.isfinite(value) and math.isfinite(results[at]):
            assert abs(Fraction(results[at]) - Fraction(value)) <= Fraction(float(bound[at])), at


def test_magnitudes_that_are_known_already_give_the_same_bits():
    problem = Problem("conv1d", (2, 3, 7), (4, 3, 2), bias=True, dtype="float32", out="float16")
    operands = random_operands(problem, random.Random(1), 5, 0)
    truth = np.ones(problem.out_shape, np.float16)
    known = bound_errors(problem, operands, truth, magnitudes=sum_magnitudes(problem, operands))
    assert known.tobytes() == bound_errors(problem, operands, truth).tobytes()
