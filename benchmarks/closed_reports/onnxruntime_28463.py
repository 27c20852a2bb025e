"""onnxruntime#28463: LayerNormalization of values far from zero gives NaN or garbage (variance as difference of two large numbers)."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/28463"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "LayerNormalization"
VERDICT = "wrong"
CAUSES = ("cancellation",)
CAUSE = "variance computed in one pass as E[x^2] - E[x]^2 in float32: cancellation where the mean is large against the spread; negative variance gives NaN"
CONDITION = "large mean, small variance in the normalised axis"
WORKAROUND = None
NOTE = "1.26.0 and before: NaN or wrong by more than the largest value; 1.27.0: right to rounding. Fix: PR 28743 (two passes). Older report of the same fault: 21935"


def _weights():
    r = np.random.default_rng(28463)
    return {
        "offset": np.array([[5.0], [60.0], [-256.0], [3001.25], [1717.375], [2500.625], [-1999.125]], np.float32),
        "g": (r.standard_normal(16) + 1).astype(np.float32),
        "b": r.standard_normal(16).astype(np.float32),
        "w": (r.standard_normal((16, 4)) * 0.4).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "offset"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["l"], axis=-1, epsilon=1e-5),
        helper.make_node("MatMul", ["l", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    x = np.random.default_rng(11).standard_normal((7, 16)).astype(np.float32)
    x[3:] = 0  # rows without any spread, far from zero
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    a = inputs["x"].astype(np.float64) + w["offset"].astype(np.float64)
    l = np.zeros(a.shape)
    for i in range(a.shape[0]):
        d = a[i] - a[i].sum() / 16
        l[i] = d / np.sqrt((d * d).sum() / 16 + 1e-5) * w["g"] + w["b"]
    return {"y": np.maximum(l @ w["w"].astype(np.float64), 0)}
