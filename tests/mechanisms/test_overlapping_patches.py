"""Transposed convolutions whose patches are stored, not added, in loops over taps and over places."""

import itertools

import numpy as np
import pytest

from cases_by_hand import explain, make


def scatter(x, w, stride, order, *, add):
    """Patches written tap by tap, or place by place, one after the other."""
    n, _, height, width = x.shape
    reach = w.shape[2]
    result = np.zeros((n, w.shape[1], (height - 1) * stride + reach, (width - 1) * stride + reach), np.float32)
    taps = list(itertools.product(range(reach), repeat=2))
    places = list(itertools.product(range(height), range(width)))
    pairs = [(t, p) for t in taps for p in places] if order == "taps" else [(t, p) for p in places for t in taps]
    for (i, j), (row, column) in pairs:
        value = x[:, :, row, column] @ w[:, :, i, j]
        at = (slice(None), slice(None), row * stride + i, column * stride + j)
        result[at] = result[at] + value if add else value
    return result


@pytest.mark.parametrize(("order", "which"), [("taps", "last"), ("places", "first")])
def test_patches_that_replace_each_other_are_named(order, which):
    text = "conv_transpose2d x=1x6x7x7 w=6x8x3x3 stride=2"
    operands, _ = make(text, 1)
    side = explain(text, operands, scatter(operands["x"], operands["w"], 2, order, add=False))
    assert (side.verdict, side.cause) == ("wrong", "transposed-geometry")
    assert f"the {which} tap is left" in side.says


@pytest.mark.parametrize("order", ["taps", "places"])
def test_patches_that_are_added_are_sound(order):
    text = "conv_transpose2d x=1x6x7x7 w=6x8x3x3 stride=2"
    operands, _ = make(text, 2)
    assert explain(text, operands, scatter(operands["x"], operands["w"], 2, order, add=True)).verdict == "rounding"
