"""The truth of linear and matmul against exact integer products, in every format, with batches, vectors and biases."""

import itertools

import numpy as np
import pytest

import samebits
from exact_products import multiply_correctly_rounded
from samebits.errors import OperandError, ProblemShapeError, ResourceLimitError
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact, make_normal
from samebits.problems.problem import DTYPES
from samebits.sums.truth import compute_truth

SHAPES = [
    "linear x=5x7 w=3x7 bias",
    "linear x=2x3x37 w=11x37",
    "linear x=41 w=6x41 bias",
    "linear x=1x130 w=17x130 bias",
    "linear.grad_input x=4x3x9 w=13x9",
    "linear.grad_weight x=4x3x9 w=13x9",
    "matmul x=6x40 w=40x9",
    "matmul x=40 w=40x9",
    "matmul x=6x40 w=40",
    "matmul x=50 w=50",
    "matmul x=3x6x20 w=3x20x5",
    "matmul x=3x6x20 w=20x5",
    "matmul x=6x20 w=3x20x5",
    "matmul x=4x1x6x20 w=3x20x5",
    "matmul x=2x1x3x4x5 w=2x5x1x5x6",
    "matmul x=5x1 w=1x7",
]


def assert_correctly_rounded(problem, operands):
    expected = multiply_correctly_rounded(problem, operands)
    values = compute_truth(problem, operands).values
    assert values.shape == problem.out_shape
    np.testing.assert_array_equal(values.astype(np.float64), expected)


@pytest.mark.parametrize(("text", "dtype"), list(itertools.product(SHAPES, DTYPES)))
def test_products_are_correctly_rounded(text, dtype):
    problem = parse_problem_text(f"{text} dtype={dtype}")
    assert_correctly_rounded(problem, make_normal(problem, 5))


@pytest.mark.parametrize(("dtype", "out"), [p for p in itertools.product(DTYPES, DTYPES) if p[0] != p[1]])
def test_results_may_have_another_format(dtype, out):
    problem = parse_problem_text(f"matmul x=2x9x30 w=30x8 dtype={dtype} out={out}")
    assert_correctly_rounded(problem, make_normal(problem, 6))


@pytest.mark.parametrize("text", SHAPES)
def test_sums_that_cancel_are_correctly_rounded(text):
    problem = parse_problem_text(text)
    operands = make_normal(problem, 7)
    rng = np.random.default_rng(8)
    spread = {n: (a * np.exp2(rng.integers(-20, 20, a.shape))).astype(np.float32) for n, a in operands.items()}
    assert_correctly_rounded(problem, spread)


@pytest.mark.parametrize("text", SHAPES)
def test_exact_integers_leave_nothing_to_round(text):
    problem = parse_problem_text(text)
    operands = make_exact(problem, 2)
    wide = multiply_correctly_rounded(parse_problem_text(f"{text} out=float64"), operands)
    np.testing.assert_array_equal(compute_truth(problem, operands).values, wide)
    assert np.abs(wide).max() > 1


def test_an_epilogue_follows_the_rounding():
    problem = parse_problem_text("linear x=9x33 w=12x33 bias then=clip(-0.5,0.25)")
    operands = make_normal(problem, 1)
    plain = multiply_correctly_rounded(parse_problem_text("linear x=9x33 w=12x33 bias"), operands)
    clipped = np.clip(plain, -0.5, 0.25)
    assert (clipped != plain).any()
    np.testing.assert_array_equal(compute_truth(problem, operands).values, clipped.astype(np.float32))


def test_the_functions_have_the_shapes_of_torch_and_numpy():
    rng = np.random.default_rng(0)
    x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 7), (3, 7), (3,)))
    problem = parse_problem_text("linear x=2x5x7 w=3x7 bias")
    expected = multiply_correctly_rounded(problem, {"x": x, "w": w, "bias": bias})
    np.testing.assert_array_equal(samebits.linear(x, w, bias), expected.astype(np.float32))
    for a, b in ((x, x.swapaxes(1, 2)), (x, w.T), (x[0, 0], w.T), (x, x[0, 0]), (x[0, 0], x[0, 1]), (x[:, None], w.T)):
        shapes = ["x".join(map(str, array.shape)) for array in (a, b)]
        problem = parse_problem_text(f"matmul x={shapes[0]} w={shapes[1]}")
        y = samebits.matmul(a, b)
        assert y.shape == np.matmul(a, b).shape
        np.testing.assert_array_equal(y, multiply_correctly_rounded(problem, {"x": a, "w": b}))
    assert samebits.matmul(x, w.T, dtype="float64").dtype == np.float64


