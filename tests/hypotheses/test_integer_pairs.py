"""Sums of integer products in 16 bits, residuals, biases in 8 bits, clips that hide nearly all; and controls."""

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from cases_by_hand import convolve, explain, make

TEXT = "conv2d x=1x16x12x12 w=8x16x3x3"


def draw_codes(seed):
    """Codes as an 8-bit network has them, with the steps that make numbers of them."""
    rng = np.random.default_rng(seed)
    x = np.minimum(np.abs(rng.normal(scale=90, size=(1, 16, 12, 12))).astype(np.int64), 255)
    w = np.clip(np.rint(rng.normal(scale=60, size=(8, 16, 3, 3))), -127, 127).astype(np.int64)
    return x, w, np.float32(0.0173), rng.uniform(0.001, 0.01, 8).astype(np.float32)


def multiply_codes(x, w):
    """Integer products, [filter, row, column, channel, tap row, tap column]."""
    windows = sliding_window_view(x[0], (3, 3), axis=(1, 2))
    return np.einsum("cijyx,mcyx->mijcyx", windows, w)


def read_back(x, w, step, steps):
    own = {"x": (x * np.float64(step)).astype(np.float32)}
    own["w"] = (w * steps.astype(np.float64)[:, None, None, None]).astype(np.float32)
    return own


def finish(sums, step, steps):
    return (sums * (np.float64(step) * steps.astype(np.float64))[:, None, None])[None].astype(np.float32)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("channels_fastest", [True, False])
def test_pairs_that_saturate_are_named(seed, channels_fastest):
    x, w, step, steps = draw_codes(seed)
    products = multiply_codes(x, w)
    if channels_fastest:
        products = np.moveaxis(products, 3, 5)
    flat = products.reshape(*products.shape[:3], -1, 2)
    sums = np.clip(flat.sum(axis=-1), -32768, 32767).sum(axis=-1)
    side = explain(TEXT, read_back(x, w, step, steps), finish(sums, step, steps))
    assert (side.verdict, side.cause) == ("wrong", "int8-saturation")
    assert ("channels fastest" if channels_fastest else "taps fastest") in side.says


def test_sums_that_wrap_around_are_named():
    x, w, step, steps = draw_codes(3)
    sums = multiply_codes(x, w).sum(axis=(3, 4, 5)).astype(np.int16)
    side = explain(TEXT, read_back(x, w, step, steps), finish(sums.astype(np.int64), step, steps))
    assert (side.cause, "wrap around" in side.says) == ("overflow", True)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whole_integer_sums_are_sound(seed):
    x, w, step, steps = draw_codes(seed)
    sums = multiply_codes(x, w).sum(axis=(3, 4, 5))
    side = explain(TEXT, read_back(x, w, step, steps), finish(sums, step, steps))
    assert side.verdict in ("identical", "rounding")


def test_integer_products_too_small_to_saturate_are_sound():
    x, w, step, steps = draw_codes(4)
    operands = read_back(x // 8, w // 8, step, steps)
    assert explain(TEXT, operands, convolve(operands["x"], operands["w"])).verdict in ("identical", "rounding")


@pytest.mark.parametrize("late", [False, True])
def test_a_residual_is_named(late):
    operands, _ = make("conv2d x=2x6x9x9 w=6x6x1x1 then=relu", 5)
    sums = convolve(operands["x"], operands["w"])
    result = np.maximum(sums, 0) + operands["x"] if late else np.maximum(sums + operands["x"], 0)
    side = explain("conv2d x=2x6x9x9 w=6x6x1x1 then=relu", operands, result)
    assert (side.verdict, side.cause, "residual" in side.says) == ("wrong", "fusion", True)


def test_a_bias_in_eight_bits_is_named():
    operands, _ = make("linear x=40x64 w=24x64 bias", 6)
    step = np.abs(operands["bias"]).max() / 127
    result = operands["x"] @ operands["w"].T + np.rint(operands["bias"] / step) * step
    side = explain("linear x=40x64 w=24x64 bias", operands, result.astype(np.float32))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")


@pytest.mark.parametrize("is_faulty", [True, False])
def test_a_clip_that_hides_nearly_all_hides_no_fault(is_faulty):
    text = "conv2d x=1x24x18x18 w=24x1x3x3 bias groups=24 then=clip(0,6)"
    operands, rng = make(text, 7)
    operands["x"] = rng.integers(0, 256, operands["x"].shape).astype(np.float32)
    operands["w"] *= np.float32(0.3)
    seen = sliding_window_view(operands["x"][0], (3, 3), axis=(1, 2))
    own = operands["w"][:, 0] * (1 - np.pad([[1.0]], ((2, 0), (2, 0)))) if is_faulty else operands["w"][:, 0]
    sums = np.einsum("cijyx,cyx->cij", seen, own.astype(np.float32)) + operands["bias"][:, None, None]
    result = np.clip(sums, 0, 6)[None].astype(np.float32)
    assert 40 < ((result > 0) & (result < 6)).sum() < result.size / 16
    side = explain(text, operands, result)
    assert side.verdict in (("wrong",) if is_faulty else ("identical", "rounding"))


def test_activations_in_eight_bits_for_each_item_are_named():
    text = "conv2d x=4x12x10x10 w=16x12x3x3"
    operands, _ = make(text, 8)
    x = np.maximum(operands["x"], 0) * np.float32([1, 2, 3, 5])[:, None, None, None]
    operands["x"] = x
    steps = x.max(axis=(1, 2, 3), keepdims=True) / np.float32(255)
    side = explain(text, operands, convolve(np.rint(x / steps) * steps, operands["w"]))
    assert (side.verdict, side.cause, "batch item" in side.says) == ("downgrade", "quantized-operands", True)


def test_operands_with_shared_exponents_are_named():
    text = "conv2d x=2x64x8x8 w=16x64x3x3"
    operands, _ = make(text, 9)

    def share(array):
        blocks = np.moveaxis(array, 1, -1).reshape(-1, 32).astype(np.float64)
        scale = 2.0 ** (np.floor(np.log2(np.abs(blocks).max(axis=1, keepdims=True))) - 8)
        kept = np.clip(blocks / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
        moved = np.moveaxis(array, 1, -1).shape
        return np.moveaxis(kept.reshape(moved), -1, 1).astype(np.float32)

    side = explain(text, operands, convolve(share(operands["x"]), share(operands["w"])))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")
    assert "32 channels" in side.says


@pytest.mark.parametrize("is_faulty", [True, False])
def test_subnormal_weights_alone_taken_for_zero(is_faulty):
    text = "conv2d x=2x24x9x9 w=16x24x1x1 dtype=float16"
    operands, _ = make(text, 10)
    x, w = operands["x"].astype(np.float16), (operands["w"] * 6e-5).astype(np.float16)
    own = np.where(np.abs(w) < 2.0**-14, 0, w) if is_faulty else w
    result = convolve(x.astype(np.float32), own.astype(np.float32)).astype(np.float16)
    side = explain(text, {"x": x, "w": w}, result)
    if is_faulty:
        assert (side.verdict, side.cause) == ("downgrade", "subnormals")
    else:
        assert side.verdict in ("identical", "rounding")
