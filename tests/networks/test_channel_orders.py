"""A second file whose channels lie in another sequence: sound where all that reads them knows, wrong where not."""

import copy

import numpy as np
import pytest
from onnx import numpy_helper

from needed_engines import skip_without_engines
from networks.network_building import make_model, node, random
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network

ORT = "onnxruntime:threads=1"


def make_blocks():
    """Norm, depthwise filter, a skip, a concatenation, a flattening before the last product: all read channels."""
    constants = {
        "w1": random((6, 3, 3, 3), 1, 0.3),
        "b1": random((6,), 2),
        "scale": random((6,), 3, 0.3) + 1,
        "shift": random((6,), 4),
        "mean": random((6,), 5, 0.2),
        "variance": np.abs(random((6,), 6)) + np.float32(0.5),
        "slope": random((6, 1, 1), 7, 0.1),
        "wd": random((6, 1, 3, 3), 8, 0.3),
        "bd": random((6,), 9),
        "w2": random((6, 6, 1, 1), 10, 0.4),
        "w3": random((5, 12, 1, 1), 11, 0.3),
        "wt": random((5, 4, 2, 2), 12, 0.3),
        "wg": random((7, 4 * 16), 13, 0.2),
        "bg": random((7,), 14),
    }
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"]),
        node("PRelu", ["n1", "slope"], ["r1"]),
        node("Conv", ["r1", "wd", "bd"], ["d"], pads=[1, 1, 1, 1], group=6),
        node("HardSwish", ["d"], ["h"]),
        node("Conv", ["h", "w2"], ["c2"]),
        node("Add", ["c2", "r1"], ["s"]),
        node("Concat", ["s", "h"], ["both"], axis=1),
        node("Conv", ["both", "w3"], ["c3"]),
        node("MaxPool", ["c3"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", ["p", "wt"], ["t"], strides=[1, 1], pads=[0, 0, 1, 1]),
        node("Flatten", ["t"], ["f"]),
        node("Gemm", ["f", "wg", "bg"], ["y"], transB=1),
    ]
    return make_model(nodes, {"x": [2, 3, 8, 8]}, ["y"], constants)


def make_attention():
    """One attention with two heads, and a feed-forward part."""
    constants = {
        "wq": random((8, 8), 1, 0.5),
        "wk": random((8, 8), 2, 0.5),
        "wv": random((8, 8), 3, 0.5),
        "bv": random((8,), 4),
        "wo": random((8, 8), 5, 0.4),
        "wu": random((8, 12), 6, 0.4),
        "bu": random((12,), 7),
        "wd": random((12, 8), 8, 0.4),
        "heads": np.array([2, 5, 2, 4], np.int64),
        "rows": np.array([2, 5, 8], np.int64),
        "gain": random((12,), 9, 0.3) + 1,
        "offset": random((12,), 10),
    }
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"]),
        node("MatMul", ["x", "wv"], ["v0"]),
        node("Add", ["v0", "bv"], ["v"]),
        *(node("Reshape", [a, "heads"], [a + "r"]) for a in "qkv"),
        node("Transpose", ["qr"], ["qh"], perm=[0, 2, 1, 3]),
        node("Transpose", ["kr"], ["kh"], perm=[0, 2, 3, 1]),
        node("Transpose", ["vr"], ["vh"], perm=[0, 2, 1, 3]),
        node("MatMul", ["qh", "kh"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "vh"], ["a"]),
        node("Transpose", ["a"], ["ar"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ar", "rows"], ["joined"]),
        node("MatMul", ["joined", "wo"], ["o"]),
        node("MatMul", ["o", "wu"], ["u0"]),
        node("Add", ["u0", "bu"], ["u"]),
        node("LayerNormalization", ["u", "gain", "offset"], ["ln"], axis=-1),
        node("Tanh", ["ln"], ["g"]),
        node("MatMul", ["g", "wd"], ["y"]),
    ]
    return make_model(nodes, {"x": [2, 5, 8]}, ["y"], constants)


def move(model, order, *places):
    """The model with constants (name, axis) taken in that order along that axis."""
    made = copy.deepcopy(model)
    for tensor in made.graph.initializer:
        for name, axis in places:
            if tensor.name == name:
                array = np.ascontiguousarray(np.take(numpy_helper.to_array(tensor), order, axis))
                tensor.CopyFrom(numpy_helper.from_array(array, name))
    return made


SIX, TWELVE = [3, 0, 5, 1, 4, 2], [7, 2, 11, 0, 9, 4, 1, 10, 3, 8, 5, 6]
NORM = [(n, 0) for n in ("b1", "scale", "shift", "mean", "variance", "slope")]
FIRST = [("w1", 0), *NORM, ("wd", 0), ("bd", 0)]
# (h goes into w2, and as the second half into w3; the skip makes c2 lie as r1 does.)
HALVES = [*SIX, *(6 + i for i in SIX)]
# Elements of each head, then the heads themselves.
HEADS = [2, 0, 3, 1, 6, 7, 5, 4]
EXCHANGED = [4, 5, 6, 7, 0, 1, 2, 3]


def permute_blocks(model):
    return move(move(move(model, SIX, *FIRST), SIX, ("w2", 0), ("w2", 1)), HALVES, ("w3", 1))


def permute_last(model):
    order = [2, 0, 3, 1]
    rows = [16 * c + i for c in order for i in range(16)]
    return move(move(model, order, ("wt", 1)), rows, ("wg", 1))


SOUND = {
    "all that reads the first channels": (make_blocks, permute_blocks, ["conv_c1", "conv_c2"]),
    "channels that are flattened": (make_blocks, permute_last, ["convtranspose_t"]),
    "both": (make_blocks, lambda m: permute_last(permute_blocks(m)), ["conv_c1", "conv_c2", "convtranspose_t"]),
    "the units between two products": (
        make_attention,
        lambda m: move(m, TWELVE, ("wu", 1), ("bu", 0), ("gain", 0), ("offset", 0), ("wd", 0)),
        ["matmul_u0"],
    ),
    "heads": (
        make_attention,
        lambda m: move(m, EXCHANGED, ("wq", 1), ("wk", 1), ("wv", 1), ("bv", 0), ("wo", 0)),
        ["matmul_q", "matmul_k", "matmul_v0"],
    ),
}


def compare(first, second):
    skip_without_engines(["onnxruntime"])
    return compare_model(make_network(first, "first"), [ORT], against=make_network(second, "second"))


@pytest.mark.parametrize("name", SOUND)
def test_channels_in_another_sequence_that_all_readers_know_are_sound(name):
    make, permute, products = SOUND[name]
    found = compare(make(), permute(make()))
    assert found.verdict in ("rounding", "identical"), found.summary
    said = [e.says for e in found.evidence if "in another sequence, and reads them in that one" in e.says]
    assert len(said) == 1
    assert all(product in said[0] for product in products)
    # Every unit was judged by itself: none was joined with what comes after it.
    assert len(found.units) == len(compare(make(), make()).units)


FORGOTTEN = {
    "one constant of the norm": ("scale", 0, SIX, "batchnormalization_n1"),
    "the slope": ("slope", 0, SIX, "prelu_r1"),
    "the depthwise filter": ("wd", 0, SIX, "conv_d"),
    "the weights of a reader": ("w3", 1, HALVES, "conv_c3"),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_reader_that_does_not_know_is_wrong(name):
    """The order is undone for one constant: then the file is wrong, and no order is believed."""
    constant, axis, order, _ = FORGOTTEN[name]
    model = permute_blocks(make_blocks())
    found = compare(make_blocks(), move(model, np.argsort(order), (constant, axis)))
    assert found.verdict == "wrong", found.summary
    assert found.sides[0].verdict in ("rounding", "identical")


def test_outputs_in_another_sequence_are_wrong():
    found = compare(make_blocks(), move(make_blocks(), [1, 0, 2, 3, 4, 5, 6], ("wg", 0), ("bg", 0)))
    assert found.verdict == "wrong"


@pytest.mark.parametrize(("constant", "unit"), [("w2", "conv_c2"), ("w3", "conv_c3"), ("wt", "convtranspose_t")])
def test_what_is_wrong_besides_is_named_in_its_own_unit(constant, unit):
    model = permute_blocks(make_blocks())
    for tensor in model.graph.initializer:
        if tensor.name == constant:
            array = numpy_helper.to_array(tensor).copy()
            array[1, 2] *= 1.5
            tensor.CopyFrom(numpy_helper.from_array(array, constant))
    found = compare(make_blocks(), model)
    assert found.verdict == "wrong", found.summary
    deviating = [u.name for u in found.units if any(s.verdict == "wrong" for s in u.sides)]
    assert deviating == [unit]
