"""tract#2363: linear Resize with half_pixel extrapolated past the top and left edge instead of clamping there."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2363"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.23.2", "0.23.3"
FIRST_FAULTY = None
UNIT = "Resize"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "the source coordinate, negative before the first pixel's centre, is cast to usize (0) rather than floored and clamped: the first row and column are extrapolated"
CONDITION = "mode=linear, coordinate_transformation_mode=half_pixel, scale above 1: first row and column of the result"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.23.2: 3.53e-01 (48 of 336 off) | 0.23.3: 8.57e-08 (0 of 336 off). wrong in every release tried from 0.19.2 to 0.23.2; the PR moves Resize into tract-core and names this border fault."


def parts():
    r = np.random.default_rng(2363)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(4, 3, 1, 1), "b1": f(4), "sc": np.array([1, 1, 2, 2], np.float32), "w2": f(2, 4, 1, 1)}


def make(folder: Path) -> None:
    p = parts()
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Resize", ["b", "", "sc"], ["c"], mode="linear", coordinate_transformation_mode="half_pixel"),
        helper.make_node("Conv", ["c", "w2"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 12, 14])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(6).standard_normal((1, 3, 6, 7)).astype(np.float32))


def up(x, axis):
    n = x.shape[axis]
    out = []
    for o in range(2 * n):
        c = min(max((o + 0.5) / 2 - 0.5, 0), n - 1)
        lo = int(np.floor(c))
        hi = min(lo + 1, n - 1)
        out.append(np.take(x, lo, axis) * (1 - (c - lo)) + np.take(x, hi, axis) * (c - lo))
    return np.stack(out, axis)


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}
    a = np.einsum("nchw,kc->nkhw", inputs["x"].astype(np.float64), p["w1"][:, :, 0, 0]) + p["b1"].reshape(1, 4, 1, 1)
    c = up(up(np.maximum(a, 0), 2), 3)
    return {"y": 1 / (1 + np.exp(-np.einsum("nchw,kc->nkhw", c, p["w2"][:, :, 0, 0])))}
