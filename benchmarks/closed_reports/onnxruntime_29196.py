"""onnxruntime#29196: x / sqrt(mean(x^3) + eps) * g is fused into SimplifiedLayerNormalization, which squares instead."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/29196"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.27.0", "1.28.0"
FIRST_FAULTY = None
UNIT = "Pow"
VERDICT = "wrong"
CAUSES = ("fusion",)
CAUSE = "SimplifiedLayerNormFusion does not check that the exponent of Pow is 2"
CONDITION = "pattern Pow/ReduceMean/Add/Sqrt/Div/Mul with another exponent than 2"
WORKAROUND = "graph optimisations off"
NOTE = "1.15.1 to 1.27.0: 3.3e-1, 40 of 40 elements, with optimisations off 1.4e-7; 1.28.0: 8.8e-8. Fix: PR 29196 (adds the check of the exponent)"


def _weights():
    r = np.random.default_rng(29196)
    return {
        "e": np.float32(4),
        "eps": np.float32(1e-2),
        "g": (r.standard_normal(8) + 1).astype(np.float32),
        "w": (r.standard_normal((8, 4)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Pow", ["t", "e"], ["p"]),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[-1], keepdims=1),
        helper.make_node("Add", ["m", "eps"], ["ve"]),
        helper.make_node("Sqrt", ["ve"], ["sd"]),
        helper.make_node("Div", ["t", "sd"], ["n"]),
        helper.make_node("Mul", ["n", "g"], ["ng"]),
        helper.make_node("MatMul", ["ng", "w"], ["y"]),
    ]
    x = np.random.default_rng(5).standard_normal((2, 5, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    t = np.tanh(inputs["x"].astype(np.float64))
    mean = (t**4).sum(axis=-1, keepdims=True) / t.shape[-1]
    n = t / np.sqrt(mean + np.float64(w["eps"])) * w["g"].astype(np.float64)
    return {"y": n @ w["w"].astype(np.float64)}
