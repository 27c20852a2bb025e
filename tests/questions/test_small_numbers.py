"""Subnormal numbers taken for zero: recognised by the zeros, or by errors no larger than losing them can cause."""

import numpy as np
import pytest

import samebits
from hand_made import observe
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.parts.odd_values import explain_flush, explain_lost_subnormals

ROW = "conv1d x=1x1x4 w=1x1x1 dtype=float32"
# float32's smallest normal number, and a bound below all subnormal numbers used here.
LEAST, TIGHT = 2.0**-126, 2.0**-149


def mechanism(evidence):
    says = "takes subnormal numbers for zero"
    return Mechanism(CauseCode.SUBNORMALS, "downgrade", says, "bound", evidence=(Evidence("structure", evidence),))


def test_zeros_in_place_of_subnormal_results_are_told_and_counted():
    found = explain_lost_subnormals(
        observe(ROW, [LEAST / 2, -LEAST / 4, 0, TIGHT], [0, 0, 0, 0], bound=[[[LEAST / 3, LEAST / 5, TIGHT, 1]]])
    )
    assert found == mechanism("3 outputs are zero, the truth is below 1.18e-38; others are within their bound")


def test_half_numbers_have_their_own_smallest():
    half = ROW.replace("float32", "float16")
    found = explain_lost_subnormals(observe(half, [2.0**-15, 1, 1, 1], [0, 1, 1, 1], bound=2.0**-20))
    assert found == mechanism("1 outputs are zero, the truth is below 6.1e-05; others are within their bound")


@pytest.mark.parametrize(
    ("truth", "result", "bound"),
    [
        ([LEAST / 2, 1, 1, 1], [0, 1, 1, 1], LEAST),  # Within the bound nothing needs explaining.
        ([LEAST, 1, 1, 1], [0, 1, 1, 1], TIGHT),  # A normal number.
        ([LEAST / 2, 1, 1, 1], [LEAST / 4, 1, 1, 1], TIGHT),  # No zero.
        ([LEAST / 2, 1, 1, 1], [0, 2, 1, 1], TIGHT),  # More is wrong.
        ([0, 1, 1, 1], [LEAST / 2, 1, 1, 1], TIGHT),  # A number in place of a zero.
        ([1, 1, 1, 1], [1, 1, 1, 1], TIGHT),
        ([LEAST / 2, 1, 1, 1], [0, 1, 1, 1], LEAST / 2),  # Just on the bound.
    ],
)
def test_anything_else_is_no_lost_subnormal(truth, result, bound):
    assert explain_lost_subnormals(observe(ROW, truth, result, bound=bound)) is None


# Two products per sum, operands up to 3 and 5: each of two products and sums loses up to LEAST, an operand up to LEAST
# times the other: (2 * 2 + 2) + 2 * (3 + 5) = 22 of them.
PAIR = "conv1d x=1x2x3 w=1x2x1 bias dtype=float32"
MOST = 22 * LEAST


def test_no_zero_operand_is_small_and_no_true_zero_is_lost():
    zeros = {"x": np.zeros((1, 2, 3), np.float32), "w": np.full((1, 2, 1), LEAST, np.float32)}
    problem = PAIR.replace(" bias", "")
    assert explain_flush(observe(problem, [0, 1, 1], [LEAST, 1, 1], bound=TIGHT, operands=zeros)) is None
    found = flush([LEAST, 0, 1], [0, 0, 1], bound=LEAST / 1.5)
    assert found is not None
    assert found.evidence[0].says.endswith("1 are zero where the truth is not")


def flush(truth, result, *, bound=TIGHT, small=None, problem=PAIR, dtype=np.float32):
    operands = {
        "x": np.full((1, 2, 3), -3, dtype),
        "w": np.full((1, 2, 1), 5, dtype),
        "bias": np.full(1, 100, dtype),
    }
    if small is not None:
        operands[small].flat[0] = 1e-40
    return explain_flush(observe(problem, truth, result, bound=bound, operands=operands))


