"""onnxruntime#24681: AveragePool of opset 19 leaves the padding behind the input out of the average although count_include_pad=1."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/issues/24681"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.24.4", "1.25.0"
FIRST_FAULTY = "1.21.0"
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "the divisor counts padding before the input but not after it (end of the window clipped to the input instead of input plus end padding) with count_include_pad=1"
CONDITION = "opset 19 or later, count_include_pad=1, padding at the end (pads or auto_pad=SAME)"
WORKAROUND = None
NOTE = "1.24.4: 1.4e-1 of the largest value, 16 of 144 elements (last rows and columns); 1.16.3 to 1.20.1 right, 1.21.0 (after PR 16752) to 1.24.4 wrong, 1.25.1 right (1.3e-7). Fix: PR 27375"


def _weights():
    r = np.random.default_rng(24681)
    return {
        "w0": (r.standard_normal((4, 3, 3, 3)) * 0.3).astype(np.float32),
        "b0": r.standard_normal(4).astype(np.float32),
        "w1": (r.standard_normal((2, 4, 1, 1)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[5, 3], auto_pad="SAME_LOWER", count_include_pad=1),
        helper.make_node("Conv", ["p", "w1"], ["y"]),
    ]
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 19, 9)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    r = np.maximum(conv(inputs["x"].astype(np.float64), w["w0"], w["b0"], (1, 1, 1, 1)), 0)
    n, c, h, wd = r.shape
    p = np.zeros_like(r)
    for i in range(h):  # kernel 5 x 3, padding 2 and 1 on either side, stride 1: the output is as large as the input
        for j in range(wd):
            total = np.zeros((n, c))
            for di in range(-2, 3):
                for dj in range(-1, 2):
                    if 0 <= i + di < h and 0 <= j + dj < wd:
                        total += r[:, :, i + di, j + dj]
            p[:, :, i, j] = total / 15.0
    return {"y": conv(p, w["w1"])}
