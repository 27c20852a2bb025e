"""tract#2851: AveragePool with ceil_mode=1 and count_include_pad=1 divided the last windows by the whole kernel, counting cells beyond the padding."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2851"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.23.7", "0.23.8"
FIRST_FAULTY = None
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "with count_include_pad=1 the divisor is the whole kernel size even where ceil_mode lets the last window hang over the padded input"
CONDITION = "ceil_mode=1, count_include_pad=1, and the last window reaches beyond the padding"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.23.7: 1.23e-01 (30 of 90 off) | 0.23.8: 1.08e-07 (0 of 90 off). wrong in every release tried from 0.19.2 to 0.23.7."


def parts():
    r = np.random.default_rng(2851)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(4, 3, 3, 3), "b1": f(4), "w2": f(3, 4, 1, 1)}


def make(folder: Path) -> None:
    p = parts()
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node(
            "AveragePool",
            ["b"],
            ["c"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        helper.make_node("Conv", ["c", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 5, 6])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(4).standard_normal((1, 3, 8, 10)).astype(np.float32))


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}
    x = inputs["x"].astype(np.float64)
    n, c, h, w = x.shape
    xp = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    a = np.zeros((n, 4, h, w))
    for i in range(h):
        for j in range(w):
            for k in range(4):
                a[:, k, i, j] = (xp[:, :, i : i + 3, j : j + 3] * p["w1"][k]).sum(axis=(1, 2, 3)) + p["b1"][k]
    a = np.pad(np.maximum(a, 0), ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((n, 4, 5, 6))
    for i in range(5):
        for j in range(6):
            win = a[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]  # cut off at the end of the padded input
            c[:, :, i, j] = win.sum(axis=(2, 3)) / (win.shape[2] * win.shape[3])
    return {"y": np.einsum("nchw,kc->nkhw", c, p["w2"][:, :, 0, 0])}
