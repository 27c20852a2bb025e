"""Products and operands in fixed point, made in plain NumPy, and controls whose numbers are short by themselves."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from cases_by_hand import convolve, explain, make

TEXT = "conv2d x=1x12x16x16 w=16x12x3x3"


def multiply(x, w):
    windows = sliding_window_view(x[0].astype(np.float64), (3, 3), axis=(1, 2))
    return np.einsum("cijyx,mcyx->mijcyx", windows, w.astype(np.float64))


@pytest.mark.parametrize(("how", "keep"), [("rounded down", np.floor), ("rounded", np.rint), ("truncated", np.trunc)])
def test_products_in_fixed_point_are_named(how, keep):
    operands, _ = make(TEXT, 1)
    sums = (keep(multiply(operands["x"], operands["w"]) * 2**12) / 2**12).sum(axis=(3, 4, 5))
    side = explain(TEXT, operands, sums[None].astype(np.float32))
    assert (side.verdict, side.cause) == ("downgrade", "low-precision-accumulator")
    assert side.says.startswith(f"keeps products in fixed point with 12 fractional bits, {how}")


@pytest.mark.parametrize("bits", [(6, 8), (8, 6)])
def test_operands_in_fixed_point_are_named(bits):
    operands, _ = make(TEXT, 2)
    x, w = (np.rint(operands[n].astype(np.float64) * 2.0**b) / 2.0**b for n, b in zip("xw", bits, strict=True))
    side = explain(TEXT, operands, convolve(x, w))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")
    assert f"rounds x to {bits[0]} and w to {bits[1]} fractional bits" in side.says


def test_operands_that_are_short_on_record_are_sound():
    operands, _ = make(TEXT, 3)
    short = {n: (np.rint(a * 2**7) / 2**7).astype(np.float32) for n, a in operands.items()}
    assert explain(TEXT, short, convolve(short["x"], short["w"])).verdict in ("identical", "rounding")
