"""Numbers found in a result: lost products, other inputs and biases, codes of weights; each beside a control."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from cases_by_hand import convolve, explain, make
from samebits.mechanisms.quantised.storage_schemes import divide_in_float32, list_block_schemes
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.terms import find_terms
from variants import make_variant

# Left out of `make quick`.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("first", "end", "sign", "says"),
    [
        (64, 128, -1, "leaves out products 64 to 127 of the 256"),
        (192, 256, 1, "adds products 192 to 255 of the 256"),
        (255, 256, -1, "leaves out product 255 of the 256"),
    ],
)
def test_a_part_of_the_products_that_some_tiles_lack_or_have_twice_is_named(first, end, sign, says):
    text = "linear x=64x256 w=64x256"
    operands, rng = make(text, 1)
    x, w = operands["x"], operands["w"]
    result = x @ w.T
    for tile in rng.permutation(64)[:6]:
        rows, columns = (slice(8 * i, 8 * i + 8) for i in divmod(tile, 8))
        result[rows, columns] += sign * (x[rows, first:end] @ w[columns, first:end].T)
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("wrong", "shape-specific-kernel")
    assert side.says.startswith(says)


def test_values_of_another_item_in_some_tiles_are_no_lost_products():
    text = "linear x=64x256 w=64x256"
    operands, rng = make(text, 2)
    result = operands["x"] @ operands["w"].T
    other = rng.normal(size=result.shape).astype(np.float32) * 16
    result[8:16, 24:40] = other[8:16, 24:40]
    side = explain(text, operands, result)
    assert side.verdict == "wrong"
    assert "products" not in side.says


def pad(x, values):
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    inside = np.pad(np.ones(x.shape, bool), [(0, 0), (0, 0), (1, 1), (1, 1)])
    return np.where(inside, padded, np.reshape(values, (1, -1, 1, 1))).astype(np.float32)


@pytest.mark.parametrize("what", ["not normalised", "padded before", "bias along rows", "bias on a grid", "sound"])
def test_a_few_numbers_that_are_other_ones_are_solved_for(what):
    text = "conv2d x=1x6x12x12 w=12x6x3x3 bias padding=1"
    operands, _ = make(text, 3)
    x, bias = operands["x"].copy(), operands["bias"].reshape(1, -1, 1, 1)
    values = np.zeros(6)
    if what == "not normalised":
        x = (x * np.linspace(0.2, 0.3, 6).reshape(1, -1, 1, 1) + 0.45).astype(np.float32)
    if what == "padded before":
        values = np.linspace(-1, 1.3, 6)
    if what == "bias along rows":
        bias = operands["bias"].reshape(1, 1, -1, 1)
    if what == "bias on a grid":
        bias = (np.rint(bias * 40) / 40).astype(np.float32)
    side = explain(text, operands, convolve(pad(x, values), operands["w"]) + bias)
    expected = {
        "not normalised": ("wrong", "other-operands"),
        "padded before": ("wrong", "padding"),
        "bias along rows": ("wrong", "fusion"),
        "bias on a grid": ("downgrade", "reduced-precision-operands"),
        "sound": ("rounding", "summation-order"),
    }
    assert (side.verdict, side.cause) == expected[what]


@pytest.mark.parametrize("what", ["of lower rank", "two of four", "the smallest", "sound"])
def test_weights_that_were_compressed_are_named(what):
    text = "linear x=200x64 w=48x64"
    operands, _ = make(text, 4)
    w = operands["w"].astype(np.float64)
    if what == "of lower rank":
        u, s, v = np.linalg.svd(w, full_matrices=False)
        w = (u[:, :40] * s[:40]) @ v[:40]
    if what == "two of four":
        blocks = w.reshape(48, 16, 4)
        smallest = np.sort(np.abs(blocks), axis=2)[:, :, 1:2]
        w = np.where(np.abs(blocks) > smallest, blocks, 0).reshape(48, 64)
    if what == "the smallest":
        w = np.where(np.abs(w) > 0.6, w, 0)
    side = explain(text, operands, operands["x"] @ w.astype(np.float32).T)
    says = {"of lower rank": "rank 40", "two of four": "2 largest of every 4", "the smallest": "weights for zero"}
    if what == "sound":
        assert side.verdict in ("identical", "rounding")
    else:
        assert (side.verdict, side.cause) == ("wrong", "other-operands")
        assert says[what] in side.says


def schemes(text):
    return {s.says: s for s in list_block_schemes(find_terms(parse_problem_text(text)))}


def test_small_floats_are_those_of_another_library():
    """e2m1 with a power of two per 32 values, as ml_dtypes rounds them."""
    values = np.random.default_rng(5).normal(size=(64, 32))
    largest = np.abs(values).max(axis=1, keepdims=True)
    scale = 2.0 ** (np.floor(np.log2(largest)) - 2)
    stored = (values / scale).astype(ml_dtypes.float4_e2m1fn).astype(np.float64) * scale
    scheme = schemes("linear x=4x64 w=4x64")["in e2m1 with a power of two per 32 channels"]
    # Where a value lies in the middle between two codes either is right.
    assert np.array_equal(scheme.quantise(values, divide_in_float32), stored)


def test_codes_of_nf4_are_the_nearest_of_the_published_ones():
    """The end points and zero, and for each value no code nearer than the one taken."""
    scheme = schemes("linear x=4x64 w=4x64")["in NF4 with a scale per 32 channels"]
    values = np.linspace(-1, 1, 32)[None]
    stored = scheme.quantise(values, divide_in_float32)[0]
    codes = np.unique(stored)
    assert (codes[0], codes[-1]) == (-1, 1)
    assert len(codes) <= 16
    nearest = codes[np.abs(values[0][:, None] - codes[None]).argmin(axis=1)]
    assert np.allclose(np.abs(values[0] - stored), np.abs(values[0] - nearest), atol=1e-7)  # noqa: TID251 - distances


def test_dynamic_quantisation_of_torch_is_replayed_by_its_own_steps():
    torch = pytest.importorskip("torch")
    text = "linear x=24x96 w=32x96"
    operands, _ = make(text, 6)
    layer = torch.nn.Linear(96, 32, bias=False)
    layer.weight.data = torch.from_numpy(operands["w"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear}, torch.qint8)
        result = small(torch.from_numpy(operands["x"])).detach().numpy()
    side = explain(text, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")


def test_four_errors_a_little_beyond_their_bound_are_no_lost_product():
    # Sound sums with the weights as they were; of 2,304 small products one fits what all four outputs miss.
    made = make_variant("bfloat16 weights on record", "conv2d x=1x256x9x9 w=16x256x3x3 padding=1", 226)
    (side,) = explain_case(made.case).sides
    assert side.verdict in made.variant.verdicts


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


@pytest.mark.parametrize(
    ("text", "shift", "says"),
    [
        ("conv2d x=2x16x14x14 w=24x16x3x3", 0.37, "multiplies w plus 0.37,"),
        ("conv2d x=1x6x14x14 w=8x6x3x3 bias", "each", "multiplies w plus a number of its own for each output channel"),
        ("linear x=40x96 w=50x96", -0.2, "multiplies w plus -0.2,"),
        ("linear x=40x96 w=50x96", 0, None),
    ],
)
def test_weights_whose_zero_point_was_left_out_are_named(text, shift, says):
    operands, rng = make(text, 21)
    operands["x"] = np.maximum(operands["x"], 0)
    x, w = operands["x"], operands["w"]
    if shift == "each":
        shift = rng.uniform(-0.1, 0.1, (len(w), 1, 1, 1))
    other = (w + shift).astype(np.float32)
    result = x @ other.T if text.startswith("linear") else convolve(x, other)
    if "bias" in operands:
        result += operands["bias"].reshape(1, -1, 1, 1)
    side = explain(text, operands, result)
    if says is None:
        assert (side.verdict, side.cause) == ("rounding", "summation-order")
    else:
        assert (side.verdict, side.cause) == ("wrong", "other-operands")
        assert side.says.startswith(says)
