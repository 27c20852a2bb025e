"""Sums of integer products in 16 bits: pairs that saturate, sums that wrap around; and controls."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from cases_by_hand import convolve, explain

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


@pytest.mark.slow
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


def store_symmetric(values):
    """Codes of a tensor from its own range, and what an unsigned byte adds to them; their step."""
    step = np.abs(values).max() / 127
    return np.rint(values / step), 128, step


def store_from_zero_point(values):
    step = (max(values.max(), 0) - min(values.min(), 0)) / 255
    zero = np.rint(-min(values.min(), 0) / step)
    return np.clip(np.rint(values / step) + zero, 0, 255) - zero, zero, step


def multiply_stored(x, codes, store, *, saturates):
    """As a dynamically quantised linear layer of plain NumPy: x is stored in 8 bits on the way, pairs are added."""
    stored, shift, step = store(x.astype(np.float64))
    products = (stored + shift)[:, None, :] * codes[None]
    pairs = products.reshape(len(x), len(codes), -1, 2).sum(axis=-1)
    sums = (np.clip(pairs, -32768, 32767) if saturates else pairs).sum(axis=-1) - shift * codes.sum(axis=1)
    return (sums * step).astype(np.float32)


def draw_layer(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((64, 32)).astype(np.float32)
    return x, np.clip(np.rint(rng.normal(scale=70, size=(16, 32))), -127, 127)


LAYER = "linear x=64x32 w=16x32"


@pytest.mark.parametrize("store", [store_symmetric, store_from_zero_point])
@pytest.mark.parametrize("seed", [5, 6])
def test_pairs_that_saturate_are_named_where_inputs_are_stored_on_the_way(store, seed):
    x, codes = draw_layer(seed)
    result = multiply_stored(x, codes, store, saturates=True)
    side = explain(LAYER, {"x": x, "w": codes.astype(np.float32)}, result)
    assert (side.verdict, side.cause) == ("wrong", "int8-saturation")
    assert "x as stored in 8 bits" in side.says


@pytest.mark.parametrize("store", [store_symmetric, store_from_zero_point])
def test_inputs_stored_on_the_way_are_no_saturation(store):
    x, codes = draw_layer(7)
    result = multiply_stored(x, codes, store, saturates=False)
    side = explain(LAYER, {"x": x, "w": codes.astype(np.float32)}, result)
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_may_be_stored_on_the_way_too(per_channel):
    x, codes = draw_layer(8)
    w = (codes * 0.01 + np.random.default_rng(9).uniform(-0.004, 0.004, codes.shape)).astype(np.float32)
    largest = np.abs(w.astype(np.float64)).max(axis=1, keepdims=True)
    steps = (largest if per_channel else np.full_like(largest, largest.max())) / 127
    sums = multiply_stored(x, np.rint(w / steps), store_symmetric, saturates=True)
    side = explain(LAYER, {"x": x, "w": w}, (sums.astype(np.float64) * steps[:, 0]).astype(np.float32))
    assert (side.verdict, side.cause) == ("wrong", "int8-saturation")
    assert ("a step per channel" if per_channel else "one step") in side.says
