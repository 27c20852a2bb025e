"""onnxruntime#15446: MaxPool with ceil_mode makes a last window that lies in the padding alone."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/issues/15446"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.20.1", "1.21.0"
FIRST_FAULTY = None
UNIT = "MaxPool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "output size for ceil_mode=1 counts a window that starts in the end padding; it holds no element and yields the lowest float, and the output is one row or column too large"
CONDITION = "ceil_mode=1 and the last window would start beyond the input (in the end padding)"
WORKAROUND = None
NOTE = "1.15.1 to 1.20.1: output 1x3x3x3 instead of 1x3x2x3; 1.21.0: 6.7e-8. Fix: PR 16752"


def _weights():
    r = np.random.default_rng(15446)
    return {
        "w0": (r.standard_normal((4, 2, 3, 3)) * 0.4).astype(np.float32),
        "w1": (r.standard_normal((3, 4, 1, 1)) * 0.7).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1),
        helper.make_node("Tanh", ["p"], ["t"]),
        helper.make_node("Conv", ["t", "w1"], ["y"]),
    ]
    x = np.random.default_rng(9).standard_normal((1, 2, 7, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    a = conv(inputs["x"].astype(np.float64), w["w0"])
    n, c, h, wd = a.shape
    size = []
    for extent in (h, wd):
        out = -(-(extent + 2 - 3) // 3) + 1
        if (out - 1) * 3 >= extent + 1:  # the last window would start in the end padding
            out -= 1
        size.append(out)
    p = np.full((n, c, *size), -np.inf)
    for i in range(size[0]):
        for j in range(size[1]):
            for r in range(3 * i - 1, 3 * i + 2):
                for s in range(3 * j - 1, 3 * j + 2):
                    if 0 <= r < h and 0 <= s < wd:
                        p[:, :, i, j] = np.maximum(p[:, :, i, j], a[:, :, r, s])
    return {"y": conv(np.tanh(p), w["w1"])}
