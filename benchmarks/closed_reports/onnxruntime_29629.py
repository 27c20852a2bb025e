"""onnxruntime#29629: AveragePool before opset 19 with ceil_mode and count_include_pad divides the last windows by the whole kernel size."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/issues/29629"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.28.0", "1.29.0"
FIRST_FAULTY = None
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "with ceil_mode=1 and count_include_pad=1 the last window, which reaches beyond input and padding, is divided by the full kernel size, counting cells that do not exist"
CONDITION = "opset 7 to 18, float, ceil_mode=1, count_include_pad=1, last window beyond the end padding"
WORKAROUND = None
NOTE = "1.15.1 to 1.28.0: 2.1e-1, 24 of 60 elements; 1.29.0: 1.1e-7. Fix: PR 29629 (sends the combination to the reference loop)"


def _weights():
    r = np.random.default_rng(29629)
    return {
        "w0": (r.standard_normal((5, 3, 3, 3)) * 0.3).astype(np.float32),
        "b0": r.standard_normal(5).astype(np.float32),
        "w1": (r.standard_normal((3, 5, 1, 1)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "AveragePool",
            ["a"],
            ["p"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        ),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("Conv", ["r", "w1"], ["y"]),
    ]
    x = np.random.default_rng(2).standard_normal((1, 3, 8, 6)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 13, 8)


def _average(a):
    n, c, h, w = a.shape
    oh, ow = -(-(h + 2 - 3) // 2) + 1, -(-(w + 2 - 3) // 2) + 1  # ceil_mode
    y = np.zeros((n, c, oh, ow))
    for i in range(oh):
        for j in range(ow):
            total, count = np.zeros((n, c)), 0
            for r in range(2 * i - 1, 2 * i + 2):
                for s in range(2 * j - 1, 2 * j + 2):
                    if r > h or s > w:  # beyond the end padding of 1: no such cell
                        continue
                    count += 1
                    if 0 <= r < h and 0 <= s < w:
                        total += a[:, :, r, s]
            y[:, :, i, j] = total / count
    return y


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    a = conv(inputs["x"].astype(np.float64), w["w0"], w["b0"], (1, 1, 1, 1))
    return {"y": conv(np.maximum(_average(a), 0), w["w1"])}
