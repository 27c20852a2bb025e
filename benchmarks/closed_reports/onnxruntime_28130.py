"""onnxruntime#28130: A quantised Gemm (QDQ) with alpha other than 1 also multiplies its bias by alpha."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import dequantize, quantize, write

URL = "https://github.com/microsoft/onnxruntime/issues/28130"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.27.0", "1.28.0"
FIRST_FAULTY = None
UNIT = "Gemm"
VERDICT = "wrong"
CAUSES = (
    "fusion",
    "requantization",
)
CAUSE = "QDQ fusion to QGemm adds the int32 bias to the accumulator and then scales everything by alpha * a_scale * b_scale, so alpha multiplies the bias too"
CONDITION = "Gemm between DequantizeLinear and QuantizeLinear, alpha != 1, with bias"
WORKAROUND = "graph optimisations off"
NOTE = "1.27.0 and before: 5.4e-1, 15 of 15 elements, with optimisations off 6e-8; 1.28.0: 6e-8. Fix: PR 28131 (no fusion when alpha != 1 and a bias)"


def _weights():
    r = np.random.default_rng(28130)
    return {
        "s": np.float32(0.03125),
        "z": np.uint8(120),
        "w": r.integers(-60, 61, (8, 6)).astype(np.int8),
        "ws": np.float32(0.015625),
        "bias": r.integers(-6000, 6001, 6).astype(np.int32),
        "bs": np.float32(0.03125 * 0.015625),
        "os": np.float32(0.125),
        "oz": np.uint8(100),
        "v": r.standard_normal((6, 3)).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"]),
        helper.make_node("DequantizeLinear", ["bias", "bs"], ["bd"]),
        helper.make_node("Gemm", ["xd", "wd", "bd"], ["g"], alpha=0.5),
        helper.make_node("QuantizeLinear", ["g", "os", "oz"], ["gq"]),
        helper.make_node("DequantizeLinear", ["gq", "os", "oz"], ["gd"]),
        helper.make_node("Relu", ["gd"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    x = np.random.default_rng(13).standard_normal((5, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    xd = dequantize(quantize(inputs["x"].astype(np.float64), w["s"], w["z"], 0, 255), w["s"], w["z"])
    g = 0.5 * (xd @ dequantize(w["w"], w["ws"], 0)) + dequantize(w["bias"], w["bs"], 0)
    gd = dequantize(quantize(g, w["os"], w["oz"], 0, 255), w["os"], w["oz"])
    return {"y": np.maximum(gd, 0) @ w["v"].astype(np.float64)}
