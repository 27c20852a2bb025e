"""Explain on arrangements that cases made by others showed to be missed, and on controls that look like them."""

import ml_dtypes
import numpy as np
import pytest
import scipy.fft

from cases_by_hand import convolve, explain, make

# Left out of `make quick`.
pytestmark = pytest.mark.slow


def test_four_bits_per_sixteen_channels_are_seen_in_weights_that_are_solved_for():
    text = "conv2d x=1x64x14x14 w=24x64x1x1"
    operands, _ = make(text, 1)
    blocks = operands["w"].reshape(24, 4, 16).astype(np.float64)
    step = np.abs(blocks).max(axis=2, keepdims=True) / 7
    kept = (np.rint(blocks / step) * step).reshape(24, 64, 1, 1)
    side = explain(text, operands, convolve(operands["x"], kept))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")
    assert side.says == "multiplies w as stored in 4 bits with a step per 16 channels"


def test_sound_sums_of_weights_in_whole_steps_are_not_said_to_be_quantised():
    text = "conv2d x=1x16x20x20 w=8x16x1x1"
    operands, _ = make(text, 2)
    operands["w"] = (np.rint(operands["w"] * 20) / 32).astype(np.float32)
    side = explain(text, operands, convolve(operands["x"], operands["w"]))
    assert side.verdict in ("identical", "rounding")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("conv1d x=1x8x9000 w=4x8x3", "reads x from its beginning again after every 32,768 elements"),
        ("conv1d x=2x2x9000 w=6x2x3", "writes its result from the beginning again after every 65,536 elements"),
    ],
)
def test_an_index_that_wraps_around_is_named(text, what):
    operands, _ = make(text, 3)
    x = operands["x"]
    if what.startswith("reads"):
        x = x.reshape(-1)[np.arange(x.size) % 2**15].reshape(x.shape)
    result = convolve(x, operands["w"])
    if what.startswith("writes"):
        flat = result.reshape(-1)
        written = np.zeros_like(flat)
        for i, value in enumerate(flat):
            written[i % 2**16] = value
        result = written.reshape(result.shape)
    side = explain(text, operands, result)
    assert (side.verdict, side.certainty, side.cause) == ("wrong", "bounds", "index-overflow")
    assert side.says.startswith(what)


def fourier(x, w, keep):
    """Spectra of float32 operands, products added channel by channel and kept by `keep`."""
    shape = [scipy.fft.next_fast_len(s, real=True) for s in x.shape[2:]]
    a, b = scipy.fft.rfft2(x, shape)[:, None], np.conj(scipy.fft.rfft2(w, shape))[None]
    scale = float(np.abs(a).max() * np.abs(b).max()) / 2**10
    total = np.zeros(())
    for c in range(x.shape[1]):
        product = total + a[:, :, c] * b[:, :, c] / scale
        total = keep(product.real) + 1j * keep(product.imag)
    height, width = (n - k + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True))
    return (scipy.fft.irfft2(total * scale, shape)[:, :, :height, :width]).astype(np.float32)


def test_a_fourier_transform_that_adds_in_float16_is_seen_where_planes_have_empty_parts():
    text = "conv2d x=1x8x30x30 w=6x8x5x5"
    operands, _ = make(text, 4)
    operands["x"][:, :, 16:] = 0
    result = fourier(operands["x"], operands["w"], lambda a: a.astype(np.float16).astype(np.float64))
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "fft")
    assert side.says == "uses a Fourier transform that keeps numbers of 16 bits on the way"


def test_a_bright_spot_shows_a_sound_fourier_transform_by_the_noise_far_from_it():
    text = "conv2d x=1x3x40x40 w=6x3x7x7"
    operands, _ = make(text, 5)
    operands["x"][0, :, :2, :2] = 1e4
    result = fourier(operands["x"], operands["w"], lambda a: a.astype(np.float32).astype(np.float64))
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "fft")


@pytest.mark.parametrize("keep", ["plain", "far from zero"])
def test_sums_that_end_on_a_coarse_grid_by_themselves_are_not_said_to_be_stored_so(keep):
    """Large terms that cancel leave multiples of the spacing of the largest sum on the way."""
    text = "linear x=64x64 w=48x64"
    operands, _ = make(text, 6)
    if keep == "far from zero":
        operands["x"][:, ::2] += 4096
        operands["w"][:, ::2] = 1
        operands["w"][:, ::4] = -1
    x, w = operands["x"], operands["w"]
    sums = np.zeros((64, 48), np.float32)
    for k in range(64):
        sums = sums + x[:, k : k + 1] * w[None, :, k]
    side = explain(text, operands, sums)
    assert side.verdict in ("identical", "rounding")


