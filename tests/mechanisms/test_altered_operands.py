"""Operands that became others before they were multiplied, made in plain NumPy; each beside a sound control."""

import ml_dtypes
import numpy as np
import pytest

from cases_by_hand import convolve, explain, make

# Left out of `make quick`.
pytestmark = pytest.mark.slow


def brain(values):
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def cut(values):
    """The upper 16 bits of a float32 number."""
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize(
    ("name", "activate"),
    [
        ("relu", lambda a: np.maximum(a, 0)),
        ("silu (swish)", lambda a: a / (1 + np.exp(-a))),
        ("clip to 0 ... 6", lambda a: np.clip(a, 0, 6)),
    ],
)
def test_inputs_that_an_activation_changed_in_place_are_named(name, activate):
    text = "conv2d x=2x8x12x12 w=12x8x3x3 bias"
    operands, _ = make(text, 1)
    operands["x"] *= 4
    x = activate(operands["x"]).astype(np.float32)
    side = explain(text, operands, convolve(x, operands["w"]) + operands["bias"].reshape(1, -1, 1, 1))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")
    assert side.says.startswith(f"multiplies x behind an activation ({name})")


@pytest.mark.parametrize("scale", [1, 6000])
def test_conversions_that_saturate_are_named_where_values_are_beyond_the_format(scale):
    text = "conv2d x=1x8x14x14 w=12x8x3x3"
    operands, _ = make(text, 2)
    operands["x"] *= np.float32(scale)
    operands["x"][0, 0, :4, 0] = 20.0 * scale  # Beyond 65,504 only if scaled.
    x = np.clip(operands["x"], -65504, 65504).astype(np.float16).astype(np.float32)
    side = explain(text, operands, convolve(x, operands["w"]))
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert ("its largest number" in side.says) == (scale > 1)


@pytest.mark.parametrize(("count", "head"), [(100, 96), (70, 64), (37, 32)])
def test_products_of_whole_tiles_that_are_rounded_beside_a_remainder_that_is_not(count, head):
    text = f"linear x=24x{count} w=48x{count} bias"
    operands, _ = make(text, 3)
    x, w = (operands[n].copy() for n in "xw")
    x[:, :head], w[:, :head] = brain(x[:, :head]), brain(w[:, :head])
    side = explain(text, operands, x @ w.T + operands["bias"])
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert side.says.startswith(f"rounds the first {head} of {count} products to bfloat16")


@pytest.mark.parametrize("whole", [False, True])
def test_parts_that_are_cut_and_not_rounded_are_told_from_those_that_are_rounded(whole):
    text = "conv2d x=2x6x12x12 w=8x6x3x3"
    operands, _ = make(text, 4)
    high = {n: cut(a) for n, a in operands.items()}
    low = {n: cut(operands[n] - high[n]) for n in operands}
    result = convolve(high["x"], high["w"]) + convolve(high["x"], low["w"]) + convolve(low["x"], high["w"])
    if whole:
        result = convolve(operands["x"], operands["w"])
    side = explain(text, operands, result)
    if whole:
        assert side.verdict == "rounding"
    else:
        assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
        assert "two parts each that bfloat16 is cut to, without" in side.says


@pytest.mark.parametrize(
    ("text", "count"), [("conv2d x=1x12x9x9 w=16x12x3x3 bias", 12), ("conv2d x=2x5x8x8 w=8x5x3x3", 5)]
)
def test_input_channels_in_another_sequence_are_solved_for(text, count):
    operands, rng = make(text, 5)
    operands["x"] = np.maximum(operands["x"], 0)
    order = np.roll(rng.permutation(count), 1)
    bias = operands["bias"].reshape(1, -1, 1, 1) if "bias" in operands else 0
    side = explain(text, operands, convolve(operands["x"][:, order], operands["w"]) + bias)
    moved = [i for i in range(count) if order[i] != i]
    assert (side.verdict, side.cause) == ("wrong", "axis-order")
    assert side.says == (
        f"takes {len(moved)} of {count} input channels of x in another sequence"
        f" (input channel {order[moved[0]]} stands in place of {moved[0]})"
    )


def test_other_channels_are_no_sequence_of_the_recorded():
    text = "conv2d x=1x12x9x9 w=16x12x3x3"
    operands, rng = make(text, 6)
    other = rng.normal(size=operands["x"].shape).astype(np.float32)
    side = explain(text, operands, convolve(other, operands["w"]))
    assert side.verdict == "wrong"
    assert "sequence (input" not in side.says


@pytest.mark.parametrize("size", [1e-150, 1e-100, 1e78, 1e150])
def test_numbers_whose_squares_are_none_are_fitted_without_warnings(size):
    text = "conv2d x=2x8x10x10 w=12x8x3x3 dtype=float64"
    operands, rng = make(text, 7)
    operands = {n: a.astype(np.float64) * size for n, a in operands.items()}
    exact = convolve(operands["x"] / size, operands["w"] / size).astype(np.float64) * size * size
    side = explain(text, operands, exact * (1 + 1e-3 * rng.normal(size=exact.shape)))
    assert side.verdict in ("undecided", "downgrade", "wrong")
