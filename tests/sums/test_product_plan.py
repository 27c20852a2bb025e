"""Products planned on their own arrays: which can be, and that strides, roles and merged axes are right."""

import numpy as np
import pytest

from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.sums.tiles.product_plan import plan_problem, plan_product
from samebits.sums.truth import compute_truth

DIRECT = [
    "linear x=5x7 w=4x7 bias",
    "linear x=2x3x5x7 w=4x7 bias",
    "linear x=7 w=4x7",
    "linear x=1x7 w=40x7 bias",
    "linear x=9x300 w=33x300",
    "linear.grad_input x=6x7 w=5x7",
    "linear.grad_weight x=6x7 w=5x7",
    "linear.grad_weight x=2x6x7 w=35x7",
    "matmul x=5x7 w=7x4",
    "matmul x=7 w=7x4",
    "matmul x=5x7 w=7",
    "matmul x=7 w=7",
    "matmul x=1x1 w=1x1",
    "matmul x=1x200 w=200x50",
    "matmul x=3x5x7 w=3x7x4",
    "matmul x=2x3x5x7 w=2x3x7x4",
    "matmul x=3x5x7 w=7x4",
    "matmul x=3x1x5x7 w=3x1x7x4",
    "matmul x=12x40x33 w=12x33x20",
    "matmul x=2x3x5x7 w=2x1x7x4",
]
BY_CONVOLUTION = ["matmul x=2x1x5x7 w=3x7x4", "matmul x=2x3x2x5x7 w=2x1x2x7x4"]


def plain(problem, operands):
    """NumPy's own product of integers, exact."""
    own = {name: array.astype(np.int64) for name, array in operands.items()}
    if problem.direction == "grad_input":
        return own["dy"] @ own["w"]
    if problem.direction == "grad_weight":
        rows = own["dy"].reshape(-1, own["dy"].shape[-1])
        return rows.T @ own["x"].reshape(len(rows), -1)
    if problem.kind == "linear":
        return own["x"] @ own["w"].T + own.get("bias", 0)
    return own["x"] @ own["w"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("text", DIRECT + BY_CONVOLUTION)
def test_sums_are_those_of_numpys_product(text, dtype):
    problem = parse_problem_text(
        f"{text} dtype={dtype} out=float32" if dtype == "bfloat16" else f"{text} dtype={dtype}"
    )
    random = np.random.default_rng(3)
    operands = {
        name: random.integers(-9, 10, shape).astype(numpy_dtype(dtype))
        for name, shape in problem.operand_shapes.items()
    }
    truth = compute_truth(problem, operands).values
    assert truth.shape == problem.out_shape
    assert np.array_equal(truth, plain(problem, operands))


@pytest.mark.parametrize("text", DIRECT)
def test_usual_products_are_summed_where_they_lie(text):
    plan, lowering = plan_problem(parse_problem_text(text))
    assert lowering is None
    assert plan.count_gaps() == 0


@pytest.mark.parametrize("text", BY_CONVOLUTION)
def test_batches_inside_each_other_go_by_way_of_a_convolution(text):
    plan, lowering = plan_problem(parse_problem_text(text))
    assert lowering is not None
    assert plan.count_gaps() == 0


def test_a_convolution_has_no_plan_of_a_product():
    assert plan_product(parse_problem_text("conv1d x=1x2x5 w=3x2x1")) is None
