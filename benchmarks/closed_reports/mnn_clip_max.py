"""MNN: Clip with only the upper bound (min left empty) also cut off everything below zero."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/alibaba/MNN/releases"
ENGINE = "mnn"
MODEL = "model.onnx"
FAULTY, FIXED = "3.2.0", "3.4.0"
FIRST_FAULTY = None
UNIT = "Clip"
VERDICT = "wrong"
CAUSES = (
    "fusion",
    "dropped-attribute",
)
CAUSE = "the default of the missing lower bound is the smallest positive float (1.18e-38, std::numeric_limits<float>::min()) where the most negative one is meant: Clip without min acts as a Relu"
CONDITION = "Clip (opset 11 and later) with min omitted and max given"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 3.2.0: 9.18e-01 (80 of 80 off) | 3.4.0: 1.60e-07 (0 of 80 off). wrong in 3.0.0, 3.1.0, 3.2.0; right in 3.4.0 and 3.6.1; found by trying releases, fixing commit not found. CAUSE read from the values: the Clip's output lies in [1.175e-38, 0.75]. --optimizeLevel=0 does not help."


def parts():
    r = np.random.default_rng(33)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(6, 3, 3, 3), "b1": f(6), "top": np.float32(0.75), "w2": f(4, 6, 1, 1), "b2": f(4)}


def make(folder: Path) -> None:
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], strides=[2, 2]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("Clip", ["t", "", "top"], ["b"]),
        helper.make_node("Conv", ["b", "w2", "b2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 5])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(8).standard_normal((1, 3, 9, 11)).astype(np.float32))


def truth(inputs):
    p = {k: np.asarray(v, np.float64) for k, v in parts().items()}
    x = inputs["x"].astype(np.float64)
    a = np.zeros((1, 6, 4, 5))
    for k in range(6):
        for i in range(4):
            for j in range(5):
                a[0, k, i, j] = (x[0, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] * p["w1"][k]).sum() + p["b1"][k]
    b = np.minimum(np.tanh(a), p["top"])
    return {"y": np.einsum("nchw,kc->nkhw", b, p["w2"][:, :, 0, 0]) + p["b2"].reshape(1, 4, 1, 1)}
