"""openvino#36714: AveragePool with ceil_mode=1 has one window too many when the last window would begin in the end padding."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/pull/36714"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2026.3.1", "2026.4.1"
FIRST_FAULTY = None
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "ceil_mode=1 was mapped to RoundingType CEIL rather than CEIL_TORCH, so a window that starts in the end padding is kept: an additional output row and column"
CONDITION = "ceil_mode=1 and (outputs-1)*stride reaches past the data and begin padding"
WORKAROUND = None
NOTE = "relative error 0.33, 12 of 12 values, on 2023.0.0 to 2026.3.1 (default and f32); 6e-8 on 2026.4.1. Fix: PR 36714 (issues 20553, 33369)"

rng = np.random.default_rng(36714)
W1 = (rng.standard_normal((4, 3, 3, 3)) / 3).astype(np.float32)
B1 = (rng.standard_normal(4) + 1).astype(np.float32)
W2 = rng.standard_normal((4, 6)).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node(
            "AveragePool",
            ["r"],
            ["p"],
            kernel_shape=[2, 2],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "pooled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 7, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 6])],
        [numpy_helper.from_array(a, n) for n, a in {"w1": W1, "b1": B1, "w2": W2}.items()],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(2).standard_normal((2, 3, 7, 9)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = inputs["x"].astype(np.float64)
    n, _, h, w = x.shape
    xp = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((n, 4, h, w))
    for i in range(h):
        for j in range(w):
            c[:, :, i, j] = np.einsum("ncij,ocij->no", xp[:, :, i : i + 3, j : j + 3], W1.astype(np.float64)) + B1
    r = np.pad(np.maximum(c, 0), ((0, 0), (0, 0), (1, 1), (1, 1)))

    def count(size):  # outputs along one axis: ceil, less a window that begins in the end padding
        o = -(-(size + 2 - 2) // 2) + 1
        return o - 1 if (o - 1) * 2 >= size + 1 else o

    oh, ow = count(h), count(w)
    p = np.zeros((n, 4, oh, ow))
    for i in range(oh):
        for j in range(ow):
            p[:, :, i, j] = r[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean(axis=(2, 3))
    return {"y": p.mean(axis=(2, 3)) @ W2.astype(np.float64)}
