"""tract#2863: InstanceNormalization took mean and variance over the batch too, so the samples of a batch were normalised together."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2863"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.23.7", "0.23.8"
FIRST_FAULTY = None
UNIT = "InstanceNormalization"
VERDICT = "wrong"
CAUSES = (
    "axis-order",
    "dropped-attribute",
)
CAUSE = "the reduction axes for mean and variance include the batch axis, where the specification has one mean and variance for every (sample, channel)"
CONDITION = "batch of two or more"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.23.7: 6.99e-01 (341 of 360 off) | 0.23.8: 5.63e-07 (0 of 360 off). wrong in every release tried from 0.19.2 to 0.23.7."
EPS = 1e-3


def parts():
    r = np.random.default_rng(2863)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(6, 3, 3, 3), "b1": f(6), "s": 1 + 0.3 * f(6), "t": f(6), "w2": f(4, 6, 1, 1)}


def make(folder: Path) -> None:
    p = parts()
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("InstanceNormalization", ["a", "s", "t"], ["b"], epsilon=EPS),
        helper.make_node("LeakyRelu", ["b"], ["c"], alpha=0.2),
        helper.make_node("Conv", ["c", "w2"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "style",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3, 11, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4, 6, 5])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in p.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    r = np.random.default_rng(2)
    x = r.standard_normal((3, 3, 11, 9)) * np.array([1.0, 3.0, 0.4]).reshape(3, 1, 1, 1) + np.array(
        [0.0, 2.0, -1.0]
    ).reshape(3, 1, 1, 1)
    np.savez(folder / "inputs.npz", x=x.astype(np.float32))


def conv(x, w, b, pad, st):
    n, c, h, wd = x.shape
    o, _, kh, kw = w.shape
    xp = np.zeros((n, c, h + 2 * pad, wd + 2 * pad))
    xp[:, :, pad : pad + h, pad : pad + wd] = x
    oh, ow = (h + 2 * pad - kh) // st + 1, (wd + 2 * pad - kw) // st + 1
    y = np.zeros((n, o, oh, ow))
    for i in range(oh):
        for j in range(ow):
            win = xp[:, :, i * st : i * st + kh, j * st : j * st + kw]
            for k in range(o):
                y[:, k, i, j] = (win * w[k]).sum(axis=(1, 2, 3)) + b[k]
    return y


def truth(inputs):
    p = {k: v.astype(np.float32).astype(np.float64) for k, v in parts().items()}
    a = conv(inputs["x"].astype(np.float64), p["w1"], p["b1"], 1, 2)
    b = np.zeros_like(a)
    for n in range(a.shape[0]):
        for c in range(a.shape[1]):
            v = a[n, c]
            b[n, c] = p["s"][c] * (v - v.mean()) / np.sqrt(((v - v.mean()) ** 2).mean() + EPS) + p["t"][c]
    d = conv(np.where(b < 0, float(np.float32(0.2)) * b, b), p["w2"], np.zeros(4), 0, 1)
    return {"y": 1 / (1 + np.exp(-d))}
