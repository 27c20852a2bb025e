"""Products of codes on processors that add pairs of them in 16 bits: found by what plain integers come to."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from networks.network_building import node
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


def explain(network, seen):
    folded = fold_constants(network)
    (unit,) = divide_network(network, folded)
    references = refer_unit(network, folded, unit, seen)
    judged = judge_unit(network, folded, unit, seen, references)
    causes = UnitCauses(network, folded, unit, "side", seen, references, lambda _: {}, lambda *_: None)
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
