"""tvm#20053: LpPool with odd p raised negative values to the power without taking their absolute value, and gave NaN."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/apache/tvm/pull/20053"
ENGINE = "tvm"
MODEL = "model.onnx"
FAULTY, FIXED = "0.25.0", "0.26.0"
FIRST_FAULTY = None
UNIT = "LpPool"
VERDICT = "wrong"
CAUSES = (
    "fusion",
    "nan-semantics",
)
CAUSE = "the Relax ONNX importer builds LpPool as (avg(x ** p) * n) ** (1/p) without the absolute value: with odd p negative sums give NaN, others cancel"
CONDITION = "p odd and negative inputs"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.25.0: inf (5 of 5 off) | 0.26.0: 6.14e-08 (0 of 5 off). NaN in 0.25.0 (the oldest that installs here); fixed by PR 20053; opt_level 0 is as wrong."


def parts():
    r = np.random.default_rng(26)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": f(4, 3, 3, 3), "b1": f(4), "w2": f(4, 5)}


def make(folder: Path) -> None:
    n = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"]),
        helper.make_node("LpPool", ["a"], ["l"], kernel_shape=[2, 3], strides=[2, 2], p=3),
        helper.make_node("Tanh", ["l"], ["t"]),
        helper.make_node("GlobalAveragePool", ["t"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(v, k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "model.onnx")
    np.savez(
        folder / "inputs.npz", x=(0.2 * np.random.default_rng(17).standard_normal((1, 3, 8, 9))).astype(np.float32)
    )


def truth(inputs):
    p = {k: v.astype(np.float64) for k, v in parts().items()}
    x = inputs["x"].astype(np.float64)
    a = np.zeros((1, 4, 6, 7))
    for k in range(4):
        for i in range(6):
            for j in range(7):
                a[0, k, i, j] = (x[0, :, i : i + 3, j : j + 3] * p["w1"][k]).sum() + p["b1"][k]
    l = np.zeros((1, 4, 3, 3))
    for i in range(3):
        for j in range(3):
            l[:, :, i, j] = (np.abs(a[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 3]) ** 3).sum(axis=(2, 3)) ** (1 / 3)
    return {"y": np.tanh(l).mean(axis=(2, 3)) @ p["w2"]}
