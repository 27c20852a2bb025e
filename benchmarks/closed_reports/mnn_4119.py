"""MNN#4119: PRelu with a slope along height (shape [1,1,H,1]) was converted as if the slopes ran along the channels."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/alibaba/MNN/pull/4119"
ENGINE = "mnn"
MODEL = "model.onnx"
FAULTY, FIXED = "3.2.0", "3.4.0"
FIRST_FAULTY = None
UNIT = "PRelu"
VERDICT = "wrong"
CAUSES = (
    "axis-order",
    "other-operands",
)
CAUSE = "the ONNX converter takes every PRelu slope with more than one element for a per-channel slope, also where it broadcasts along height or width"
CONDITION = "slope of shape [1, 1, H, 1] (or along width)"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 3.2.0: 6.27e-01 (168 of 320 off) | 3.4.0: 1.05e-07 (0 of 320 off). wrong in 3.0.0, 3.1.0, 3.2.0; right in 3.4.0 and 3.6.1. Converter option --optimizeLevel=0 does not help."


def parts():
    r = np.random.default_rng(4119)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {
        "w1": f(8, 3, 3, 3),
        "b1": f(8),
        "slope": (0.1 + r.random((1, 1, 8, 1))).astype(np.float32),
        "w2": f(4, 8, 1, 1),
        "b2": f(4),
    }


def make(folder: Path) -> None:
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("PRelu", ["a", "slope"], ["b"]),
        helper.make_node("Conv", ["b", "w2", "b2"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 10])],
        [numpy_helper.from_array(v, k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(7).standard_normal((1, 3, 8, 10)).astype(np.float32))


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    a = np.zeros((1, 8, 8, 10))
    for k in range(8):
        for i in range(8):
            for j in range(10):
                v = (x[0, :, i : i + 3, j : j + 3] * p["w1"][k]).sum() + p["b1"][k]
                a[0, k, i, j] = v if v >= 0 else v * p["slope"][0, 0, i, 0]
    return {"y": np.maximum(np.einsum("nchw,kc->nkhw", a, p["w2"][:, :, 0, 0]) + p["b2"].reshape(1, 4, 1, 1), 0)}