def test_torch_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    x, w = torch.randn(4, 9).bfloat16(), torch.randn(3, 9).bfloat16()
    y = samebits.linear(x, w)
    assert (type(y), y.dtype, tuple(y.shape)) == (torch.Tensor, torch.bfloat16, (4, 3))
    exact = x.double() @ w.double().T
    assert torch.equal(y, exact.bfloat16())


@pytest.mark.parametrize(
    ("x", "w", "shape"),
    [((0, 7), (7, 3), (0, 3)), ((3, 0, 4), (4, 2), (3, 0, 2)), ((2, 4), (4, 0), (2, 0)), ((2, 0), (0, 3), (2, 3)),
     ((0, 2, 4), (1, 4, 5), (0, 2, 5)), ((1, 2, 4), (0, 4, 5), (0, 2, 5)), ((0,), (0,), ())],
)  # fmt: skip
def test_empty_operands_give_what_numpy_gives(x, w, shape):
    y = samebits.matmul(np.ones(x, np.float32), np.ones(w, np.float32))
    assert (y.shape, y.dtype) == (shape, np.float32)
    assert not y.any()


@pytest.mark.parametrize("x", [(3, 2), (0, 2), (3, 0), (2,)])
def test_a_layer_without_rows_takes_a_bias_of_nothing_only(x):
    """As numpy has it: x w^T has no columns, to which only as many numbers can be added."""
    operands = np.ones(x, np.float32), np.ones((0, x[-1]), np.float32)
    assert samebits.linear(*operands, np.ones(0, np.float32)).shape == (*x[:-1], 0)
    with pytest.raises(OperandError, match="bias has shape"):
        samebits.linear(*operands, np.ones(1, np.float32))
    with pytest.raises(OperandError, match="bias has shape"):
        samebits.linear(operands[0], np.ones((1, x[-1]), np.float32), np.ones(0, np.float32))


def test_a_sum_of_nothing_is_its_bias():
    bias = np.array([1.5, -0.0, 3.0], np.float32)
    y = samebits.linear(np.ones((2, 0), np.float32), np.ones((3, 0), np.float32), bias)
    np.testing.assert_array_equal(y, [[1.5, 0.0, 3.0]] * 2)
    assert not np.signbit(y).any()


def test_a_layer_without_outputs_has_an_empty_bias_and_no_other():
    x, w = np.ones((2, 4), np.float32), np.ones((0, 4), np.float32)
    assert samebits.linear(x, w, np.ones(0, np.float32)).shape == (2, 0)
    for sizes in ((1,), (3,), ()):
        with pytest.raises(OperandError, match="bias"):
            samebits.linear(x, w, np.ones(sizes, np.float32))


@pytest.mark.parametrize(
    ("x", "w"),
    [((10**7, 0), (0, 10**7)), ((2**39, 0), (0, 2**39)), ((2**20, 2**20, 0), (0, 1)), ((0, 2**40, 1), (1, 2**40))],
)
def test_a_result_too_large_for_memory_is_refused_where_operands_are_empty(x, w):
    views = [np.broadcast_to(np.float32(0), shape) for shape in (x, w)]
    with pytest.raises(ResourceLimitError, match="does not fit"):
        samebits.matmul(*views)


@pytest.mark.parametrize(
    ("function", "x", "w", "says"),
    [
        ("linear", (2, 5), (3, 4), "last size of x is 5, but w, N x K, has 4"),
        ("linear", (2, 5), (5,), "linear needs w with 2 sizes"),
        ("matmul", (2, 5), (4, 3), "last but one size of w is 4"),
        ("matmul", (2, 4, 5), (3, 5, 6), "batch sizes 2 of x and 3 of w"),
        ("matmul", (), (3,), "at least 1 size each"),
        ("matmul", (0, 2, 4), (3, 4, 5), "batch sizes 0 of x and 3 of w"),
        ("matmul", (2, 0), (3, 5), "last size of x is 0, but the last but one size of w is 3"),
        ("matmul", (2, 1), (0, 5), "last size of x is 1, but the last but one size of w is 0"),
    ],
)
def test_shapes_that_do_not_multiply_are_refused(function, x, w, says):
    with pytest.raises(ProblemShapeError, match=says):
        getattr(samebits, function)(np.ones(x, np.float32), np.ones(w, np.float32))


def test_operands_of_two_formats_are_refused():
    with pytest.raises(OperandError, match="w has dtype float64"):
        samebits.matmul(np.ones((2, 3), np.float32), np.ones((3, 2)))
