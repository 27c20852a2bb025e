"""opencv#24694: an activation behind a MatMul of two computed tensors is lost: it is fused into the layer, which does not apply it."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/opencv/opencv/pull/24694"
ENGINE = "opencv"
MODEL = "model.onnx"
FAULTY, FIXED = "4.8.1.78", "4.9.0.80"
FIRST_FAULTY = None
UNIT = "MatMul"
VERDICT = "wrong"
CAUSES = ("fusion",)
CAUSE = "MatMul without constant operand ran in the InnerProduct layer, which accepts the following activation for fusion but applies it only where it has constant weights; the fix replaced it by a MatMul layer of its own"
CONDITION = "both operands computed, followed by an activation (Relu)"
WORKAROUND = "enableFusion(False)"
NOTE = "relative error 49 on 4.5.5 to 4.8.1, 69 of 70 values, both activations lost; 1e-7 with fusion off and on 4.9.0. The PR is a rewrite of the layer, not a bug report: it ended the fault in 4.9.0"

rng = np.random.default_rng(24694)
WQ = (rng.standard_normal((6, 5)) / 2).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("Sigmoid", ["q"], ["x2"]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "k"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "q"], ["v"]),
        helper.make_node("Tanh", ["v"], ["t"]),
        helper.make_node("Add", ["t", "x2"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 7, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 7, 5])],
        [numpy_helper.from_array(WQ, "wq")],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(10).standard_normal((1, 2, 7, 6)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    q = inputs["x"].astype(np.float64) @ WQ.astype(np.float64)
    b = np.maximum(q @ q.transpose(0, 1, 3, 2), 0)
    return {"y": np.tanh(b @ q) + 1 / (1 + np.exp(-q))}
