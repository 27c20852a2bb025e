"""onnxruntime#15844: A normalisation written out over axis 1 is fused into LayerNormalization over the last axis."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/15844"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.15.1", "1.16.0"
FIRST_FAULTY = None
UNIT = "ReduceMean"
VERDICT = "wrong"
CAUSES = ("fusion",)
CAUSE = "LayerNormFusion does not look at the axes of ReduceMean: mean and variance over any axis become LayerNormalization over the last axis"
CONDITION = "ReduceMean axes are not the last axis, keepdims=1, pattern Sub/Pow/ReduceMean/Add/Sqrt/Div/Mul/Add"
WORKAROUND = "graph optimisations off"
NOTE = "1.15.1: 6.7e-1, 40 of 40 elements, with optimisations off 1.1e-7; 1.16.0: 1.1e-7. Fix: PR 15844 (more checks on the axes of ReduceMean)"


def _weights():
    r = np.random.default_rng(15844)
    return {
        "two": np.float32(2),
        "eps": np.float32(1e-3),
        "g": (r.standard_normal(8) + 1).astype(np.float32),
        "b": r.standard_normal(8).astype(np.float32),
        "w": (r.standard_normal((8, 4)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("ReduceMean", ["t"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["t", "mean"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["sq"]),
        helper.make_node("ReduceMean", ["sq"], ["var"], axes=[1], keepdims=1),
        helper.make_node("Add", ["var", "eps"], ["ve"]),
        helper.make_node("Sqrt", ["ve"], ["sd"]),
        helper.make_node("Div", ["d", "sd"], ["n"]),
        helper.make_node("Mul", ["n", "g"], ["ng"]),
        helper.make_node("Add", ["ng", "b"], ["l"]),
        helper.make_node("MatMul", ["l", "w"], ["y"]),
    ]
    x = np.random.default_rng(5).standard_normal((2, 5, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    t = np.tanh(inputs["x"].astype(np.float64))
    out = np.zeros(t.shape)
    for n in range(t.shape[0]):
        for c in range(t.shape[2]):
            column = t[n, :, c]  # along axis 1
            d = column - column.sum() / len(column)
            out[n, :, c] = d / np.sqrt((d * d).sum() / len(column) + np.float64(w["eps"])) * w["g"][c] + w["b"][c]
    return {"y": out @ w["w"].astype(np.float64)}
