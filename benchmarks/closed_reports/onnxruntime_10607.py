"""onnxruntime#10607: GridSample bicubic with border padding moves the sampling point to the border before it interpolates."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import conv, write

URL = "https://github.com/microsoft/onnxruntime/issues/10607"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.16.3", "1.17.0"
FIRST_FAULTY = None
UNIT = "GridSample"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "with padding_mode=border the point itself is clamped to the image before the 4x4 neighbourhood is taken, where only the neighbours' indices may be clamped"
CONDITION = "mode=bicubic, padding_mode=border, points outside the image by less than 2 pixels"
WORKAROUND = None
NOTE = "1.15.1 and 1.16.3: 8.6e-2, 12 of 60 elements; 1.17.0: 7e-7. Repaired with the rewrite for GridSample-20, PR 17744 (the stored copy of the issue still reads open; PR 10628 proposed the same repair)"


def _weights():
    r = np.random.default_rng(10607)
    return {
        "w0": (r.standard_normal((3, 2, 3, 3)) * 0.4).astype(np.float32),
        "w1": (r.standard_normal((2, 3, 1, 1)) * 0.7).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("GridSample", ["r", "grid"], ["g"], mode="bicubic", padding_mode="border", align_corners=0),
        helper.make_node("Conv", ["g", "w1"], ["y"]),
    ]
    r = np.random.default_rng(7)
    x = r.standard_normal((1, 2, 6, 7)).astype(np.float32)
    grid = r.uniform(-1.35, 1.35, (1, 5, 6, 2)).astype(np.float32)
    write(truth, folder, nodes, {"x": x, "grid": grid}, _weights(), ["y"], 16, 8)


def _cubic(t):
    a, t = -0.75, abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    r = np.maximum(conv(inputs["x"].astype(np.float64), w["w0"], None, (1, 1, 1, 1)), 0)
    n, c, h, wd = r.shape
    grid = inputs["grid"].astype(np.float64)
    g = np.zeros((n, c, *grid.shape[1:3]))
    for b in range(n):
        for i in range(grid.shape[1]):
            for j in range(grid.shape[2]):
                px = ((grid[b, i, j, 0] + 1) * wd - 1) / 2
                py = ((grid[b, i, j, 1] + 1) * h - 1) / 2
                x0, y0 = int(np.floor(px)), int(np.floor(py))
                for yy in range(y0 - 1, y0 + 3):
                    for xx in range(x0 - 1, x0 + 3):
                        value = r[b, :, min(max(yy, 0), h - 1), min(max(xx, 0), wd - 1)]
                        g[b, :, i, j] += value * _cubic(py - yy) * _cubic(px - xx)
    return {"y": conv(g, w["w1"])}
