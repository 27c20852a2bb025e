"""opencv#25103: ReduceMean of a five-dimensional tensor over a leading axis gives wrong values."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/opencv/opencv/issues/25103"
ENGINE = "opencv"
MODEL = "model.onnx"
FAULTY, FIXED = "4.9.0.80", "4.10.0.84"
FIRST_FAULTY = "4.8.0.76"
UNIT = "ReduceMean"
VERDICT = "wrong"
CAUSES = (
    "strided-view",
    "shape-specific-kernel",
)
CAUSE = "the reduce layer refactored for 4.8.0 computed wrong source offsets of the elements to be reduced; fixed by PR 25120"
CONDITION = "five dimensions, reduced over axis 0 (leading), four unreduced axes behind it"
WORKAROUND = None
NOTE = "relative error 0.77 on 4.9.0, 48 of 120 values (and 1.0 on 4.8.0); 4.7.0 and 4.10.0 right (4e-8). Fix: PR 25120; issue 25456 (ReduceSum) is the same fault. Fusion off does not help"

rng = np.random.default_rng(25103)
A = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("ReduceMean", ["t"], ["m"], axes=[0], keepdims=0),
        helper.make_node("Mul", ["m", "a"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "ensemble_mean",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, 3, 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 4, 5])],
        [numpy_helper.from_array(A, "a")],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(6).standard_normal((2, 2, 3, 4, 5)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    t = np.tanh(inputs["x"].astype(np.float64))
    return {"y": np.maximum((t[0] + t[1]) / 2 * A.astype(np.float64), 0)}
