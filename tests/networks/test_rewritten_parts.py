"""A second file that computes other values in between on purpose is sound; one that does so by a fault is not."""

import numpy as np
import pytest

from needed_engines import skip_without_engines
from networks.network_building import make_model, node, random
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network

ORT = "onnxruntime:threads=1"
SCALE = np.float32(1 / np.sqrt(8))


def make_attention(change=""):
    """Norm, projections, scaled scores, a sum over values; `change` says what is written otherwise."""
    constants = {
        "gain": random((8,), 1, 0.3) + 1,
        "shift": random((8,), 2),
        **{f"w{n}": random((8, 8), 3 + i, 0.5) for i, n in enumerate("qkvo")},
        **{f"b{n}": random((8,), 9 + i) for i, n in enumerate("qkv")},
        "scale": np.array(SCALE),
    }
    affine = ["gain", "shift"]
    if change == "norm's gain and shift in the products":
        for n in "qkv":
            constants[f"b{n}"] = (constants[f"b{n}"] + constants["shift"] @ constants[f"w{n}"]).astype(np.float32)
            constants[f"w{n}"] = constants["gain"][:, None] * constants[f"w{n}"]
        constants["gain"], constants["shift"] = np.ones(8, np.float32), np.zeros(8, np.float32)
    if change in ("scale in q", "scale in q twice"):
        for name in ("wq", "bq"):
            constants[name] = constants[name] * SCALE * (SCALE if "twice" in change else np.float32(1))
    if change == "scale in q alone":
        constants["wq"] = constants["wq"] * SCALE
    nodes = [
        node("LayerNormalization", ["x", *affine], ["n"], axis=-1),
        *(node("MatMul", ["n", f"w{a}"], [f"{a}0"]) for a in "qkv"),
        *(node("Add", [f"{a}0", f"b{a}"], [a]) for a in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s0"]),
        *([] if "scale in q" in change else [node("Mul", ["s0", "scale"], ["s"])]),
        node("Softmax", ["s0" if "scale in q" in change else "s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["a"]),
        node("MatMul", ["a", "wo"], ["y"]),
    ]
    return make_model(nodes, {"x": [2, 5, 8]}, ["y"], constants)


def make_joined(change=""):
    """Two branches, a leaky kink, and a product that reads both."""
    constants = {
        "w1": random((4, 3, 3, 3), 1, 0.3),
        "w2": random((4, 3, 1, 1), 2, 0.5),
        "w3": random((6, 8, 1, 1), 3, 0.4),
        "w4": random((5, 6, 1, 1), 4, 0.4),
    }
    parts = ["r1", "c2"]
    if "concatenation" in change:
        parts = parts[::-1]
        if "alone" not in change:
            constants["w3"] = np.concatenate([constants["w3"][:, 4:], constants["w3"][:, :4]], 1)
    if "factor" in change:
        constants["w3"] = constants["w3"] * np.float32(4)
        if "alone" not in change:
            constants["w4"] = constants["w4"] / np.float32(4)
    if "besides" in change:
        constants["w4"][2, 1] *= np.float32(1.3)
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["x", "w2"], ["c2"]),
        node("Concat", parts, ["both"], axis=1),
        node("Conv", ["both", "w3"], ["c3"]),
        node("LeakyRelu", ["c3"], ["l"], alpha=0.1),
        node("Conv", ["l", "w4"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants)


def compare(make, change):
    skip_without_engines(["onnxruntime"])
    return compare_model(make_network(make(), "first"), [ORT], against=make_network(make(change), "second"))


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (make_attention, "scale in q"),
        (make_attention, "norm's gain and shift in the products"),
        (make_joined, "the concatenation exchanged"),
        (make_joined, "a factor through a kink"),
    ],
)
def test_values_that_are_others_on_purpose_are_sound(make, change):
    found = compare(make, change)
    assert found.verdict in ("rounding", "identical"), found.summary
    assert any("computes other values, and the same at their end" in e.says for e in found.evidence)
    assert "says something else" not in found.summary


def make_chain(fault="", layers=4, size=256):
    """Wide products, whose bounds together are wide; the first one's weights four times as large, the last one's a
    fourth, and one in between with a fault."""
    constants = {f"w{i}": random((size, size), 20 + i, 1 / np.sqrt(size)) for i in range(layers)}
    if fault:
        constants["w0"] *= np.float32(4)
        constants[f"w{layers - 1}"] /= np.float32(4)
    if fault == "a column":
        constants["w2"][:, 5] *= np.float32(1.01)
    nodes = [
        step
        for i in range(layers)
        for step in (
            node("MatMul", [f"l{i - 1}" if i else "x", f"w{i}"], [f"m{i}"]),
            node("LeakyRelu", [f"m{i}"], [f"l{i}"], alpha=0.1),
        )
    ]
    return make_model(nodes, {"x": [2, size]}, [f"l{layers - 1}"], constants)


@pytest.mark.parametrize(("fault", "verdicts"), [("none", ("identical", "rounding")), ("a column", ("wrong",))])
def test_a_fault_does_not_hide_in_the_wide_bound_of_a_part(fault, verdicts):
    assert compare(make_chain, fault).verdict in verdicts


def make_limited(change=""):
    """A factor through a limit that these inputs do not reach."""
    factor = np.float32(4 if change else 1)
    constants = {"w": random((6, 6), 1, 0.1) * factor, "v": random((6, 6), 2) / factor}
    constants |= {"low": np.array(-1e3, np.float32), "high": np.array(1e3, np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Clip", ["a", "low", "high"], ["c"])]
    return make_model([*nodes, node("MatMul", ["c", "v"], ["y"])], {"x": [3, 6]}, ["y"], constants)


def test_a_limit_that_is_not_reached_is_warned_of():
    found = compare(make_limited, "a factor")
    assert found.verdict in ("identical", "rounding")
    assert "On other inputs that may show" in found.summary


@pytest.mark.parametrize("lost", ["bias", "last bits alone", "an infinity"])
def test_last_bits_of_weights_hide_no_other_fault(lost):
    def make(change=""):
        constants = {"w": random((4, 3, 3, 3), 1), "b": random((4,), 2)}
        if change:
            constants["w"] = constants["w"] * np.float32(1 + 2**-22)
        if change == "an infinity":
            constants["b"][1] = np.inf
        reads = ["x", "w"] if change == "bias" else ["x", "w", "b"]
        return make_model([node("Conv", reads, ["y"])], {"x": [1, 3, 6, 6]}, ["y"], constants)

    verdict = compare(make, lost).verdict
    assert verdict in (("rounding",) if lost == "last bits alone" else ("wrong",))


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (make_attention, "scale in q twice"),
        (make_attention, "scale in q alone"),
        (make_joined, "the concatenation alone exchanged"),
        (make_joined, "a factor alone"),
        (make_joined, "a factor through a kink, and one weight besides"),
    ],
)
def test_what_is_half_rewritten_is_wrong(make, change):
    found = compare(make, change)
    assert found.verdict == "wrong", found.summary
    assert found.sides[0].verdict in ("rounding", "identical")
    assert not any("the same at their end" in e.says for e in found.evidence)
