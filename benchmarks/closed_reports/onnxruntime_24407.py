"""onnxruntime#24407: A one-element factor of higher rank after MatMul is folded into FusedMatMul, and the output loses its leading axes."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/24407"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.22.1", "1.23.0"
FIRST_FAULTY = None
UNIT = "Mul"
VERDICT = "wrong"
CAUSES = ("fusion",)
CAUSE = "MatMulScaleFusion takes a one-element scale of rank 3 or 4 for a scalar; Mul would have broadcast the product to that rank"
CONDITION = (
    "constant with one element whose rank is higher than the MatMul's output, factor of Mul or Div next to MatMul"
)
WORKAROUND = "graph optimisations off"
NOTE = "1.22.1 and before: output 5x6 instead of 1x5x6, with optimisations off right; 1.23.0: 4.5e-8. Fix: PR 24492"


def _weights():
    r = np.random.default_rng(24407)
    return {
        "w": (r.standard_normal((7, 6)) * 0.5).astype(np.float32),
        "scale": np.full((1, 1, 1), 0.35, np.float32),
        "b": r.standard_normal(6).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("MatMul", ["t", "w"], ["m"]),
        helper.make_node("Mul", ["m", "scale"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["g"]),
        helper.make_node("Add", ["g", "b"], ["y"]),
    ]
    x = np.random.default_rng(12).standard_normal((5, 7)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    s = (np.tanh(inputs["x"].astype(np.float64)) @ w["w"].astype(np.float64)) * w["scale"].astype(np.float64)
    return {"y": 1 / (1 + np.exp(-s)) + w["b"]}
