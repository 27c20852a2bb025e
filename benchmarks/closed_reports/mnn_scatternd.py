"""MNN: ScatterND with a negative index (counting from the end) lost that update."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/alibaba/MNN/releases/tag/3.1.0"
ENGINE = "mnn"
MODEL = "model.onnx"
FAULTY, FIXED = "3.0.0", "3.1.0"
FIRST_FAULTY = None
UNIT = "ScatterND"
VERDICT = "wrong"
CAUSES = (
    "index-overflow",
    "uninitialized-memory",
)
CAUSE = "negative indices of ScatterND are not brought into range"
CONDITION = "an index below zero"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 3.0.0: 1.35e+00 (6 of 12 off) | 3.1.0: 1.25e-07 (0 of 12 off). right in 3.1.0 and later; found by trying releases, fixing commit not found; CAUSE inferred from the wrong rows being those with negative indices."


def parts():
    r = np.random.default_rng(31)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w": f(6, 5), "b": f(5), "base": f(4, 5), "idx": np.array([[0], [-1], [-3]], np.int64), "w2": f(5, 3)}


def make(folder: Path) -> None:
    n = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["m"]),
        helper.make_node("ScatterND", ["base", "idx", "m"], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(v, k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(9).standard_normal((3, 6)).astype(np.float32))


def truth(inputs):
    p = parts()
    m = inputs["x"].astype(np.float64) @ p["w"].astype(np.float64) + p["b"]
    s = p["base"].astype(np.float64).copy()
    for k, (i,) in enumerate(p["idx"]):
        s[i if i >= 0 else i + 4] = m[k]
    return {"y": np.tanh(s) @ p["w2"].astype(np.float64)}
