"""tract#2109: ScatterND and ScatterElements ignored `reduction`: sums into repeated places became overwrites."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2109"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.22.4", "0.23.0"
FIRST_FAULTY = None
UNIT = "ScatterND"
VERDICT = "wrong"
CAUSES = ("dropped-attribute",)
CAUSE = "the attribute reduction (here add) is ignored: the updates overwrite the data, the last of those with one index stays"
CONDITION = "reduction other than none"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.22.4: 7.09e-01 (12 of 12 off) | 0.23.0: 4.14e-08 (0 of 12 off). wrong in every release tried from 0.19.2; sonos/tract#2109 landed before 0.23.0."


def parts():
    r = np.random.default_rng(2109)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {
        "w": f(6, 5),
        "b": f(5),
        "base": f(4, 5),
        "idx": np.array([[0], [2], [2], [1], [0], [2], [3]], np.int64),
        "w2": f(5, 3),
    }


def make(folder: Path) -> None:
    p = parts()
    n = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("ScatterND", ["base", "idx", "r"], ["s"], reduction="add"),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "graphnet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=(0.4 * np.random.default_rng(5).standard_normal((7, 6))).astype(np.float32))


def truth(inputs):
    p = parts()
    r = np.maximum(inputs["x"].astype(np.float64) @ p["w"].astype(np.float64) + p["b"], 0)
    s = p["base"].astype(np.float64).copy()
    for k, (i,) in enumerate(p["idx"]):
        s[i] += r[k]
    return {"y": np.tanh(s) @ p["w2"].astype(np.float64)}
