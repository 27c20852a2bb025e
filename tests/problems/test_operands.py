"""Exact data keeps its promise: every partial sum fits eight bits, whatever the order."""

import numpy as np
import pytest

from samebits.errors import OperandError, ProblemShapeError
from samebits.problems import parse_problem_text
from samebits.problems.operands import check_operands, make_exact, make_normal, make_uniform
from samebits.sums.truth import compute_truth

TEXTS = [
    "conv2d x=2x64x9x9 w=32x64x3x3 bias padding=1",
    "conv2d x=2x8x9x9 w=8x2x3x3 groups=4 dtype=float16",
    "conv2d.grad_input x=2x64x9x9 w=32x64x3x3 padding=1",
    "conv2d.grad_input x=2x64x9x9 w=32x16x3x3 padding=1 groups=4",
    "conv2d.grad_weight x=4x16x20x20 w=8x16x3x3 dtype=bfloat16",
    "conv_transpose2d x=2x48x7x7 w=48x6x4x4 stride=2 padding=1 groups=2 bias",
    "conv_transpose2d.grad_input x=2x48x7x7 w=48x6x4x4 stride=2 padding=1 groups=2",
    "conv_transpose1d.grad_weight x=4x8x40 w=8x4x5 stride=2",
    "conv1d x=1x3x20 w=4x3x5 dtype=float8_e4m3fn",
    "conv1d x=1x30x20 w=4x30x5 dtype=float8_e5m2 bias",
]


@pytest.mark.parametrize("text", TEXTS)
def test_no_partial_sum_in_any_order_exceeds_the_format(text):
    problem = parse_problem_text(text)
    operands = make_exact(problem)
    magnitudes = {n: np.abs(a.astype(np.float64)).astype(np.float32) for n, a in operands.items()}
    wide = parse_problem_text(text.partition(" dtype=")[0].replace(" bias", "") + " dtype=float32 out=float64")
    sums = compute_truth(wide, {n: a for n, a in magnitudes.items() if n != "bias"}).values
    bias = float(magnitudes["bias"].max()) if problem.bias else 0.0
    precision = {"float8_e4m3fn": 4, "float8_e5m2": 3}.get(problem.out, 8)
    assert sums.max() + bias <= 2**precision
    assert sums.max() > 0


@pytest.mark.parametrize("text", TEXTS)
def test_exact_data_are_integers_of_both_signs(text):
    for array in make_exact(parse_problem_text(text)).values():
        values = array.astype(np.float64)
        assert np.array_equal(values, np.rint(values))
        assert (values > 0).any()
        assert (values < 0).any()


@pytest.mark.parametrize("make", [make_exact, make_normal, make_uniform])
def test_the_same_seed_makes_the_same_data_and_another_seed_does_not(make):
    problem = parse_problem_text(TEXTS[0])
    first, again, other = make(problem, 1), make(problem, 1), make(problem, 2)
    assert all(np.array_equal(first[n], again[n]) for n in first)
    assert not all(np.array_equal(first[n], other[n]) for n in first)


def test_operands_that_do_not_fit_are_refused_by_name():
    problem = parse_problem_text("conv1d x=1x1x7 w=1x1x5")
    good = make_normal(problem)
    assert list(check_operands(problem, good)) == ["x", "w"]
    with pytest.raises(OperandError, match="w is missing"):
        check_operands(problem, {"x": good["x"]})
    with pytest.raises(OperandError, match="shape 1x1x6"):
        check_operands(problem, {**good, "x": good["x"][:, :, :6]})
    with pytest.raises(OperandError, match="dtype float64"):
        check_operands(problem, {**good, "w": good["w"].astype(float)})


@pytest.mark.parametrize(
    ("w", "says"),
    [
        (np.ma.masked_array(np.ones((1, 1, 5), np.float32), True), "operand w is a masked array"),
        ([[[1.0] * 5]], "operand w must be a NumPy array, not list"),
        (None, "operand w must be a NumPy array, not NoneType"),
    ],
)
def test_what_is_no_plain_array_is_refused(w, says):
    problem = parse_problem_text("conv1d x=1x1x7 w=1x1x5")
    with pytest.raises(OperandError, match=says):
        check_operands(problem, {"x": np.ones((1, 1, 7), np.float32), "w": w})


def test_an_empty_batch_is_said_to_be_nothing_to_compare():
    with pytest.raises(ProblemShapeError, match="empty batch, nothing to compute or to compare"):
        parse_problem_text("conv2d x=0x3x8x8 w=2x3x3x3")
