"""onnxruntime#28448: Linear Resize between DequantizeLinear and QuantizeLinear is done in integers that are cut off instead of rounded."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import dequantize, quantize, write

URL = "https://github.com/microsoft/onnxruntime/issues/28448"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "Resize"
VERDICT = "downgrade"
CAUSES = (
    "requantization",
    "fusion",
)
CAUSE = "QDQ propagation moves the DequantizeLinear behind Resize; the 8-bit linear Resize truncates the interpolated value instead of rounding to nearest"
CONDITION = "mode=linear on uint8/int8, input and output of the same scale and zero point"
WORKAROUND = "graph optimisations off"
NOTE = "1.26.0 and before: one quantum (0.0625; 1.1e-1 of the largest value) in 62 of 360 elements, with optimisations off none; 1.27.0: none"


def _weights():
    r = np.random.default_rng(28448)
    return {
        "s": np.float32(0.0625),
        "z": np.uint8(110),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "w": (r.standard_normal((1, 3, 1, 1))).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node(
            "Resize", ["d", "", "scales"], ["r"], mode="linear", coordinate_transformation_mode="half_pixel"
        ),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"]),
        helper.make_node("DequantizeLinear", ["rq", "s", "z"], ["rd"]),
        helper.make_node("Relu", ["rd"], ["y"]),
    ]
    x = np.random.default_rng(14).standard_normal((1, 3, 5, 6)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m = inputs["x"].astype(np.float64) * w["w"].astype(np.float64)
    d = dequantize(quantize(m, w["s"], w["z"], 0, 255), w["s"], w["z"])
    n, c, h, wd = d.shape
    r = np.zeros((n, c, 2 * h, 2 * wd))
    for i in range(2 * h):
        for j in range(2 * wd):
            py = min(max((i + 0.5) / 2 - 0.5, 0), h - 1)
            px = min(max((j + 0.5) / 2 - 0.5, 0), wd - 1)
            y0, x0 = int(py), int(px)
            y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, wd - 1)
            fy, fx = py - y0, px - x0
            r[:, :, i, j] = (1 - fy) * ((1 - fx) * d[:, :, y0, x0] + fx * d[:, :, y0, x1]) + fy * (
                (1 - fx) * d[:, :, y1, x0] + fx * d[:, :, y1, x1]
            )
    rd = dequantize(quantize(r, w["s"], w["z"], 0, 255), w["s"], w["z"])
    return {"y": np.maximum(rd, 0)}
