"""Values in the middle between two codes: an engine's own division decides, and the way its result shows is found."""

import math
from fractions import Fraction

import numpy as np
import pytest

from naive_convolution import by_row, observe, predict
from samebits.mechanisms.quantised.quantized import list_quantized_hypotheses
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

PROBLEM = parse_problem_text("conv1d x=8x16x1 w=4x16x1")
LARGEST, CODES = 244, 127


def round_to_even(value):
    return round(value)


def round_up(value):
    return math.floor(value + Fraction(1, 2))


def round_down(value):
    return math.ceil(value - Fraction(1, 2))


@pytest.mark.parametrize("round_tie", [round_to_even, round_up, round_down])
def test_values_between_two_codes_are_read_as_the_result_has_them(round_tie):
    """122 is 63.5 steps of 244 / 127."""
    operands = make_normal(PROBLEM)
    values = np.random.default_rng(5).choice([3, 50, 122, 200, LARGEST], operands["x"].shape)
    values[0, 0, 0] = LARGEST
    operands["x"] = values.astype(np.float32)
    codes = [round_tie(Fraction(int(v) * CODES, LARGEST)) for v in values.ravel()]
    kept = np.reshape(codes, (8, 16)) * LARGEST / CODES
    result = (kept @ operands["w"][:, :, 0].T.astype(np.float64)).astype(np.float32)[:, :, None]
    hypothesis = next(
        h for h in list_quantized_hypotheses(PROBLEM) if h.says == "multiplies x as stored in 8 bits with one step"
    )
    predicted = predict(hypothesis, observe(PROBLEM, operands, result))
    assert np.abs(predicted - by_row(PROBLEM, result)).max() <= 2.0**-20 * np.abs(result).max()
