"""What kind of rounding made errors: sums in orders that no recipe has, transforms, last roundings; and controls."""

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from cases_by_hand import convolve, explain, make

# Left out of `make quick`.
pytestmark = pytest.mark.slow

# F(4,3) as Lavin and Gray print it, and F(2,5) for the points 0, 1, -1, 2, -2.
FOUR = (
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    [[1 / 4, 0, 0], [-1 / 6] * 3, [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6],
     [0, 0, 1]],
    [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
     [0, 4, 0, -5, 0, 1]],
)  # fmt: skip


def half(values):
    return values.astype(np.float16).astype(np.float64)


def images(rng, shape):
    """Smooth after a relu: neighbours are alike, as in networks."""
    noise = rng.normal(size=shape)
    for axis in (2, 3):
        noise = noise + np.roll(noise, 1, axis) + np.roll(noise, -1, axis)
    return np.maximum(noise, 0).astype(np.float32)


def winograd(x, w, keep):
    """F(4 x 4, 3 x 3) without padding, transformed operands kept by `keep`, sums in float32."""
    out, of_weights, of_data = (np.array(m, np.float64) for m in FOUR)
    patches = sliding_window_view(x.astype(np.float64), (6, 6), axis=(2, 3))[:, :, ::4, ::4]
    v = keep(np.einsum("ij,nctujk,lk->nctuil", of_data, patches, of_data))
    u = keep(np.einsum("ij,mcjk,lk->mcil", of_weights, w.astype(np.float64), of_weights))
    sums = np.einsum("mcil,nctuil->nmtuil", u, v).astype(np.float32)
    tiles = np.einsum("ai,nmtuil,bl->nmtaub", out, sums, out)
    return tiles.reshape(*tiles.shape[:2], tiles.shape[2] * 4, -1).astype(np.float32)


def in_lanes(x, w, lanes, keep):
    """Sums of taps and channels in so many lanes, each kept by `keep`, added in float32 at the end."""
    windows = sliding_window_view(x, w.shape[2:], axis=(2, 3)).astype(np.float64)
    products = np.einsum("ncijyx,mcyx->nmijcyx", windows, w.astype(np.float64))
    flat = products.reshape(*products.shape[:4], -1)
    flat = np.pad(flat, [(0, 0)] * 4 + [(0, -flat.shape[-1] % lanes)]).reshape(*flat.shape[:4], -1, lanes)
    sums = np.zeros((*flat.shape[:4], lanes))
    for k in range(flat.shape[4]):
        sums = keep(sums + flat[..., k, :])
    return sums.astype(np.float32).sum(axis=-1, dtype=np.float32)


@pytest.mark.parametrize("seed", [1, 2])
def test_half_transforms_are_named_winograd_without_a_recipe(seed):
    text = "conv2d x=1x12x18x18 w=20x12x3x3"
    operands, rng = make(text, seed)
    operands["x"] = images(rng, operands["x"].shape)
    # Uneven scales of the points, as no arrangement that is tried has them.
    uneven = np.array([1, 3, 5, 7, 11, 13]) / 4

    def keep(values):
        scale = uneven[:, None] * uneven[None]
        return half(values * scale) / scale

    side = explain(text, operands, winograd(operands["x"], operands["w"], keep))
    assert (side.verdict, side.cause, side.cause_certainty) == ("downgrade", "winograd", "statistics")


@pytest.mark.parametrize("seed", [3, 7])
def test_half_sums_in_uncommon_lanes_are_said_to_be_kept_narrow(seed):
    text = "conv2d x=1x16x12x12 w=24x16x3x3"
    operands, _ = make(text, seed)
    side = explain(text, operands, in_lanes(operands["x"], operands["w"], 3, half))
    assert (side.verdict, side.cause) == ("downgrade", "low-precision-accumulator")
    assert "in an order that was not found" in side.says
    bits = int(side.says.split("about ")[1].split(")")[0])
    assert 10 <= bits <= 12


