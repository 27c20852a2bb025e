"""Sums of magnitudes against the same sums in fractions: never below them, and above by at most what is promised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from exact_terms import list_terms, place, read_terms
from samebits.numbers import numpy_dtype
from samebits.problems import Problem, parse_problem_text
from samebits.sums.tiles.magnitudes import sum_magnitudes, sum_plainly
from samebits.sums.truth.convolution import compute_truth

DTYPES = ("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
DIRECTIONS = ("forward", "grad_input", "grad_weight")
# What is promised: 2^-30 of the sum; 2^-1000 is added to every sum that has terms, so that none is zero.
SHARE, LEAST = Fraction(1, 2**30), Fraction(1, 2**1000)
LARGEST = Fraction(np.finfo(np.float64).max.item())

# Groups, strides, dilations, padding on one side only, extra rows, kernels that reach beyond the data, gaps.
GEOMETRIES = {
    "conv1d": {"x": (2, 4, 7), "w": (4, 2, 3), "groups": 2, "stride": (2,), "dilation": (2,), "padding": ((1, 2),)},
    "conv2d": {"x": (2, 3, 4, 5), "w": (2, 3, 2, 3), "stride": (1, 3), "padding": ((1, 0), (2, 3)), "dilation": (2, 1)},
    "conv3d": {"x": (1, 2, 3, 2, 4), "w": (2, 1, 2, 1, 2), "groups": 2, "padding": ((0, 1), (1, 0), (2, 2))},
    "conv_transpose1d": {"x": (2, 4, 3), "w": (4, 2, 2), "groups": 2, "stride": (3,), "output_padding": (2,)},
    "conv_transpose2d": {
        "x": (1, 3, 3, 2), "w": (3, 2, 3, 2), "stride": (2, 1), "dilation": (1, 3), "padding": ((1, 0), (1, 1))
    },
    "conv_transpose3d": {"x": (1, 2, 2, 2, 2), "w": (2, 1, 2, 1, 2), "groups": 2, "stride": (1, 2, 2)},
}  # fmt: skip


def make_problem(kind: str, direction: str, dtype: str) -> Problem:
    return Problem(kind, direction=direction, dtype=dtype, bias=direction == "forward", **GEOMETRIES[kind])


def any_codes(problem: Problem, seed: int) -> dict[str, np.ndarray]:
    """Operands of random bits: all sizes and signs, subnormals, infinities and NaN; one in eight is made zero."""
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(problem.dtype)
    operands = {}
    for name, shape in problem.operand_shapes.items():
        values = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()
        values[rng.random(shape) < 1 / 8] = 0
        operands[name] = values
    return operands


def moderate(problem: Problem, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    dtype = numpy_dtype(problem.dtype)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in problem.operand_shapes.items()}


def only_finite(operands: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Non-finite elements as zeros: what is documented of them."""
    with np.errstate(invalid="ignore"):  # Random bits hold signaling NaN.
        return {name: np.where(np.isfinite(v), v, v.dtype.type(0)) for name, v in operands.items()}


def exact_magnitudes(problem: Problem, operands: dict[str, np.ndarray]) -> dict[tuple[int, ...], Fraction]:
    finite = only_finite(operands)
    sums = {}
    for at, terms in list_terms(problem).items():
        bias = abs(Fraction(float(finite["bias"][at[1]]))) if problem.bias else Fraction(0)
        sums[at] = sum((abs(a * b) for a, b in read_terms(problem, finite, terms)), bias)
    return sums


def check_magnitudes(problem: Problem, operands: dict[str, np.ndarray]) -> None:
    computed = sum_magnitudes(problem, operands)
    assert (computed.shape, computed.dtype) == (problem.out_shape, np.float64)
    for at, exact in exact_magnitudes(problem, operands).items():
        most = exact * (1 + SHARE) + LEAST
        if np.isinf(computed[at]):
            assert most > LARGEST, at
        else:
            assert exact <= Fraction(float(computed[at])) <= most, at


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", GEOMETRIES)
def test_sums_of_any_finite_bits_are_the_exact_ones_to_one_part_in_2_to_the_30(kind, direction, dtype):
    problem = make_problem(kind, direction, dtype)
    check_magnitudes(problem, only_finite(any_codes(problem, 1)))
    check_magnitudes(problem, moderate(problem, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", ["conv2d", "conv_transpose1d"])
def test_infinite_operands_and_nan_count_as_zero_also_where_only_the_bias_is_added(kind, direction, dtype):
    problem = make_problem(kind, direction, dtype)
    operands = moderate(problem, 3)
    for values in operands.values():
        values.flat[1] = np.nan
        values.flat[0] = np.nan if dtype == "float8_e4m3fn" else -np.inf
    check_magnitudes(problem, operands)


def test_units_that_float64_sums_absorb_are_counted():
    """1 + 999 * 2^-53 with the 1 anywhere among the terms: adding the units one by one gives 1."""
    problem = Problem("conv1d", (1, 1000, 1), (1, 1000, 1))
    for position in (0, 1, 143, 144, 500, 999):
        x, w = np.full(problem.x, 2.0**-26, np.float32), np.full(problem.w, 2.0**-27, np.float32)
        x[0, position, 0] = w[0, position, 0] = 1
        computed = Fraction(sum_magnitudes(problem, {"x": x, "w": w}).item())
        exact = 1 + Fraction(999, 2**53)
        assert exact <= computed <= exact * (1 + SHARE) + LEAST


def test_products_that_float64_loses_to_underflow_are_counted():
    problem = Problem("conv1d", (1, 2, 1), (1, 2, 1), dtype="float64")
    exact = Fraction(1, 2**1075)
    _, operands = place(problem, [(Fraction(1, 2**537), Fraction(1, 2**538))])
    computed = Fraction(sum_magnitudes(problem, operands).item())
    assert exact <= computed <= exact + LEAST


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(threads):
    problem = make_problem("conv3d", "forward", "float32")
    operands = moderate(problem, 4)
    assert sum_magnitudes(problem, operands, threads=threads).tobytes() == sum_magnitudes(problem, operands).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "conv2d x=2x6x9x9 w=4x3x3x3 padding=1 groups=2 stride=2 bias dtype=float32",
        "conv_transpose2d x=1x4x5x5 w=4x3x3x3 stride=2 output_padding=1 dtype=float32",
        "linear x=5x64 w=7x64 dtype=bfloat16",
    ],
)
def test_plain_sums_are_within_their_bound_of_the_exact_ones(text):
    problem = replace(parse_problem_text(text), out="float64")
    draw = np.random.default_rng(3)
    operands = {
        n: draw.standard_normal(s).astype(numpy_dtype(problem.dtype)) for n, s in problem.operand_shapes.items()
    }
    off = np.abs(sum_plainly(problem, operands) - compute_truth(problem, operands).values)
    bound = (problem.reduction_length + 3) * 2.0**-52 * sum_magnitudes(problem, operands)
    assert (off <= bound).all()
    assert sum_plainly(problem, operands).any()
