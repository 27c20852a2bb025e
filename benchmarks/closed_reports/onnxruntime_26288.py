"""onnxruntime#26288: ReduceSumSquare with no axes and noop_with_empty_axes=1 hands its input through instead of squaring it."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/26288"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.23.2", "1.24.1"
FIRST_FAULTY = None
UNIT = "ReduceSumSquare"
VERDICT = "wrong"
CAUSES = (
    "dropped-attribute",
    "fusion",
)
CAUSE = "noop_with_empty_axes=1 with empty axes is taken as identity; the element-wise part (square, also log, absolute value) must still be applied"
CONDITION = "axes empty and noop_with_empty_axes=1"
WORKAROUND = None
NOTE = "1.17.0 to 1.23.2: 1.2, 11 of 12 elements (1.15.1 and 1.16.3: reduced over all axes, another shape); 1.24.1: 3.7e-7. Fix: PR 26436"


def _weights():
    r = np.random.default_rng(26288)
    return {
        "w": (r.standard_normal((6, 5)) * 0.6).astype(np.float32),
        "axes": np.array([], np.int64),
        "b": r.standard_normal(5).astype(np.float32),
        "v": r.standard_normal((5, 3)).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ReduceSumSquare", ["m", "axes"], ["q"], keepdims=1, noop_with_empty_axes=1),
        helper.make_node("Add", ["q", "b"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["y"]),
    ]
    x = np.random.default_rng(6).standard_normal((4, 6)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 18, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m = inputs["x"].astype(np.float64) @ w["w"].astype(np.float64)
    return {"y": (m * m + w["b"]) @ w["v"].astype(np.float64)}
