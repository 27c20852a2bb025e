"""opencv#23795: nearest-neighbour Resize of an ONNX model samples as for asymmetric although half_pixel is asked for."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/opencv/opencv/pull/23795"
ENGINE = "opencv"
MODEL = "model.onnx"
FAULTY, FIXED = "4.7.0.72", "4.8.0.76"
FIRST_FAULTY = None
UNIT = "Resize"
VERDICT = "wrong"
CAUSES = ("dropped-attribute",)
CAUSE = "the ONNX importer dropped coordinate_transformation_mode=half_pixel for mode nearest: output index times scale, rounded down, without the half-pixel shift"
CONDITION = "mode=nearest with half_pixel, a scale that is not a whole number"
WORKAROUND = None
NOTE = "relative error 1.35 on 4.7.0 (also 4.5.5, 4.6.0), 72 of 72 values; 2e-7 on 4.8.0 and later. Fix: PR 23795 (issue 23745 asks for the mode). Fusion off does not help"

rng = np.random.default_rng(23795)
W1 = (rng.standard_normal((4, 2, 3, 3)) / 3).astype(np.float32)
B1 = rng.standard_normal(4).astype(np.float32)
W2 = (rng.standard_normal((3, 4, 3, 3)) / 4).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node(
            "Resize",
            ["r", "roi", "none", "sizes"],
            ["u"],
            mode="nearest",
            coordinate_transformation_mode="half_pixel",
            nearest_mode="round_prefer_floor",
        ),
        helper.make_node("Conv", ["u", "w2"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    g = helper.make_graph(
        nodes,
        "shrink",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 10, 15])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 6])],
        [
            numpy_helper.from_array(a, n)
            for n, a in {
                "w1": W1,
                "b1": B1,
                "w2": W2,
                "roi": np.zeros(0, np.float32),
                "none": np.zeros(0, np.float32),
                "sizes": np.array([1, 4, 4, 6], np.int64),
            }.items()
        ],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(5).standard_normal((1, 2, 10, 15)).astype(np.float32))


def conv3(x, w, b=None):
    xp = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((x.shape[0], w.shape[0], x.shape[2], x.shape[3]))
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            out[:, :, i, j] = np.einsum("ncij,ocij->no", xp[:, :, i : i + 3, j : j + 3], w.astype(np.float64))
    return out if b is None else out + b.astype(np.float64)[:, None, None]


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    r = np.maximum(conv3(inputs["x"].astype(np.float64), W1, B1), 0)

    # source coordinate (i + 1/2) * 5/2 - 1/2 = (10 i + 3) / 4, rounded to the nearest, half down: 0.75 3.25 5.75 8.25 10.75 13.25
    def index(n):
        return [int(np.ceil((10 * i + 3) / 4 - 0.5)) for i in range(n)]

    u = r[:, :, index(4)][:, :, :, index(6)]
    return {"y": conv3(u, W2)}
