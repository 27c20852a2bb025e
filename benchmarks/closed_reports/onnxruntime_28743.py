"""onnxruntime#28743: ReduceL2 of int32 overflows in the sum of squares although the norm itself fits."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/28743"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "ReduceL2"
VERDICT = "wrong"
CAUSES = ("overflow",)
CAUSE = "integer ReduceL2 (also ReduceSumSquare, ReduceProd) accumulates in the element type; the sum of squares wraps around before the square root"
CONDITION = "int32/int64 input whose sum of squares exceeds the type"
WORKAROUND = None
NOTE = "1.20.1 to 1.26.0: 7e2 times the largest value, 15 of 15 elements; 1.27.0: 7e-8. Fix: PR 28743 (accumulates integers in double)"


def _weights():
    r = np.random.default_rng(28743)
    return {
        "k": np.array([300, 7, 9000, 41], np.int32),
        "axes": np.array([2], np.int64),
        "scale": np.float32(1e-3),
        "w": r.standard_normal((4, 3)).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Transpose", ["m"], ["t"], perm=[0, 2, 1]),
        helper.make_node("ReduceL2", ["t", "axes"], ["n"], keepdims=0),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "scale"], ["g"]),
        helper.make_node("MatMul", ["g", "w"], ["y"]),
    ]
    x = np.random.default_rng(27).integers(-40, 41, (5, 6, 4)).astype(np.int32)
    x[0] *= 9
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 18, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m = inputs["x"].astype(np.int64) * w["k"].astype(np.int64)
    norm = np.array(
        [[int(np.sqrt(float(sum(int(v) ** 2 for v in m[i, :, j])))) for j in range(4)] for i in range(5)], np.float64
    )
    return {"y": norm * 1e-3 @ w["w"].astype(np.float64)}
