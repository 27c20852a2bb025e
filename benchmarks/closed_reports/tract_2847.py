"""tract#2847: MaxPool and AveragePool never read `dilations`, and ran as undilated pools."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2847"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.23.7", "0.23.8"
FIRST_FAULTY = None
UNIT = "MaxPool"
VERDICT = "wrong"
CAUSES = ("dropped-attribute",)
CAUSE = "the importer drops the attribute dilations of MaxPool: the window is taken undilated"
CONDITION = "dilations other than 1"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.23.7: 7.81e-02 (14 of 14 off) | 0.23.8: 1.65e-07 (0 of 14 off). wrong in every release tried from 0.19.2 to 0.23.7."


def parts():
    r = np.random.default_rng(2847)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(5, 3, 3, 3), "b1": f(5), "w2": f(5, 7), "b2": f(7)}


def make(folder: Path) -> None:
    p = parts()
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[3, 3], dilations=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "w2", "b2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 12, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 7])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.savez(
        folder / "inputs.npz", x=(0.3 * np.random.default_rng(3).standard_normal((2, 3, 12, 11))).astype(np.float32)
    )


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}
    x = inputs["x"].astype(np.float64)
    n, _c, h, w = x.shape
    a = np.zeros((n, 5, h - 2, w - 2))
    for i in range(h - 2):
        for j in range(w - 2):
            for k in range(5):
                a[:, k, i, j] = (x[:, :, i : i + 3, j : j + 3] * p["w1"][k]).sum(axis=(1, 2, 3)) + p["b1"][k]
    h, w = a.shape[2:]
    ap = np.full((n, 5, h + 2, w + 2), -np.inf)
    ap[:, :, 1:-1, 1:-1] = a
    oh, ow = h + 2 - 4, w + 2 - 4  # the dilated window spans (3 - 1) * 2 + 1 = 5
    b = np.zeros((n, 5, oh, ow))
    for i in range(oh):
        for j in range(ow):
            b[:, :, i, j] = ap[:, :, i : i + 5 : 2, j : j + 5 : 2].max(axis=(2, 3))
    return {"y": np.tanh(b).mean(axis=(2, 3)) @ p["w2"] + p["b2"]}
