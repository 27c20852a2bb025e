"""onnxruntime#32725: Pad with mode wrap goes round only once: pads larger than the axis read past the data."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/pull/32725"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.30.0", "1.31.0"
FIRST_FAULTY = None
UNIT = "Pad"
VERDICT = "wrong"
CAUSES = (
    "padding",
    "index-overflow",
)
CAUSE = "wrap padding copies from one period only; where the padding exceeds the extent of the axis the index is not taken modulo the extent"
CONDITION = "mode=wrap and padding larger than the axis"
WORKAROUND = None
NOTE = "1.16.3 to 1.30.0: about 1.0, 42 of 168 elements (partly uninitialised memory); 1.31.0: 8e-8. Fix: PR 32725"


def _weights():
    r = np.random.default_rng(32725)
    return {
        "w0": (r.standard_normal((3, 2, 1, 3)) * 0.4).astype(np.float32),
        "pads": np.array([0, 0, 0, 7, 0, 0, 5, 2], np.int64),
        "w1": (r.standard_normal((2, 3, 2, 2)) * 0.7).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("Pad", ["t", "pads"], ["p"], mode="wrap"),
        helper.make_node("Conv", ["p", "w1"], ["y"]),
    ]
    x = np.random.default_rng(8).standard_normal((1, 2, 3, 6)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 19, 9)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    t = np.tanh(conv(inputs["x"].astype(np.float64), w["w0"]))
    n, c, h, wd = t.shape
    p = np.zeros((n, c, h + 5, wd + 9))
    for i in range(p.shape[2]):
        for j in range(p.shape[3]):
            p[:, :, i, j] = t[:, :, i % h, (j - 7) % wd]
    return {"y": conv(p, w["w1"])}
