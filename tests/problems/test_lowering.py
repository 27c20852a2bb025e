"""A product and the convolution with the same sums: held together by NumPy's own products of both."""

import numpy as np
import pytest

from exact_products import multiply_exactly
from naive_convolution import convolve
from samebits.problems import parse_problem_text
from samebits.problems.lowering import lower_problem, state_index
from samebits.problems.operands import make_exact, make_normal
from samebits.problems.windows import locate_window, name_axes

TEXTS = [
    "linear x=5x7 w=3x7 bias",
    "linear x=2x3x7 w=4x7",
    "linear x=7 w=4x7 bias",
    "linear.grad_input x=2x3x7 w=4x7",
    "linear.grad_weight x=2x3x7 w=4x7",
    "matmul x=4x5 w=5x6",
    "matmul x=5 w=5x6",
    "matmul x=4x5 w=5",
    "matmul x=5 w=5",
    "matmul x=2x4x5 w=2x5x6",
    "matmul x=2x4x5 w=5x6",
    "matmul x=4x5 w=2x5x6",
    "matmul x=8x1x4x5 w=3x5x6",
    "matmul x=2x1x3x4x5 w=2x5x1x5x6",
    "matmul x=1x1x5 w=1x5x1",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_convolution_has_the_same_sums(text):
    # A bias is added by whoever adds the products.
    problem = parse_problem_text(text.removesuffix(" bias"))
    lowering = lower_problem(problem)
    operands = make_exact(problem, 3)
    sums = convolve(lowering.convolution, lowering.lower_operands(operands))
    restored = lowering.restore_result(sums.astype(np.float64))
    expected = multiply_exactly(problem, operands)
    assert restored.shape == problem.out_shape
    assert [int(v) for v in restored.ravel()] == [int(v) >> 2200 for v in expected.ravel()]


@pytest.mark.parametrize("text", TEXTS)
def test_operands_and_results_come_back_as_they_were(text):
    problem = parse_problem_text(text)
    lowering = lower_problem(problem)
    operands = make_normal(problem)
    back = lowering.restore_operands(lowering.lower_operands(operands))
    assert {n: a.shape for n, a in back.items()} == {n: tuple(s) for n, s in problem.operand_shapes.items()}
    for name, array in operands.items():
        np.testing.assert_array_equal(back[name], array)
    numbers = np.arange(np.prod(problem.out_shape, dtype=int)).reshape(problem.out_shape)
    lowered = lowering.lower_result(numbers)
    assert lowered.shape == lowering.convolution.out_shape
    for index in np.ndindex(lowered.shape):
        assert numbers[state_index(lowering.convolution, index)] == lowered[index]


def test_a_convolution_is_its_own_lowering():
    problem = parse_problem_text("conv2d x=1x2x5x5 w=3x2x3x3 bias")
    lowering = lower_problem(problem)
    operands = make_normal(problem)
    assert not lowering.is_product
    assert lowering.convolution is lowering.stated
    assert all(lowering.lower_operands(operands)[n] is a for n, a in operands.items())
    assert state_index(problem, (0, 1, 2, 3)) == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("text", "index", "window"),
    [
        ("linear x=2x5x7 w=3x7", (1, 4, 2), {"x": [[1, 2], [4, 5], [0, 7]]}),
        ("linear.grad_input x=2x5x7 w=3x7", (1, 4, 2), {"dy": [[1, 2], [4, 5], [0, 3]]}),
        ("linear.grad_weight x=2x5x7 w=3x7", (2, 6), {"x": [[0, 2], [0, 5], [6, 7]]}),
        ("matmul x=8x1x4x5 w=3x5x6", (7, 2, 3, 1), {"x": [[7, 8], [0, 1], [3, 4], [0, 5]]}),
        ("matmul x=5 w=5x6", (4,), {"x": [[0, 5]]}),
    ],
)
def test_an_output_reads_a_row_of_x(text, index, window):
    assert locate_window(parse_problem_text(text), index) == window


def test_axes_are_named():
    assert name_axes(parse_problem_text("linear x=2x5x7 w=3x7")) == ("batch0", "batch1", "n")
    assert name_axes(parse_problem_text("linear x=5x7 w=3x7")) == ("batch", "n")
    assert name_axes(parse_problem_text("matmul x=4x1x5x7 w=3x7x2")) == ("batch0", "batch1", "m", "n")
    assert name_axes(parse_problem_text("linear.grad_weight x=5x7 w=3x7")) == ("n", "k")
