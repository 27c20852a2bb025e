"""opencv#24353: CumSum within a network sums garbage: the layer skips part of its output, and steps wrongly through inner axes."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/opencv/opencv/pull/24353"
ENGINE = "opencv"
MODEL = "model.onnx"
FAULTY, FIXED = "4.8.1.78", "4.9.0.80"
FIRST_FAULTY = None
UNIT = "CumSum"
VERDICT = "wrong"
CAUSES = ("uninitialized-memory",)
CAUSE = "the layer's loops over outer, axis and inner positions were wrong (the fix rewrote them): the running sum is not taken along the axis asked for"
CONDITION = "axis not the innermost, several rows"
WORKAROUND = None
NOTE = "values up to 1e21 or NaN (unwritten memory, other at each run) on 4.5.5 to 4.8.1, 120 of 144 values; 5.5e-8 on 4.9.0. Fix: PR 24353. Fusion off does not help"

rng = np.random.default_rng(24353)
W1 = (rng.standard_normal((4, 2, 1, 3)) / 2).astype(np.float32)
W2 = (rng.standard_normal((3, 4, 1, 1)) / 2).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], kernel_shape=[1, 3], pads=[0, 1, 0, 1]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("CumSum", ["s", "axis"], ["k"]),
        helper.make_node("Conv", ["k", "w2"], ["y"], kernel_shape=[1, 1]),
    ]
    g = helper.make_graph(
        nodes,
        "running",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 8])],
        [
            numpy_helper.from_array(W1, "w1"),
            numpy_helper.from_array(W2, "w2"),
            numpy_helper.from_array(np.array(2, np.int64), "axis"),
        ],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(8).standard_normal((1, 2, 6, 8)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (0, 0), (1, 1)))
    c = np.zeros((1, 4, 6, 8))
    for j in range(8):
        c[:, :, :, j] = np.einsum("nchk,ock->noh", x[:, :, :, j : j + 3], W1[:, :, 0].astype(np.float64))
    s = 1 / (1 + np.exp(-c))
    k = np.zeros_like(s)
    total = 0.0
    for i in range(6):
        total = total + s[:, :, i]
        k[:, :, i] = total
    return {"y": np.einsum("nchw,oc->nohw", k, W2[:, :, 0, 0].astype(np.float64))}