@pytest.mark.parametrize("small", ["x", "w", "bias"])
def test_errors_that_lost_operands_can_cause_are_a_flush(small):
    assert flush([0, 1, 1], [MOST, 1, 1], bound=2.0**-148, small=small) == mechanism(
        "1 outputs are farther from the truth than rounding can take them, but no farther than losing numbers below"
        " 1.18e-38 can; 0 are zero where the truth is not"
    )


def test_zeros_where_the_truth_is_not_are_a_flush_too():
    assert flush([MOST, 1, LEAST], [0, 1, 0]) == mechanism(
        "2 outputs are farther from the truth than rounding can take them, but no farther than losing numbers below"
        " 1.18e-38 can; 2 are zero where the truth is not"
    )


@pytest.mark.parametrize(
    ("truth", "result", "bound", "small"),
    [
        ([0, 1, 1], [MOST, 1, 1], TIGHT, None),  # Nothing small was there to lose.
        ([0, 1, 1], [MOST, 1, 1], MOST, "x"),  # Within the bound.
        ([0, 1, 1], [1.001 * MOST, 1, 1], TIGHT, "x"),  # Too much.
        ([0, 1, 1], [-1.001 * MOST, 1, 1], TIGHT, "x"),
        ([MOST, 1, 1], [0, 1.5, 1], TIGHT, None),
        ([0, 1, 1], [np.inf, 1, 1], TIGHT, "x"),
    ],
)
def test_other_errors_are_no_flush(truth, result, bound, small):
    assert flush(truth, result, bound=bound, small=small) is None


def test_the_loss_comes_on_top_of_the_bound():
    assert flush([0, 1, 1], [1.5 * MOST, 1, 1], bound=MOST / 2, small="x") is not None
    assert flush([0, 1, 1], [1.51 * MOST, 1, 1], bound=MOST / 2, small="x") is None


def test_losses_that_cannot_be_bounded_excuse_nothing():
    operands = {"x": np.full((1, 2, 3), np.inf, np.float32), "w": np.full((1, 2, 1), 1e-40, np.float32)}
    problem = PAIR.replace(" bias", "")
    assert explain_flush(observe(problem, LEAST / 2, 0.0, bound=TIGHT, operands=operands)) is None


def test_formats_with_fewer_exponents_lose_no_small_thing():
    half = PAIR.replace("float32", "float16")
    assert flush([2.0**-15, 1, 1], [0, 1, 1], bound=2.0**-24, problem=half, dtype=np.float16) is None


@pytest.mark.parametrize("is_normal", [False, True])
def test_one_channel_of_tiny_weights_is_flushed_not_part_of_another_function(is_normal, tmp_path):
    """As in a published text recogniser: a trained channel of weights about the smallest normal number."""
    draw = np.random.default_rng(5)
    x = draw.uniform(0, 3, (1, 192, 1, 1)).astype(np.float32)
    w = draw.normal(0, 0.1, (48, 192, 1, 1)).astype(np.float32)
    size = 1.0 if is_normal else LEAST
    w[42] = (w[42] * size * 8).astype(np.float32)
    read = np.where(np.abs(w) < (0.5 if is_normal else LEAST), 0, w)[42]
    y = (w.astype(float) * x[0].astype(float)).sum((1, 2, 3))
    y[42] = (read.astype(float) * x[0].astype(float)).sum()
    result = y.astype(np.float32).reshape(1, 48, 1, 1)
    problem = "conv2d x=1x192x1x1 w=48x192x1x1 dtype=float32"
    np.savez(tmp_path / "case.npz", problem=problem, x=x, w=w, a=result, name_a="engine")
    side = samebits.explain(tmp_path / "case.npz").sides[0]
    if is_normal:
        assert side.cause != "subnormals"
    else:
        assert (side.verdict, side.cause) == ("downgrade", "subnormals")
