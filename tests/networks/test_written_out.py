"""Operators that onnxruntime's optimizer and quantizer write: right as ONNX Runtime computes them, and seen if not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from needed_engines import skip_without_engines
from networks.network_building import judge, random, run
from samebits.errors import ModelError
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import divide_network, fold_constants

MS = "com.microsoft"
X = {"x": random((2, 5, 8), 0)}
ROW = {"scale": random((8,), 1), "shift": random((8,), 2), "bias": random((8,), 3)}
IMAGE = {"x": random((1, 3, 6, 6), 4)}


def ids(shape, below, seed, dtype=np.int32):
    return np.random.default_rng(seed).integers(0, below, shape).astype(dtype)


def whole(shape, seed, dtype):
    info = np.iinfo(dtype)
    # ONNX Runtime adds pairs of full products in 16 bits on older processors: smaller ones fit.
    return np.random.default_rng(seed).integers(info.min // 2, info.max // 2, shape).astype(dtype)


def f32(*values):
    return np.array(values if len(values) > 1 else values[0], np.float32)


def u8(value):
    return np.array(value, np.uint8)


EMBEDDING = {"words": random((20, 8), 5), "places": random((9, 8), 6), "kinds": random((2, 8), 7)}
HEADS = {"w": random((8, 24), 8, 0.3), "b": random((24,), 9)}
CODES = {"xs": f32(0.02), "xz": u8(120), "ys": f32(0.05), "yz": u8(100)}
WEIGHTS = {"ws": f32(0.01), "wz": np.array(0, np.int8)}
GQA_SEEN = np.array([4, 4], np.int32)

# By name: the operator, its domain, what is fed, its constants, its inputs, attributes and the number of outputs.
CASES = {
    "FusedConv": (MS, IMAGE, {"w": random((4, 3, 3, 3), 1), "b": random((4,), 2)}, "x w b", {"activation": "Relu"}),
    "FusedConv clipped": (
        MS,
        IMAGE,
        {"w": random((4, 3, 3, 3), 1)},
        "x w",
        {"activation": "Clip", "activation_params": [-0.5, 1.5], "pads": [1, 1, 1, 1]},
    ),
    "FusedConv added": (
        MS,
        {**IMAGE, "z": random((1, 4, 4, 4), 3)},
        {"w": random((4, 3, 3, 3), 1), "b": random((4,), 2)},
        "x w b z",
        {"activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    "FusedGemm": (
        MS,
        {"x": random((5, 8), 0)},
        {"w": random((6, 8), 1), "b": random((6,), 2)},
        "x w b",
        {"activation": "LeakyRelu", "activation_alpha": 0.1, "transB": 1},
    ),
    "FusedMatMul": (MS, {**X, "other": random((2, 6, 8), 1)}, {}, "x other", {"transB": 1, "alpha": 0.35}),
    "FusedMatMul of batches": (
        MS,
        {"x": random((5, 2, 8), 0), "other": random((6, 2, 8), 1)},
        {},
        "x other",
        {"transB": 1, "transBatchA": 1, "transBatchB": 1, "alpha": 0.5},
    ),
    "FusedMatMul turned": (
        MS,
        {"x": random((2, 8, 5), 0), "other": random((2, 8, 6), 1)},
        {},
        "x other",
        {"transA": 1},
    ),
    "Gelu": (MS, X, {}, "x", {}),
    "BiasGelu": (MS, X, ROW, "x bias", {}),
    "FastGelu": (MS, X, ROW, "x bias", {}),
    "FastGelu alone": (MS, X, {}, "x", {}),
    "QuickGelu": (MS, X, {}, "x", {"alpha": 1.702}),
    "SkipLayerNormalization": (
        MS,
        {**X, "other": random((2, 5, 8), 9)},
        ROW,
        "x other scale shift bias",
        {"epsilon": 1e-5},
        4,
    ),
    "SkipLayerNormalization plain": (MS, {**X, "other": random((2, 5, 8), 9)}, ROW, "x other scale", {}),
    "SkipSimplifiedLayerNormalization": (
        MS,
        {**X, "other": random((2, 5, 8), 9)},
        ROW,
        "x other scale bias",
        {"epsilon": 1e-6},
        4,
    ),
    "SimplifiedLayerNormalization": ("", X, ROW, "x scale", {"epsilon": 1e-6, "axis": -1}),
    "LayerNormalization": ("", X, ROW, "x scale shift", {"epsilon": 1e-5, "axis": -1}),
    "EmbedLayerNormalization": (
        MS,
        {"ids": ids((2, 6), 20, 1), "kind": ids((2, 6), 2, 2), "mask": ids((2, 6), 2, 3)},
        {**EMBEDDING, **ROW},
        "ids kind words places kinds scale shift mask",
        {},
        2,
    ),
    "Attention": (MS, X, HEADS, "x w b", {"num_heads": 2}),
    "Attention scaled": (MS, X, HEADS, "x w", {"num_heads": 4, "scale": 0.3, "unidirectional": 1}),
    "Attention masked": (
        MS,
        {**X, "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)},
        HEADS,
        "x w b mask",
        {"num_heads": 2},
    ),
    "Attention of lengths": (MS, {**X, "mask": np.array([3, 5], np.int32)}, HEADS, "x w b mask", {"num_heads": 2}),
    "Attention biased": (
        MS,
        {**X, "added": random((2, 2, 5, 5), 7)},
        HEADS,
        "x w b   added",
        {"num_heads": 2},
    ),
    "MultiHeadAttention": (
        MS,
        {**X, "k": random((2, 7, 8), 1), "v": random((2, 7, 8), 2)},
        {"b": random((24,), 3)},
        "x k v b",
        {"num_heads": 2},
    ),
    "MultiHeadAttention masked": (
        MS,
        {
            **X,
            "k": random((2, 5, 8), 1),
            "v": random((2, 5, 8), 2),
            "mask": np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32),
        },
        {},
        "x k v  mask",
        {"num_heads": 4, "mask_filter_value": -3e4},
    ),
    "RotaryEmbedding": (
        MS,
        {"x": random((2, 2, 5, 8), 0), "at": np.arange(10).reshape(2, 5) % 7},
        {"cos": np.cos(random((9, 4), 1)), "sin": np.sin(random((9, 4), 1))},
        "x at cos sin",
        {},
    ),
    "RotaryEmbedding flat": (
        MS,
        {"x": random((2, 5, 16), 0), "at": np.arange(10).reshape(2, 5) % 7},
        {"cos": np.cos(random((9, 4), 1)), "sin": np.sin(random((9, 4), 1))},
        "x at cos sin",
        {},
    ),
    "Trilu": (MS, {"x": random((5, 5), 0)}, {}, "x", {"upper": 0}),
    "QuantizeLinear": (MS, X, CODES, "x xs xz", {}),
    "DequantizeLinear": (MS, {"q": whole((3, 4), 1, np.uint8)}, CODES, "q xs xz", {}),
    "QLinearConv": (
        "",
        {"q": whole((1, 3, 6, 6), 1, np.uint8)},
        {
            **CODES,
            "w": whole((4, 3, 3, 3), 2, np.int8),
            "ws": f32(0.01, 0.02, 0.005, 0.03),
            "wz": np.zeros(4, np.int8),
            "b": ids(4, 900, 3),
        },
        "q xs xz w ws wz ys yz b",
        {"pads": [1, 1, 1, 1]},
    ),
    "QLinearMatMul": (
        "",
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, **WEIGHTS, "w": whole((8, 6), 2, np.int8)},
        "q xs xz w ws wz ys yz",
        {},
    ),
    "QGemm": (
        MS,
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, **WEIGHTS, "w": whole((6, 8), 2, np.int8), "b": ids(6, 900, 3)},
        "q xs xz w ws wz b ys yz",
        {"transB": 1},
    ),
    "QGemm to float": (
        MS,
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, **WEIGHTS, "w": whole((8, 6), 2, np.int8)},
        "q xs xz w ws wz",
        {},
    ),
    "QLinearAdd": (
        MS,
        {"q": whole((5, 8), 1, np.uint8), "p": whole((5, 8), 2, np.uint8)},
        {**CODES, "ps": f32(0.03), "pz": u8(90)},
        "q xs xz p ps pz ys yz",
        {},
    ),
    "QLinearMul": (
        MS,
        {"q": whole((5, 8), 1, np.uint8), "p": whole((5, 8), 2, np.uint8)},
        {**CODES, "ps": f32(0.03), "pz": u8(90)},
        "q xs xz p ps pz ys yz",
        {},
    ),
    "QLinearConcat": (
        MS,
        {"q": whole((5, 8), 1, np.uint8), "p": whole((5, 3), 2, np.uint8)},
        {**CODES, "ps": f32(0.03), "pz": u8(90)},
        "ys yz q xs xz p ps pz",
        {"axis": 1},
    ),
    "QLinearSigmoid": (
        MS,
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, "ys": f32(1 / 256), "yz": u8(0)},
        "q xs xz ys yz",
        {},
    ),
    "QLinearLeakyRelu": (MS, {"q": whole((5, 8), 1, np.uint8)}, CODES, "q xs xz ys yz", {"alpha": 0.1}),
    "QLinearSoftmax": (
        MS,
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, "ys": f32(1 / 256), "yz": u8(0)},
        "q xs xz ys yz",
        {"axis": 1, "opset": 13},
    ),
    "QLinearGlobalAveragePool": (MS, {"q": whole((1, 3, 6, 6), 1, np.uint8)}, CODES, "q xs xz ys yz", {}),
    "QLinearAveragePool": (
        MS,
        {"q": whole((1, 3, 6, 6), 1, np.uint8)},
        CODES,
        "q xs xz ys yz",
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "MatMulIntegerToFloat": (
        MS,
        {"q": whole((5, 8), 1, np.uint8)},
        {**CODES, **WEIGHTS, "w": whole((8, 6), 2, np.int8), "b": random((6,), 3)},
        "q w xs ws xz wz b",
        {},
    ),
    "DynamicQuantizeMatMul": (
        MS,
        {"x": random((5, 8), 1)},
        {**WEIGHTS, "w": whole((8, 6), 2, np.int8), "b": random((6,), 3)},
        "x w ws wz b",
        {},
    ),
    "MatMulNBits": (
        MS,
        {"x": random((5, 32), 1)},
        {"w": ids((6, 2, 8), 256, 2, np.uint8), "s": random((12,), 3)},
        "x w s",
        {"K": 32, "N": 6, "bits": 4, "block_size": 16},
    ),
    "QAttention": (
        MS,
        {"q": whole((2, 5, 8), 1, np.uint8)},
        {**CODES, "ws": f32(0.01), "wz": np.array(3, np.int8), "w": whole((8, 24), 2, np.int8), "b": random((24,), 9)},
        "q w b xs ws  xz wz",
        {"num_heads": 2},
    ),
    "QAttention masked": (
        MS,
        {"q": whole((2, 5, 8), 1, np.uint8), "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)},
        {**CODES, "ws": f32(0.01), "w": whole((8, 24), 2, np.int8), "b": random((24,), 9)},
        "q w b xs ws mask xz",
        {"num_heads": 2, "unidirectional": 1},
    ),
    "GroupQueryAttention": (
        MS,
        {"x": random((2, 5, 32), 0), "k": random((2, 5, 16), 1), "v": random((2, 5, 16), 2), "seen": GQA_SEEN},
        {"all": np.array(5, np.int32)},
        "x k v   seen all",
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    "GroupQueryAttention in a window": (
        MS,
        {"x": random((2, 5, 32), 0), "k": random((2, 5, 16), 1), "v": random((2, 5, 16), 2), "seen": GQA_SEEN},
        {"all": np.array(5, np.int32)},
        "x k v   seen all",
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "softcap": 1.5},
    ),
    "GroupQueryAttention turned": (
        MS,
        {
            "x": random((1, 3, 128), 0),
            "pk": random((1, 2, 4, 16), 1),
            "pv": random((1, 2, 4, 16), 2),
            "seen": np.array([6], np.int32),
        },
        {"all": np.array(7, np.int32), "cos": np.cos(random((9, 8), 1)), "sin": np.sin(random((9, 8), 1))},
        "x   pk pv seen all cos sin",
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "scale": 0.4},
        3,
    ),
    "DynamicQuantizeLSTM": (
        MS,
        {"x": random((6, 2, 5), 0)},
        {
            "w": whole((2, 5, 32), 1, np.int8),
            "r": whole((2, 8, 32), 2, np.int8),
            "b": random((2, 64), 3),
            "ws": np.array([0.004, 0.002], np.float32),
            "wz": np.zeros(2, np.int8),
        },
        "x w r b     ws wz ws wz",
        {"hidden_size": 8, "direction": "bidirectional"},
        2,
    ),
    "QLinearWhere": (
        MS,
        {"c": ids((5, 8), 2, 1, np.bool_), "q": whole((5, 8), 1, np.uint8), "p": whole((5, 8), 2, np.uint8)},
        {**CODES, "ps": f32(0.03), "pz": u8(90)},
        "c q xs xz p ps pz ys yz",
        {},
    ),
    "GatherBlockQuantized": (
        MS,
        {"i": ids((2, 3), 6, 1, np.int64)},
        {"w": ids((6, 16), 256, 2, np.uint8), "s": random((6, 2), 3)},
        "w i s",
        {"block_size": 16, "bits": 4, "quantize_axis": 1, "gather_axis": 0},
    ),
    "MatMulNBits shifted": (
        MS,
        {"x": random((5, 32), 1)},
        {"w": ids((6, 2, 8), 256, 2, np.uint8), "s": random((12,), 3), "z": ids(6, 256, 4, np.uint8)},
        "x w s z",
        {"K": 32, "N": 6, "bits": 4, "block_size": 16},
    ),
}


def make_case(name):
    domain, fed, constants, inputs, attributes, *count = CASES[name]
    names = inputs.split(" ")
    several = {1: ["y"], 2: ["y", "z"], 3: ["y", "z", "zz"], 4: ["y", "", "", "z"]}
    outputs = several[count[0] if count else 1]
    made = helper.make_node(name.partition(" ")[0], names, outputs, name="it", domain=domain, **attributes)
    graph = helper.make_graph(
        [made],
        "test",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()],
        [onnx.ValueInfoProto(name=v) for v in outputs if v],
        [numpy_helper.from_array(a, n) for n, a in constants.items() if n in names],
    )
    # Their normalisations stand in files of older opsets.
    opset = 11 if name == "LayerNormalization" else 17
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)], ir_version=9
    )
    return model, fed


@pytest.mark.parametrize("name", CASES)
def test_what_onnxruntime_computes_is_right(name):
    skip_without_engines(["onnxruntime"])
    model, fed = make_case(name)
    for judged in judge(model, {**fed, **run(model, fed)}):
        assert judged.is_judged
        assert judged.verdict in ("identical", "rounding"), judged


@pytest.mark.parametrize("name", CASES)
def test_a_value_that_is_off_is_seen(name):
    skip_without_engines(["onnxruntime"])
    model, fed = make_case(name)
    results = run(model, fed)
    y = results["y"].copy()
    flat = y.reshape(-1)
    middle = flat.size // 2
    flat[middle] += np.float32(0.01) if y.dtype == np.float32 else 2 if flat[middle] < 250 else -2
    assert any(j.verdict in ("wrong", "undecided") for j in judge(model, {**fed, **results, "y": y}))


def test_attention_that_is_told_of_fewer_keys_than_there_are_is_not_judged():
    """What onnxruntime returns of the other places has no meaning."""
    skip_without_engines(["onnxruntime"])
    model, fed = make_case("GroupQueryAttention")
    fed = {**fed, "seen": np.array([4, 2], np.int32)}
    (judged,) = judge(model, {**fed, **run(model, fed)})
    assert not judged.is_judged


BROKEN = {
    "GroupQueryAttention that sees what comes": (
        "GroupQueryAttention",
        ["x", "x", "x", "", "", "w", "w"],
        {"num_heads": 1, "kv_num_heads": 1, "causal": 0},
    ),
    "GroupQueryAttention in a window of none": (
        "GroupQueryAttention",
        ["x", "x", "x", "", "", "w", "w"],
        {"num_heads": 1, "kv_num_heads": 1, "local_window_size": 0},
    ),
    "GroupQueryAttention of packed keys": (
        "GroupQueryAttention",
        ["x", "x", "x", "", "", "w", "w"],
        {"num_heads": 1, "kv_num_heads": 1, "k_quant_type": "PER_TENSOR"},
    ),
    "Attention without heads": ("Attention", ["x", "w"], {}),
    "Attention of no heads": ("Attention", ["x", "w"], {"num_heads": 0}),
    "MatMulNBits of other sizes": ("MatMulNBits", ["x", "w", "w"], {"K": 2**40, "N": 3, "bits": 4, "block_size": 16}),
    "MatMulNBits in blocks of 0": ("MatMulNBits", ["x", "w", "w"], {"K": 8, "N": 3, "bits": 4, "block_size": 0}),
    "FusedConv of nothing": ("FusedConv", [], {}),
    "QLinearConcat without an axis": ("QLinearConcat", ["x", "x", "x"], {}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_operator_is_left_as_it_is_or_refused_in_one_line(kind):
    operator, inputs, attributes = BROKEN[kind]
    made = helper.make_node(operator, inputs, ["y"], name="it", domain=MS, **attributes)
    graph = helper.make_graph(
        [made],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 8])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(HEADS["w"], "w")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=9
    )
    said, left = "", [f"{MS}.{operator}"]
    try:
        left = [n.operator for n in make_network(model, "broken").nodes]
    except ModelError as error:
        said = str(error)
    assert "\n" not in said
    assert left == [f"{MS}.{operator}"]


def test_an_operator_that_nobody_knows_stands_alone():
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Mystery", ["r"], ["m"], name="strange", domain="my.own"),
        helper.make_node("Relu", ["m"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])], [onnx.ValueInfoProto(name="y")]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    network = make_network(helper.make_model(graph, opset_imports=opsets, ir_version=9), "test")
    units = divide_network(network, fold_constants(network))
    assert [unit.operators for unit in units] == [("Relu",), ("my.own.Mystery",), ("Relu",)]