def test_rows_of_a_product_that_were_stored_narrower_are_named():
    text = "matmul x=96x64 w=64x96"
    operands, _ = make(text, 7)
    result = operands["x"] @ operands["w"]
    result[-4:] = result[-4:].astype(ml_dtypes.bfloat16).astype(np.float32)
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "result-rounding")
    assert side.says == "stores its result only in row from 92 on (the tail) in bfloat16"


def test_rounding_to_either_side_is_told_from_rounding_to_the_nearest():
    text = "conv2d x=1x16x18x18 w=16x16x1x1"
    operands, rng = make(text, 8)
    result = convolve(operands["x"], operands["w"])
    nearest = result.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert explain(text, operands, nearest).says == "stores its result in bfloat16"
    low = (result.view(np.uint32) & 0xFFFF0000).view(np.float32)
    high = ((result.view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32)
    share = (result.view(np.uint32) & 0xFFFF) / 2**16
    either = np.where(rng.random(result.shape) < share, high, low)
    side = explain(text, operands, either)
    assert (side.verdict, side.cause) == ("downgrade", "result-rounding")
    assert side.says == "stores its result in bfloat16, rounded to either side as stochastic rounding does"


def test_a_half_result_that_gets_its_bias_late_says_so():
    text = "conv2d x=1x16x9x9 w=8x16x1x1 bias dtype=float16"
    operands = {n: a.astype(np.float16) for n, a in make(text, 9)[0].items()}
    sums = np.zeros((1, 8, 9, 9), np.float32)
    for c in range(16):
        sums = sums + operands["x"][:, c : c + 1].astype(np.float32) * operands["w"][None, :, c].astype(np.float32)
    sums = sums.astype(np.float16)
    side = explain(text, operands, sums + operands["bias"].reshape(1, -1, 1, 1))
    assert (side.verdict, side.cause_certainty) == ("rounding", "bits")
    assert side.says.endswith("rounds the sum to float16 and adds the bias to that")


def test_weights_of_a_codebook_are_not_called_another_function():
    """Four bits that no hypothesis has: blocks of a random length, codes of e2m1."""
    text = "conv2d x=1x24x12x12 w=16x24x3x3"
    operands, _ = make(text, 10)
    codes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]) / 6
    flat = operands["w"].reshape(-1).astype(np.float64)
    for start in range(0, flat.size, 41):
        block = flat[start : start + 41]
        largest = np.abs(block).max()
        block[...] = np.sign(block) * codes[np.abs(np.abs(block)[:, None] / largest - codes).argmin(axis=1)] * largest
    side = explain(text, operands, convolve(operands["x"], flat.reshape(operands["w"].shape)))
    assert not (side.verdict == "wrong" and side.certainty == "bounds")
    assert side.cause in (None, "quantized-operands")


def test_values_that_no_operands_of_four_bits_give_are_another_function_by_bounds():
    text = "conv2d x=1x8x12x12 w=4x8x3x3"
    operands, rng = make(text, 11)
    noise = rng.normal(0, 300, convolve(operands["x"], operands["w"]).shape).astype(np.float32)
    side = explain(text, operands, noise)
    assert (side.verdict, side.certainty, side.cause) == ("wrong", "bounds", None)


def test_products_of_nan_that_zero_weights_skip_are_told():
    text = "conv2d x=1x8x14x14 w=6x8x3x3"
    operands, rng = make(text, 5)
    operands["w"][rng.random(operands["w"].shape) < 0.7] = 0
    operands["x"][0, 2, 4, 5] = np.nan
    operands["x"][0, 6, 9, 9] = np.inf
    result = np.zeros((1, 6, 12, 12), np.float64)
    for m, c, i, j in zip(*np.nonzero(operands["w"]), strict=True):
        result[0, m] += operands["w"][m, c, i, j].astype(np.float64) * operands["x"][0, c, i : i + 12, j : j + 12]
    side = explain(text, operands, result.astype(np.float32))
    assert (side.verdict, side.cause) == ("wrong", "nan-semantics")
    assert side.says.startswith("leaves out products of NaN or infinities")


def test_sums_that_overflow_when_they_are_scaled_are_told():
    text = "conv2d x=1x3x20x20 w=16x3x5x5 dtype=float16"
    operands, _ = make(text, 6)
    operands = {n: (a * np.float32(25)).astype(np.float16) for n, a in operands.items()}
    sums = convolve(operands["x"].astype(np.float32), operands["w"].astype(np.float32))
    with np.errstate(over="ignore"):
        result = (sums * np.float32(16)).astype(np.float16) / np.float16(16)
    assert 0.05 < np.isinf(result).mean() < 0.95
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "overflow")


def test_the_first_groups_channels_in_every_group_are_told():
    text = "conv2d x=1x12x14x14 w=9x4x3x3 groups=3"
    operands, _ = make(text, 7)
    side = explain(text, operands, convolve(operands["x"][:, :4], operands["w"]))
    assert (side.verdict, side.cause) == ("wrong", "dropped-attribute")
    assert side.says == "reads the first group's channels of x in every group"
