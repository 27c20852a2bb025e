"""openvino#30842: AveragePool of opset 19 ignores its dilations."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/pull/30842"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2025.2.0", "2025.3.0"
FIRST_FAULTY = None
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("dropped-attribute",)
CAUSE = "the reader of AveragePool did not look at the dilations attribute that opset 19 added"
CONDITION = "dilations above 1"
WORKAROUND = None
NOTE = "relative error 0.25, 6 of 6 values, on 2023.0.0 to 2025.2.0 (default and f32); 9e-8 on 2025.3.0. Fix: PR 30842 (named by PR 36714)"

rng = np.random.default_rng(30842)
W1 = (rng.standard_normal((4, 2, 3, 3)) / 3).astype(np.float32)
B1 = rng.standard_normal(4).astype(np.float32)
W2 = rng.standard_normal((4, 3)).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[1, 1], dilations=[3, 2]),
        helper.make_node("GlobalMaxPool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "dilated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, 9, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(a, n) for n, a in {"w1": W1, "b1": B1, "w2": W2}.items()],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(12).standard_normal((2, 2, 9, 8)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((2, 4, 9, 8))
    for i in range(9):
        for j in range(8):
            c[:, :, i, j] = np.einsum("ncij,ocij->no", x[:, :, i : i + 3, j : j + 3], W1.astype(np.float64)) + B1
    r = np.maximum(c, 0)
    p = np.zeros((2, 4, 6, 6))
    for i in range(6):
        for j in range(6):
            p[:, :, i, j] = (r[:, :, i, j] + r[:, :, i + 3, j] + r[:, :, i, j + 2] + r[:, :, i + 3, j + 2]) / 4
    return {"y": p.max(axis=(2, 3)) @ W2.astype(np.float64)}