@pytest.mark.parametrize("which", ["weights", "inputs", "largest inputs"])
def test_operands_that_are_off_are_no_narrow_sums_and_no_transform(which):
    """Steps that no scheme has: nothing is claimed, and nothing of sums or transforms."""
    text = "conv2d x=1x24x12x12 w=24x24x3x3"
    operands, rng = make(text, 4)
    x, w = operands["x"].astype(np.float64), operands["w"].astype(np.float64)
    if which == "weights":
        step = rng.uniform(0.02, 0.05, size=(24, 24, 3, 3))
        w = np.rint(w / step) * step
    elif which == "inputs":
        step = rng.uniform(0.02, 0.05, size=x.shape)
        x = np.rint(x / step) * step
    else:
        x = np.clip(x, -1.7, 1.9)
    side = explain(text, operands, convolve(x.astype(np.float32), w.astype(np.float32)))
    assert side.cause not in ("low-precision-accumulator", "winograd", "fft")


def store(sums, how, rng):
    """Sums as bfloat16, in float32; by the means of ml_dtypes alone, or of integers."""
    bits = sums.astype(np.float32).view(np.uint32)
    if how == "cut":
        kept = (bits & 0xFFFF0000).view(np.float32)
    elif how == "by chance":
        kept = ((bits + rng.integers(0, 2**16, bits.shape, dtype=np.uint32)) & 0xFFFF0000).view(np.float32)
    elif how == "twice":
        kept = sums.astype(np.float16).astype(ml_dtypes.bfloat16).astype(np.float32)
    else:
        kept = sums.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    return kept


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("cut", "truncates its result to bfloat16"),
        ("by chance", "rounds its result to bfloat16 to either side, as stochastic rounding does"),
        ("twice", "rounds its result twice, to float16 or tf32 and then to bfloat16"),
    ],
)
def test_a_last_rounding_to_a_half_that_is_not_the_declared_one_is_said(how, says):
    text = "linear x=64x96 w=80x96 dtype=bfloat16"
    operands, rng = make(text, 5)
    operands = {n: a.astype(ml_dtypes.bfloat16) for n, a in operands.items()}
    sums = operands["x"].astype(np.float64) @ operands["w"].astype(np.float64).T
    side = explain(text, operands, store(sums, how, rng).astype(ml_dtypes.bfloat16))
    assert (side.cause, side.says) == ("result-rounding", says)


@pytest.mark.parametrize("late", [False, True])
def test_sound_halves_have_no_other_last_rounding(late):
    text = "linear x=64x96 w=80x96 bias dtype=bfloat16"
    operands, rng = make(text, 6)
    operands = {n: a.astype(ml_dtypes.bfloat16) for n, a in operands.items()}
    x, w, bias = (operands[n].astype(np.float32) for n in ("x", "w", "bias"))
    # Three parts of the sum in an order of their own.
    sums = x[:, 64:] @ w[:, 64:].T + (x[:, :32] @ w[:, :32].T + x[:, 32:64] @ w[:, 32:64].T)
    result = store(store(sums, "nearest", rng) + bias if late else sums + bias, "nearest", rng)
    side = explain(text, operands, result.astype(ml_dtypes.bfloat16))
    assert side.verdict == ("rounding" if late else "identical")
    assert side.cause in (None, "summation-order")


def test_sums_of_pairs_that_cancel_were_not_stored_in_halves_by_columns():
    """Large terms leave multiples of their own spacing, which are numbers of float16 where results are small."""
    text = "matmul x=3x30x400 w=3x400x44"
    operands, rng = make(text, 9)
    x, w = operands["x"], operands["w"]
    x[..., 1::2] = -x[..., ::2] * (1 + 1e-5 * rng.normal(size=x[..., ::2].shape))
    w[...] = 1000 + rng.random(w.shape)
    w[:, 1::2] = w[:, ::2]
    sums = np.zeros((3, 30, 44), np.float32)
    for k in np.r_[0:400:2, 399:0:-2]:
        sums += x[:, :, k : k + 1] * w[:, k : k + 1]
    assert explain(text, operands, sums).verdict == "rounding"
