"""Windows of zeros, as behind a relu: all sums over them are +0, but for weights that are infinite or NaN."""

import numpy as np
import pytest

from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.sums.truth import compute_truth

DTYPES = ["float32", "float16", "bfloat16", "float64"]


def draw(problem, seed):
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(s).astype(numpy_dtype(problem.dtype)) for n, s in problem.operand_shapes.items()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "text",
    [
        "conv2d x=2x6x9x9 w=20x6x3x3 padding=1",
        "conv2d x=2x6x9x9 w=20x6x3x3 bias stride=2",
        "conv2d.grad_weight x=4x8x5x5 w=20x8x3x3 padding=1",
        "conv_transpose2d x=2x6x5x5 w=6x20x3x3 stride=2",
        "linear x=9x40 w=30x40",
    ],
)
def test_sums_over_nothing_but_zeros_are_zero_or_the_bias(text, dtype):
    problem = parse_problem_text(f"{text} dtype={dtype}")
    operands = draw(problem, 1)
    x = operands["x"]
    x[...] = np.where(x > 0, x, np.float32(-0.0))
    # Whole channels, or all of a row of features, and parts of others.
    if problem.product:
        x[::2] = 0
    else:
        x[:, ::2] = 0
        x[1, :, :5] = -0.0
    found = compute_truth(problem, operands).values
    # By themselves: the sums over the terms that are not zero, in float64 of integers scaled up, which is exact enough
    # to say where they are zero: nowhere else may there be one.
    wide = parse_problem_text(f"{text} dtype=float64")
    reached = compute_truth(wide, {n: np.abs(a.astype(np.float64)) for n, a in operands.items()}).values
    empty = reached == 0
    assert empty.any() or problem.bias
    assert (found[empty].astype(np.float64) == 0).all()
    assert not np.signbit(found[empty].astype(np.float64)).any()
    # Whatever stands beside them, and however many: one at a time they come out the same.
    if problem.direction == "forward" and problem.product is None:
        alone = [
            compute_truth(
                parse_problem_text(f"{text.replace('x=2x', 'x=1x')} dtype={dtype}"), {**operands, "x": x[i : i + 1]}
            ).values
            for i in (0, 1)
        ]
        np.testing.assert_array_equal(np.concatenate(alone).astype(np.float64), found.astype(np.float64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_zero_times_infinity_is_none(dtype, odd):
    problem = parse_problem_text(f"conv1d x=1x4x12 w=20x4x3 dtype={dtype}")
    operands = draw(problem, 2)
    operands["x"][...] = 0
    operands["w"][7, 2, 1] = odd
    found = compute_truth(problem, operands).values.astype(np.float64)
    assert np.isnan(found[:, 7]).all()
    assert (np.delete(found, 7, axis=1) == 0).all()


def test_zeros_that_come_of_cancelling_are_looked_at_one_by_one():
    """Sums that float64 loses: 2^60 + 1 - 2^60 over a window that is not empty, beside one that is."""
    problem = parse_problem_text("conv1d x=2x3x1 w=3x3x1 dtype=float32")
    x = np.array([[[2.0**30], [1.0], [2.0**30]], [[0.0], [-0.0], [0.0]]], np.float32)
    w = np.array([[[2.0**30], [2.0**-30], [-(2.0**30)]], [[1.0], [0.0], [-1.0]], [[0.0], [0.0], [0.0]]], np.float32)
    found = compute_truth(problem, {"x": x, "w": w}).values
    np.testing.assert_array_equal(found[0, :, 0], np.array([2.0**-30, 0, 0], np.float32))
    np.testing.assert_array_equal(found[1, :, 0], np.zeros(3, np.float32))
    assert not np.signbit(found).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [40, 3000])
def test_where_one_operand_is_zero_the_other_need_not_be(dtype, length):
    """Gradients are zero where a relu was, and so are activations, elsewhere. 3000 terms are more than are listed."""
    problem = parse_problem_text(f"conv1d.grad_weight x=1x3x{length} w=20x3x1 dtype={dtype}")
    operands = draw(problem, 5)
    x, dy = operands["x"], operands["dy"]
    even = np.arange(length) % 2 == 0
    x[:, 0, even], x[:, 1, ~even] = 0, -0.0
    dy[:, :10, ~even], dy[:, 10:, even] = 0, -0.0
    # Rows without a number reach every sum, and only theirs.
    dy[0, 3, 4] = np.nan
    found = compute_truth(problem, operands).values[..., 0].astype(np.float64)
    plain = np.delete(np.arange(20), 3)
    expected = np.zeros((20, 3), bool)
    expected[:10, 0] = expected[10:, 1] = True
    assert np.isnan(found[3]).all()
    assert ((found == 0) == expected)[plain].all()
    assert not np.signbit(found[plain][expected[plain]]).any()


@pytest.mark.parametrize(
    ("text", "bias"),
    [
        ("conv_transpose2d x=1x3x1x1 w=3x2x1x1 bias stride=2 padding=1:0x0:0 output_padding=1x0", (1.5, -2.0)),
        ("conv_transpose1d x=2x3x1 w=3x2x1 bias stride=3 padding=2:0 output_padding=2", (1.5, -2.0)),
        ("conv_transpose1d.grad_weight x=2x3x1 w=3x2x1 stride=3 padding=2:0 output_padding=2", None),
    ],
)
def test_where_every_product_is_cropped_away_the_bias_is_left(text, bias):
    problem = parse_problem_text(text)
    operands = draw(problem, 1)
    if bias:
        operands["bias"] = np.array(bias, np.float32)
    expected = np.broadcast_to(
        np.reshape(bias or 0.0, (1, -1, *(1,) * problem.rank)) if bias else np.float32(0), problem.out_shape
    )
    assert np.array_equal(compute_truth(problem, operands).values, expected)
