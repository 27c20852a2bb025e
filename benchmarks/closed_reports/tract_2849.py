"""tract#2849: DequantizeLinear read only the first scale and zero point, so per-channel weights were all unpacked with channel 0's."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/sonos/tract/pull/2849"
ENGINE = "tract"
MODEL = "model.onnx"
FAULTY, FIXED = "0.23.7", "0.23.8"
FIRST_FAULTY = None
UNIT = "DequantizeLinear"
VERDICT = "wrong"
CAUSES = (
    "dropped-attribute",
    "quantized-operands",
    "requantization",
)
CAUSE = "DequantizeLinear (and QuantizeLinear) takes element 0 of scale and zero point and ignores axis: per-channel parameters are treated as per-tensor"
CONDITION = "scale (and zero point) with more than one element, axis 1"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 0.23.7: 6.14e-01 (30 of 30 off) | 0.23.8: 9.99e-08 (0 of 30 off). wrong in every release tried from 0.19.2 to 0.23.7."


def parts():
    r = np.random.default_rng(2849)
    w1 = r.integers(-127, 128, (12, 10)).astype(np.int8)
    s1 = (0.004 + 0.03 * r.random(10)).astype(np.float32)
    b1 = r.standard_normal(10).astype(np.float32)
    w2 = r.standard_normal((10, 6)).astype(np.float32)
    return w1, s1, np.zeros(10, np.int8), b1, w2


def make(folder: Path) -> None:
    w1, s1, z1, b1, w2 = parts()
    n = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("DequantizeLinear", ["w1", "s1", "z1"], ["w1f"], axis=1),
        helper.make_node("MatMul", ["a", "w1f"], ["b"]),
        helper.make_node("Add", ["b", "b1"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 6])],
        [numpy_helper.from_array(v, k) for k, v in {"w1": w1, "s1": s1, "z1": z1, "b1": b1, "w2": w2}.items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=np.random.default_rng(1).standard_normal((5, 12)).astype(np.float32))


def truth(inputs):
    w1, s1, z1, b1, w2 = parts()
    a = np.tanh(inputs["x"].astype(np.float64))
    w = np.zeros(w1.shape)
    for j in range(w1.shape[1]):
        w[:, j] = (w1[:, j].astype(np.float64) - float(z1[j])) * float(s1[j])
    return {"y": np.maximum(a @ w + b1, 0) @ w2.astype(np.float64)}
