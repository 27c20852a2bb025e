"""onnxruntime#28462: Erf turns NaN into 1."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/28462"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "Erf"
VERDICT = "wrong"
CAUSES = ("nan-semantics",)
CAUSE = "FMA3 kernel clamps with vminps in an operand order that returns the bound where the input is NaN, so NaN becomes erf(3.925) = 1"
CONDITION = "NaN in the input, float32, x86-64 with FMA3"
WORKAROUND = None
NOTE = "1.26.0 and before: 1 instead of NaN in 3 elements of y and 2 of row; 1.27.0: 1.2e-7. Fix: PR 28615"


def _weights():
    r = np.random.default_rng(28462)
    return {
        "k": (r.standard_normal(10) * 0.8).astype(np.float32),
        "b": r.standard_normal(10).astype(np.float32),
        "axes": np.array([1], np.int64),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Erf", ["m"], ["e"]),
        helper.make_node("Add", ["e", "b"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["row"], keepdims=1),
    ]
    x = np.random.default_rng(19).standard_normal((6, 10)).astype(np.float32)
    x[1, 3] = x[4, 0] = x[4, 9] = np.nan  # missing measurements
    write(truth, folder, nodes, {"x": x}, _weights(), ["y", "row"], 13, 8)


def _erf(v):
    """Power series of erf; good to rounding for the moderate arguments here."""
    if v != v:
        return np.nan
    if abs(v) > 5:
        return np.sign(v)
    term, total = v, v
    for n in range(1, 120):
        term *= -v * v / n
        total += term / (2 * n + 1)
    return 2 / np.sqrt(np.pi) * total


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m = inputs["x"].astype(np.float64) * w["k"].astype(np.float64)
    y = np.array([[_erf(v) for v in row] for row in m]) + w["b"].astype(np.float64)
    return {"y": y, "row": y.sum(axis=1, keepdims=True)}
