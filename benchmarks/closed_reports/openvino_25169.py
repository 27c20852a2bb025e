"""openvino#25169: ReduceMean of opset 18, whose axes are an input, averages over all axes."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/issues/25169"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2024.2.0", "2024.3.0"
FIRST_FAULTY = None
UNIT = "ReduceMean"
VERDICT = "wrong"
CAUSES = ("dropped-attribute",)
CAUSE = "ReduceMean-18 was read with the older translator, which looks for the axes attribute only and takes its absence for all axes"
CONDITION = "opset 18 or later, axes given as second input"
WORKAROUND = None
NOTE = (
    "relative error 0.70, 242 of 256 values, on 2023.0.0 to 2024.2.0 (default and f32); 5e-7 on 2024.3.0. Fix: PR 23148"
)

rng = np.random.default_rng(25169)
W1 = (rng.standard_normal((8, 3, 3, 3)) / 3).astype(np.float32)
W2 = (rng.standard_normal((8, 8, 1, 1)) / 2).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r", "axes"], ["m"], keepdims=1),
        helper.make_node("Sub", ["r", "m"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["g"], kernel_shape=[1, 1]),
        helper.make_node("Tanh", ["g"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "centred",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8, 4, 4])],
        [
            numpy_helper.from_array(W1, "w1"),
            numpy_helper.from_array(W2, "w2"),
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
        ],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", x=np.random.default_rng(4).standard_normal((2, 3, 8, 8)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = np.pad(inputs["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((2, 8, 4, 4))
    for i in range(4):
        for j in range(4):
            c[:, :, i, j] = np.einsum(
                "ncij,ocij->no", x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3], W1.astype(np.float64)
            )
    r = np.maximum(c, 0)
    m = r.sum(axis=(2, 3)) / 16
    return {"y": np.tanh(np.einsum("nchw,oc->nohw", r - m[:, :, None, None], W2[:, :, 0, 0].astype(np.float64)))}
