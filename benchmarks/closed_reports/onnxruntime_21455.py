"""onnxruntime#21455: Min drops NaN: where one operand is NaN the other one comes out."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/21455"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.18.1", "1.19.0"
FIRST_FAULTY = None
UNIT = "Min"
VERDICT = "wrong"
CAUSES = ("nan-semantics",)
CAUSE = "Min/Max use Eigen's min/max without NaN propagation (SIMD minps returns its second operand), so a NaN in one operand gives the other operand"
CONDITION = "NaN in one operand only, float32/float64; which operand depends on SIMD body or remainder"
WORKAROUND = None
NOTE = "1.18.1 and before: a number instead of NaN for the NaNs of the second operand; 1.19.0: right. Fix: PR 21492"


def _weights():
    r = np.random.default_rng(21455)
    return {
        "k": r.standard_normal(8).astype(np.float32),
        "b": r.standard_normal(8).astype(np.float32),
        "axes": np.array([1], np.int64),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Tanh", ["z"], ["t"]),
        helper.make_node("Min", ["m", "t"], ["l"]),
        helper.make_node("Add", ["l", "b"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["row"], keepdims=1),
    ]
    r = np.random.default_rng(20)
    x, z = r.standard_normal((5, 8)).astype(np.float32), r.standard_normal((5, 8)).astype(np.float32)
    x[0, 2] = z[1, 4] = z[3, 7] = np.nan
    write(truth, folder, nodes, {"x": x, "z": z}, _weights(), ["y", "row"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m, t = inputs["x"].astype(np.float64) * w["k"], np.tanh(inputs["z"].astype(np.float64))
    y = np.zeros(m.shape)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            a, c = m[i, j], t[i, j]
            y[i, j] = (np.nan if a != a or c != c else min(a, c)) + w["b"][j]
    return {"y": y, "row": y.sum(axis=1, keepdims=True)}
