"""Results printed with few digits, or kept in blocks that share an exponent; and controls."""

import numpy as np
import pytest

from cases_by_hand import convolve, explain, make

# Left out of `make quick`.
pytestmark = pytest.mark.slow

TEXT = "conv2d x=1x16x12x12 w=64x16x3x3"


def print_digits(result, digits):
    return np.array([float(f"{v:.{digits - 1}e}") for v in result.reshape(-1)], np.float32).reshape(result.shape)


def share_exponents(result, count, bits):
    blocks = result.astype(np.float64).reshape(1, -1, count, *result.shape[2:])
    _, exponent = np.frexp(np.abs(blocks).max(axis=2, keepdims=True))
    step = np.ldexp(1.0, exponent - bits)
    most = 2**bits - 1
    return (np.clip(np.rint(blocks / step), -most, most) * step).reshape(result.shape).astype(np.float32)


@pytest.mark.parametrize("digits", [3, 4])
def test_results_of_few_digits_are_named(digits):
    operands, _ = make(TEXT, 1)
    side = explain(TEXT, operands, print_digits(convolve(operands["x"], operands["w"]), digits))
    assert (side.verdict, side.cause) == ("downgrade", "result-rounding")
    assert side.says == f"stores its result with {digits} significant decimal digits"


@pytest.mark.parametrize(("count", "bits"), [(16, 7), (32, 7), (32, 10)])
def test_shared_exponents_are_named(count, bits):
    operands, _ = make(TEXT, 2)
    side = explain(TEXT, operands, share_exponents(convolve(operands["x"], operands["w"]), count, bits))
    assert (side.verdict, side.cause) == ("downgrade", "result-rounding")
    what = f"numbers of {bits} bits and a sign that share an exponent in blocks of {count} channels"
    assert side.says == f"stores its result as {what}"


def test_nine_digits_lose_nothing():
    operands, _ = make(TEXT, 3)
    result = convolve(operands["x"], operands["w"])
    side = explain(TEXT, operands, print_digits(result, 9))
    assert side.verdict in ("identical", "rounding")


def test_digits_do_not_hide_another_function():
    operands, _ = make(TEXT, 4)
    result = convolve(operands["x"], operands["w"])
    result[0, 5] *= np.float32(1.5)
    side = explain(TEXT, operands, print_digits(result, 4))
    assert side.verdict in ("wrong", "undecided")
    assert side.cause != "result-rounding"
