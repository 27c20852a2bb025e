"""onnxruntime#22177: A zero Pad in front of AveragePool is folded into its pads, after which the padded zeros are no longer counted."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/issues/22177"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.20.1", "1.21.0"
FIRST_FAULTY = "1.20.0"
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = (
    "fusion",
    "padding",
)
CAUSE = "graph optimisation PadFusion moves Pad into the AveragePool's pads without setting count_include_pad=1, so border windows are divided by too few elements"
CONDITION = "constant Pad (value 0) directly before AveragePool with count_include_pad=0"
WORKAROUND = "graph optimisations off"
NOTE = "1.20.0 and 1.20.1: 6.5e-1, 42 of 60 elements, with optimisations off 1.5e-7; 1.19.2 and 1.21.0: 8.5e-8. Introduced by PR 21556, fix: PR 23190"


def _weights():
    r = np.random.default_rng(22177)
    return {
        "w0": (r.standard_normal((4, 2, 3, 3)) * 0.4).astype(np.float32),
        "b0": r.standard_normal(4).astype(np.float32),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        "zero": np.float32(0),
        "w1": (r.standard_normal((3, 4, 1, 1)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Pad", ["s", "pads", "zero"], ["q"], mode="constant"),
        helper.make_node("AveragePool", ["q"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w1"], ["y"]),
    ]
    x = np.random.default_rng(3).standard_normal((1, 2, 11, 9)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    s = 1 / (1 + np.exp(-conv(inputs["x"].astype(np.float64), w["w0"], w["b0"])))
    n, c, h, wd = s.shape
    q = np.zeros((n, c, h + 2, wd + 2))
    q[:, :, 1:-1, 1:-1] = s
    p = np.zeros((n, c, (h + 2 - 3) // 2 + 1, (wd + 2 - 3) // 2 + 1))
    for i in range(p.shape[2]):
        for j in range(p.shape[3]):
            p[:, :, i, j] = q[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].sum(axis=(2, 3)) / 9
    return {"y": conv(p, w["w1"])}
