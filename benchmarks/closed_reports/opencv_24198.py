"""opencv#24198: ReduceMean over the channel axis gives wrong values in 4.8.0."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/opencv/opencv/issues/24198"
ENGINE = "opencv"
MODEL = "model.onnx"
FAULTY, FIXED = "4.8.1.78", "4.9.0.80"
FIRST_FAULTY = "4.8.0.76"
UNIT = "ReduceMean"
VERDICT = "wrong"
CAUSES = (
    "strided-view",
    "shape-specific-kernel",
)
CAUSE = "the reduce layer refactored for 4.8.0 (PR 23613) read the wrong elements where the axes kept lie behind the reduced axis; fixed by PR 24108 as the issue's thread says"
CONDITION = "a reduced axis with unreduced axes behind it (channel mean of NCHW)"
WORKAROUND = None
NOTE = "relative error 0.30 on 4.8.0.76 and 4.8.1.78, 56 of 72 values; 4.7.0 and 4.9.0 right (7e-8). The CAUSE beyond 'ReduceMean, PR 24108' is inferred from behaviour. Fusion off does not help"

rng = np.random.default_rng(24198)
W1 = (rng.standard_normal((4, 3, 3, 3)) / 3).astype(np.float32)
B1 = rng.standard_normal(4).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[1], keepdims=1),
        helper.make_node("Sigmoid", ["m"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "spatial_attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 8, 9])],
        [numpy_helper.from_array(W1, "w1"), numpy_helper.from_array(B1, "b1")],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(7).standard_normal((1, 3, 8, 9)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((1, 4, 8, 9))
    for i in range(8):
        for j in range(9):
            c[:, :, i, j] = np.einsum("ncij,ocij->no", x[:, :, i : i + 3, j : j + 3], W1.astype(np.float64)) + B1
    m = np.maximum(c, 0).sum(axis=1, keepdims=True) / 4
    return {"y": 1 / (1 + np.exp(-m))}
