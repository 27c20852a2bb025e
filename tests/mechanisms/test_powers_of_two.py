"""Weights and steps that are powers of two, as units that shift have them; results that end where float16 does."""

import numpy as np
import pytest

from cases_by_hand import convolve, explain, make

TEXT = "conv2d x=1x24x14x14 w=32x24x3x3"


@pytest.mark.parametrize("how", ["the nearest", "in their logarithm"])
def test_weights_that_are_shifts_are_named(how):
    operands, _ = make(TEXT, 1)
    w = operands["w"].astype(np.float64)
    low = 2.0 ** np.floor(np.log2(np.abs(w)))
    if how == "the nearest":
        kept = np.where(np.abs(w) - low < 2 * low - np.abs(w), low, 2 * low)
    else:
        kept = 2.0 ** np.rint(np.log2(np.abs(w)))
    side = explain(TEXT, operands, convolve(operands["x"], np.sign(w) * kept))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")
    assert side.says == f"multiplies w as stored as powers of two, {how}"


def test_steps_that_are_powers_of_two_are_named():
    operands, _ = make(TEXT, 2)
    operands["w"] *= np.geomspace(0.05, 2, 32, dtype=np.float32)[:, None, None, None]
    x, w = (operands[n].astype(np.float64) for n in "xw")
    step = 2.0 ** np.ceil(np.log2(np.abs(x).max() / 127))
    steps = 2.0 ** np.ceil(np.log2(np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127))
    side = explain(TEXT, operands, convolve(np.rint(x / step) * step, np.rint(w / steps) * steps))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")
    assert side.says.count("a power of two") == 2


def test_sums_of_weights_that_are_powers_of_two_on_record_are_sound():
    operands, _ = make(TEXT, 3)
    operands["w"] = (np.sign(operands["w"]) * 2.0 ** np.floor(np.log2(np.abs(operands["w"])))).astype(np.float32)
    result = convolve(operands["x"], operands["w"])
    assert explain(TEXT, operands, result).verdict in ("identical", "rounding")


def test_results_that_end_where_float16_does_are_named():
    operands, _ = make(TEXT, 4)
    operands["x"] *= np.float32(4000)
    result = convolve(operands["x"], operands["w"])
    assert (np.abs(result) > 65504).mean() > 0.05
    side = explain(TEXT, operands, np.clip(result, -65504, 65504))
    assert (side.verdict, side.cause) == ("downgrade", "overflow")
    assert explain(TEXT, operands, result).verdict in ("identical", "rounding")
