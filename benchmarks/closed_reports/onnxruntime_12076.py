"""onnxruntime#12076: Floor of numbers beyond the int32 range gives -2147483648."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/issues/12076"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.15.1", "1.16.0"
FIRST_FAULTY = None
UNIT = "Floor"
VERDICT = "wrong"
CAUSES = (
    "overflow",
    "index-overflow",
)
CAUSE = (
    "Eigen's SSE2 floor goes through a conversion to int32, which overflows for |x| >= 2^31 (and for NaN and infinity)"
)
CONDITION = "|x| >= 2^31 in the SIMD part of the tensor (groups of four)"
WORKAROUND = None
NOTE = "1.15.1: 1.1, 15 of 32 elements; 1.16.0: 3e-8 (newer Eigen). Reported for 1.12"


def _weights():
    np.random.default_rng(12076)
    return {"k": np.array([1.0, 10.0, 1e5, 1e9, 3e9, 1e11, 7.0, 1e14], np.float32), "bias": np.float32(0.25)}


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["a"]),
        helper.make_node("Floor", ["a"], ["f"]),
        helper.make_node("Div", ["f", "k"], ["y"]),
    ]
    x = np.random.default_rng(21).uniform(1, 9, (4, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    k = w["k"].astype(np.float64)
    a = (inputs["x"] * w["k"] + w["bias"]).astype(np.float64)  # float32 steps: the numbers that Floor is given
    return {"y": np.array([[float(int(v // 1)) for v in row] for row in a]) / k}
