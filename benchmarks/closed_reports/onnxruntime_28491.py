"""onnxruntime#28491: Int8 weights that pass through DequantizeLinear and Reshape lose their negative values when the optimiser folds them."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/28491"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "DequantizeLinear"
VERDICT = "wrong"
CAUSES = (
    "quantized-operands",
    "fusion",
)
CAUSE = "graph optimisation swaps/propagates DequantizeLinear of constant int8 weights (no zero point) around Reshape and puts in a QuantizeLinear/DequantizeLinear pair without zero point, which means uint8: negative values are clipped to 0"
CONDITION = "int8 DequantizeLinear without zero point input, followed by Reshape/Transpose/Unsqueeze"
WORKAROUND = "graph optimisations off"
NOTE = "1.15.1 to 1.26.0: 7.0e-1, 12 of 15 elements, with optimisations off 6e-8; 1.27.0: 6e-8"


def _weights():
    r = np.random.default_rng(28491)
    return {
        "wq": r.integers(-90, 91, (4, 6)).astype(np.int8),
        "ws": np.float32(0.02),
        "shape": np.array([6, 4], np.int64),
        "b": r.standard_normal(4).astype(np.float32),
        "v": r.standard_normal((4, 3)).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["wd"]),
        helper.make_node("Reshape", ["wd", "shape"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    x = np.random.default_rng(4).standard_normal((5, 6)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    dense = (w["wq"].astype(np.float64) * np.float64(w["ws"])).reshape(6, 4)
    hidden = np.maximum(inputs["x"].astype(np.float64) @ dense + w["b"], 0)
    return {"y": hidden @ w["v"].astype(np.float64)}
