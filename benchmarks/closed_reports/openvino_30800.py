"""openvino#30800: GatherElements reads outside the row for negative indices (garbage, other rows), instead of counting from the end."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/pull/30800"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2025.2.0", "2025.3.0"
FIRST_FAULTY = None
UNIT = "GatherElements"
VERDICT = "wrong"
CAUSES = (
    "index-overflow",
    "uninitialized-memory",
)
CAUSE = "negative indices were not supported by the CPU kernel (and the reference): used as they are as an offset, without adding the axis length"
CONDITION = "some index below zero"
WORKAROUND = None
NOTE = "relative error 0.84, 83 of 90 values, on 2025.2.0 (also 2023.0.0; the values read out of bounds vary from run to run), default and f32; 9e-8 on 2025.3.0. Fix: PR 30800"

rng = np.random.default_rng(30800)
W1 = (rng.standard_normal((3, 2, 3, 3)) / 3).astype(np.float32)
B1 = rng.standard_normal(3).astype(np.float32)
IDX = rng.integers(-7, 7, (1, 3, 6, 4)).astype(np.int64)
W2 = rng.standard_normal((4, 5)).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["c"], ["t"]),
        helper.make_node("GatherElements", ["t", "idx"], ["s"], axis=3),
        helper.make_node("MatMul", ["s", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "pick",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 5])],
        [numpy_helper.from_array(a, n) for n, a in {"w1": W1, "b1": B1, "idx": IDX, "w2": W2}.items()],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(11).standard_normal((1, 2, 6, 7)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((1, 3, 6, 7))
    for i in range(6):
        for j in range(7):
            c[:, :, i, j] = np.einsum("ncij,ocij->no", x[:, :, i : i + 3, j : j + 3], W1.astype(np.float64)) + B1
    t = np.tanh(c)
    s = np.zeros(IDX.shape)
    for pos in np.ndindex(*IDX.shape):
        k = int(IDX[pos])
        s[pos] = t[(*pos[:3], k + 7 if k < 0 else k)]
    return {"y": s @ W2.astype(np.float64)}
