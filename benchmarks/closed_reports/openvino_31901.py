"""openvino#31901: OneHot leaves the row empty for a negative index, where ONNX counts from the end."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/pull/31901"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2025.3.0", "2025.4.0"
FIRST_FAULTY = None
UNIT = "OneHot"
VERDICT = "wrong"
CAUSES = ("index-overflow",)
CAUSE = "ONNX OneHot was mapped to OneHot-1, which ignores negative indices; OneHot-16 with negative_indices_mode=normalize was added for it"
CONDITION = "index in [-depth, -1]"
WORKAROUND = None
NOTE = "relative error 1.0, 12 of 30 values (the rows of negative indices are zero), on 2023.0.0 to 2025.3.0 (default and f32); 8e-8 on 2025.4.0. Fix: PR 31901"

rng = np.random.default_rng(31901)
E1 = rng.standard_normal((6, 8)).astype(np.float32)
W2 = (rng.standard_normal((8, 3)) / 2).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Sub", ["ids", "one"], ["shifted"]),
        helper.make_node("OneHot", ["shifted", "depth", "values"], ["h"], axis=-1),
        helper.make_node("MatMul", ["h", "e1"], ["e"]),
        helper.make_node("Tanh", ["e"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        nodes,
        "embed",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5, 3])],
        [
            numpy_helper.from_array(np.array(a), n)
            for n, a in {
                "one": np.int64(1),
                "depth": np.int64(6),
                "values": np.array([0, 1], np.float32),
                "e1": E1,
                "w2": W2,
            }.items()
        ],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", ids=np.array([[0, 3, 5, 0, 2], [6, 1, 0, 4, -2]], np.int64))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    h = np.zeros((2, 5, 6))
    for i in range(2):
        for j in range(5):
            k = int(inputs["ids"][i, j]) - 1
            k = k + 6 if k < 0 else k
            if 0 <= k < 6:
                h[i, j, k] = 1
    return {"y": np.tanh(h @ E1.astype(np.float64)) @ W2.astype(np.float64)}
