"""iree#18600: depthwise Conv (stride 2, 3x3, channels first) compiled for the CPU gave wrong numbers."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/iree-org/iree/issues/18600"
ENGINE = "iree"
MODEL = "model.onnx"
FAULTY, FIXED = "3.0.0", "3.1.0"
FIRST_FAULTY = None
UNIT = "Conv"
VERDICT = "wrong"
CAUSES = (
    "shape-specific-kernel",
    "dropped-attribute",
)
CAUSE = "the llvm-cpu backend miscompiles the depthwise convolution (group = channels); other convolutions are right"
CONDITION = "group equal to the number of channels, float32, llvm-cpu"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 3.0.0: 1.00e-01 (204 of 210 off) | 3.1.0: 1.75e-07 (0 of 210 off). 20240410.859 (iree-compiler) is wrong too, 3.4.0 to 3.13.0 right; the issue's thread does not name one fixing PR that I could see, the bounds were found by trying. Target CPU generic is as wrong as host."


def parts():
    r = np.random.default_rng(18600)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(8, 3, 1, 1), "b1": f(8), "w2": f(8, 1, 3, 3), "b2": f(8), "w3": f(5, 8, 1, 1), "b3": f(5)}


def make(folder: Path) -> None:
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2", "b2"], ["d"], group=8, pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "w3", "b3"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "mobile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 14, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 7, 6])],
        [numpy_helper.from_array(v, k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(13).standard_normal((1, 3, 14, 12)).astype(np.float32))


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}

    def one(v, w, b):
        return np.einsum("nchw,kc->nkhw", v, w[:, :, 0, 0]) + b.reshape(1, -1, 1, 1)

    r = np.pad(np.maximum(one(inputs["x"].astype(np.float64), p["w1"], p["b1"]), 0), ((0, 0), (0, 0), (1, 1), (1, 1)))
    d = np.zeros((1, 8, 7, 6))
    for c in range(8):
        for i in range(7):
            for j in range(6):
                d[0, c, i, j] = (r[0, c, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] * p["w2"][c, 0]).sum() + p["b2"][c]
    return {"y": one(np.maximum(d, 0), p["w3"], p["b3"])}
