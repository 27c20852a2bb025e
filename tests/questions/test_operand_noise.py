"""Operands that were off in ways that nobody lists: codebooks, other checkpoints, few ranks; and controls."""

import numpy as np
import pytest

import plain_sums as plain
import plain_transforms as transforms
from cases_by_hand import convolve, explain, make
from samebits.problems import parse_problem_text
from variant_making import Making

# Left out of `make quick`.
pytestmark = pytest.mark.slow

TEXT = "conv2d x=1x32x12x12 w=48x32x3x3"


def choose_codes(values, count):
    """A codebook of so many values, each the mean of what is nearest to it (Lloyd's iterations)."""
    flat = values.reshape(-1).astype(np.float64)
    book = np.quantile(flat, (np.arange(count) + 0.5) / count)
    for _ in range(10):
        nearest = np.abs(flat[:, None] - book).argmin(axis=1)
        book = np.array([flat[nearest == i].mean() for i in range(count)])
    return book[nearest].reshape(values.shape)


@pytest.mark.parametrize("seed", [1, 2])
def test_weights_of_a_codebook_are_told_by_their_errors(seed):
    operands, _ = make(TEXT, seed)
    side = explain(TEXT, operands, convolve(operands["x"], choose_codes(operands["w"], 16)))
    assert (side.verdict, side.certainty, side.cause) == ("downgrade", "statistics", "quantized-operands")
    assert side.says.startswith("multiplies w that is off by about 0.1")


@pytest.mark.parametrize("seed", [3, 4])
def test_inputs_that_are_off_are_told_from_weights(seed):
    text = "conv2d x=1x32x12x12 w=96x32x3x3"
    operands, _ = make(text, seed)
    side = explain(text, operands, convolve(choose_codes(operands["x"], 32), operands["w"]))
    assert side.verdict == "downgrade"
    assert side.says.startswith("multiplies x that is off by about 0.0")


@pytest.mark.parametrize("bits", [9.5, 6.5])
def test_operands_that_are_off_by_less_than_few_bits_leave_are_not_called_quantised(bits):
    operands, rng = make(TEXT, 11)
    off = rng.uniform(-1, 1, operands["w"].shape) * 2.0**-bits
    side = explain(TEXT, operands, convolve(operands["x"], (operands["w"] * (1 + off)).astype(np.float32)))
    assert (side.verdict, side.cause) == ("undecided", "other-operands")


def test_weights_of_few_ranks_are_others():
    text = "linear x=32x384 w=256x384"
    operands, _ = make(text, 5)
    left, values, right = np.linalg.svd(operands["w"].astype(np.float64), full_matrices=False)
    low = (left[:, :120] * values[:120]) @ right[:120]
    side = explain(text, operands, (operands["x"] @ low.T).astype(np.float32))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")


def test_weights_in_few_values_on_record_are_not_blamed():
    operands, _ = make(TEXT, 6)
    result = convolve(operands["x"], operands["w"])
    side = explain(TEXT, operands | {"w": choose_codes(operands["w"], 64).astype(np.float32)}, result)
    assert (side.verdict, side.cause) == ("undecided", "other-operands")


@pytest.mark.parametrize("seed", [7, 8])
def test_errors_of_a_transform_are_not_taken_for_those_of_weights(seed):
    text = "conv2d x=1x24x18x18 w=16x24x3x3 padding=1"
    operands, rng = make(text, seed)
    operands["w"] = operands["w"].astype(np.float16).astype(np.float32)
    result = transforms.winograd(2, plain.f16)(Making(parse_problem_text(text), operands, rng))
    assert explain(text, operands, result.astype(np.float32)).cause == "winograd"


@pytest.mark.parametrize("seed", [9, 10])
def test_weights_that_were_rounded_for_the_record_are_told_by_the_weights_that_would_do(seed):
    text = "conv2d x=2x8x24x24 w=8x8x3x3"
    operands, _ = make(text, seed)
    result = convolve(operands["x"], operands["w"])
    short = operands["w"].astype(np.float16).astype(np.float32)
    side = explain(text, operands | {"w": short}, result)
    assert (side.verdict, side.cause) == ("undecided", "other-operands")
    assert side.says.startswith("multiplies w with more digits than on record")
