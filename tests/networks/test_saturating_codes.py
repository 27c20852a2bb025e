"""Products of codes on processors that add pairs of them in 16 bits: found by what plain integers come to."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from networks.network_building import node
from samebits.errors import ModelError
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_causes import UnitCauses
from samebits.networks.unit_judging import judge_unit
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import divide_network, fold_constants

SCALE = np.float32(0.0003)


def make(dtype, depth):
    """Codes times codes of a constant, as whole numbers, cast and scaled."""
    rng = np.random.default_rng(depth)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, (6, depth)).astype(dtype)
    w = rng.integers(-128, 128, (depth, 10)).astype(np.int8)
    zero = dtype(7)
    nodes = [
        node("MatMulInteger", ["x", "w", "zero"], ["sum"]),
        node("Cast", ["sum"], ["plain"], to=TensorProto.FLOAT),
        node("Mul", ["plain", "scale"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (("w", w), ("zero", zero), ("scale", SCALE))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return make_network(model, "net"), x, w, int(zero)


def add_in_pairs(x, w, zero):
    """One product after the other in Python's integers; two neighbours at a time in 16 bits, x without its sign."""
    lift = 128 if x.dtype == np.int8 else 0
    total = np.zeros((x.shape[0], w.shape[1]), np.int64)
    for i in range(x.shape[0]):
        for j in range(w.shape[1]):
            terms = [(int(a) + lift) * int(b) for a, b in zip(x[i], w[:, j], strict=True)]
            pairs = [sum(terms[k : k + 2]) for k in range(0, len(terms), 2)]
            cut = sum(min(max(pair, -32768), 32767) for pair in pairs)
            total[i, j] = cut - (zero + lift) * int(w[:, j].astype(int).sum())
    return total


def refuse(_):
    raise ModelError("nothing inside can be looked at")


def explain(network, seen, inside=()):
    folded = fold_constants(network)
    (unit,) = divide_network(network, folded, inside)
    references = refer_unit(network, folded, unit, seen)
    judged = judge_unit(network, folded, unit, seen, references)
    causes = UnitCauses(network, folded, unit, "side", seen, references, refuse, lambda *_: None)
    return causes.find(judged)[0] if judged.beyond else judged


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("depth", [32, 33])
def test_pairs_that_overflow_are_the_cause(dtype, depth):
    network, x, w, zero = make(dtype, depth)
    total = add_in_pairs(x, w, zero)
    exact = (x.astype(int) - zero) @ w.astype(int)
    assert 0 < (total != exact).sum() < total.size
    judged = explain(network, {"x": x, "y": total.astype(np.float32) * SCALE})
    assert (judged.verdict, judged.cause) == ("wrong", "int8-saturation")
    assert judged.says == "adds pairs of products of codes in 16 bits, which overflow"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_exact_sums_and_other_faults_are_not_called_that(dtype):
    network, x, w, zero = make(dtype, 32)
    exact = (x.astype(int) - zero) @ w.astype(int)
    assert explain(network, {"x": x, "y": exact.astype(np.float32) * SCALE}).verdict in ("identical", "rounding")
    without = x.astype(int) @ w.astype(int)
    assert explain(network, {"x": x, "y": without.astype(np.float32) * SCALE}).cause != "int8-saturation"


STEP, ROW_STEP, OUT_STEP = np.float32(0.02), np.float32(0.01), np.float32(0.25)


def make_convolution(dtype, channels, zero):
    """Q -> DQ -> Conv -> Q -> DQ, as quantisers write it; the codes of both sides of its product."""
    rng = np.random.default_rng(channels)
    info = np.iinfo(dtype)
    codes = rng.integers(info.min, info.max + 1, (1, channels, 7, 7)).astype(dtype)
    weights = rng.integers(-127, 128, (5, channels, 3, 3)).astype(np.int8)
    bias = rng.normal(scale=2, size=5).astype(np.float32)
    nodes = [
        node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "step", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "row_step", "none"], ["dw"]),
        node("Conv", ["d", "dw", "bias"], ["c"], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "out_step", "out_zero"], ["cq"]),
        node("DequantizeLinear", ["cq", "out_step", "out_zero"], ["y"]),
    ]
    constants = {
        "step": STEP, "zero": dtype(zero), "w": weights, "row_step": ROW_STEP, "none": np.int8(0), "bias": bias,
        "out_step": OUT_STEP, "out_zero": np.uint8(130),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, codes.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return make_network(model, "net"), codes, weights, bias


def convolve_codes(codes, weights, zero, arrange, *, saturates):
    """Integer sums output by output; bytes without sign, so that padding holds the zero point."""
    lift = 128 if codes.dtype == np.int8 else 0
    bytes_ = np.pad(codes.astype(int) + lift, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=zero + lift)
    sums = np.zeros((1, len(weights), 7, 7), int)
    for m, i, j in np.ndindex(len(weights), 7, 7):
        products = arrange(bytes_[0, :, i : i + 3, j : j + 3] * weights[m].astype(int))
        flat = products.reshape(-1)
        pairs = np.append(flat, 0) if len(flat) % 2 else flat
        pairs = pairs.reshape(-1, 2).sum(axis=1)
        kept = np.clip(pairs, -32768, 32767) if saturates else pairs
        sums[0, m, i, j] = kept.sum() - (zero + lift) * weights[m].astype(int).sum()
    return sums


def store(sums, bias):
    """The result's codes, read back."""
    real = sums * (np.float64(STEP) * np.float64(ROW_STEP)) + bias.astype(np.float64).reshape(-1, 1, 1)
    codes = np.clip(np.rint(real / np.float64(OUT_STEP)) + 130, 0, 255)
    return ((codes - 130) * OUT_STEP).astype(np.float32)


INSIDE = ("q", "d", "c", "cq")
WAYS = {
    "taps fastest": lambda p: p,
    "channels fastest": lambda p: np.moveaxis(p, 0, -1),
    # A kernel that handles channels in blocks has a channel of zeros behind an odd number of them.
    "channels fastest, an even number of them": lambda p: np.moveaxis(np.pad(p, ((0, 1), (0, 0), (0, 0))), 0, -1),
}


@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 128), (np.uint8, 97), (np.int8, -5)])
@pytest.mark.parametrize("way", WAYS)
def test_a_convolution_between_quantisers_is_judged_and_its_pairs_are_found(dtype, zero, way):
    network, codes, weights, bias = make_convolution(dtype, 3, zero)
    x = ((codes.astype(np.float64) - zero) * STEP).astype(np.float32)
    sums = convolve_codes(codes, weights, zero, WAYS[way], saturates=True)
    judged = explain(network, {"x": x, "y": store(sums, bias)}, INSIDE)
    assert (judged.verdict, judged.cause) == ("wrong", "int8-saturation")
    assert judged.says == f"adds pairs of products of codes in 16 bits, {way}, which overflow"


@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 128), (np.uint8, 97), (np.int8, -5)])
def test_a_sound_convolution_between_quantisers_and_one_without_its_bias_are_not_called_that(dtype, zero):
    network, codes, weights, bias = make_convolution(dtype, 3, zero)
    x = ((codes.astype(np.float64) - zero) * STEP).astype(np.float32)
    sums = convolve_codes(codes, weights, zero, WAYS["taps fastest"], saturates=False)
    assert explain(network, {"x": x, "y": store(sums, bias)}, INSIDE).verdict in ("identical", "rounding")
    assert explain(network, {"x": x, "y": store(sums, 0 * bias)}, INSIDE).says == "leaves out the bias of Conv"
