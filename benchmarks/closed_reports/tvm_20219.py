"""tvm#20219: GatherND with negative indices read outside the tensor instead of counting from its end."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/apache/tvm/pull/20219"
ENGINE = "tvm"
MODEL = "model.onnx"
FAULTY, FIXED = "0.26.0", "0.27.0.post1"
FIRST_FAULTY = None
UNIT = "GatherND"
VERDICT = "wrong"
CAUSES = (
    "index-overflow",
    "uninitialized-memory",
)
CAUSE = "the Relax importer (and topi.gather_nd) does not bring negative indices of GatherND into range"
CONDITION = "an index below zero"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.26.0: 3.07e+02 (12 of 18 off) | 0.27.0.post1: 9.31e-08 (0 of 18 off). wrong in 0.25.0 and 0.26.0, fixed by PR 20219. The wrong rows are read outside the tensor, so their values change from run to run (NaN, 0.79, 3e2 seen)."


def parts():
    r = np.random.default_rng(20219)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {
        "w": f(4, 6),
        "b": f(6),
        "idx": np.array([[[1, -1], [0, 2]], [[-2, 0], [2, -4]], [[-1, -3], [1, 1]]], np.int64),
        "w2": f(6, 3),
    }


def make(folder: Path) -> None:
    n = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("GatherND", ["s", "idx"], ["g"]),
        helper.make_node("MatMul", ["g", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2, 3])],
        [numpy_helper.from_array(v, k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(16).standard_normal((3, 5, 4)).astype(np.float32))


def truth(inputs):
    p = parts()
    s = 1 / (1 + np.exp(-(inputs["x"].astype(np.float64) @ p["w"].astype(np.float64) + p["b"])))
    g = np.zeros((3, 2, 6))
    for i in range(3):
        for j in range(2):
            a, b = p["idx"][i, j]
            g[i, j] = s[a % 3, b % 5]
    return {"y": g @ p["w2"].astype(np.float64)}
