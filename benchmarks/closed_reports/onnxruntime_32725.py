"""onnxruntime#32725: Pad with mode wrap goes round only once: pads larger than the axis read past the data."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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


def _write(folder: Path, nodes, inputs, weights, outputs, opset, ir, contrib=False) -> None:
    """Saves model.onnx (weights as initializers) and inputs.npz."""
    types = {
        "float32": TensorProto.FLOAT,
        "float16": TensorProto.FLOAT16,
        "int64": TensorProto.INT64,
        "int32": TensorProto.INT32,
        "uint8": TensorProto.UINT8,
        "int8": TensorProto.INT8,
        "bool": TensorProto.BOOL,
    }
    ins = [helper.make_tensor_value_info(k, types[str(v.dtype)], v.shape) for k, v in inputs.items()]
    outs = [
        helper.make_tensor_value_info(k, TensorProto.FLOAT, [None] * v.ndim)
        for k, v in truth(inputs).items()
        if k in outputs
    ]
    init = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    sets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("com.microsoft", 1)] if contrib else [])
    model = helper.make_model(helper.make_graph(nodes, "net", ins, outs, init), opset_imports=sets, ir_version=ir)
    onnx.save(model, str(Path(folder) / "model.onnx"))
    np.savez(Path(folder) / "inputs.npz", **inputs)


def _conv(x, w, b=None, pads=(0, 0, 0, 0)):
    """Convolution by its definition, float64; pads = top, left, bottom, right; stride 1, one group."""
    n, c, h, wd = x.shape
    m, _, kh, kw = w.shape
    top, left, bottom, right = pads
    xp = np.zeros((n, c, h + top + bottom, wd + left + right))
    xp[:, :, top : top + h, left : left + wd] = x
    y = np.zeros((n, m, xp.shape[2] - kh + 1, xp.shape[3] - kw + 1))
    for i in range(y.shape[2]):
        for j in range(y.shape[3]):
            window = xp[:, :, i : i + kh, j : j + kw]
            for o in range(m):
                y[:, o, i, j] = (window * w[o].astype(np.float64)).sum(axis=(1, 2, 3))
    if b is not None:
        y += b.astype(np.float64).reshape(1, -1, 1, 1)
    return y


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
    _write(folder, nodes, {"x": x}, _weights(), ["y"], 19, 9)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    t = np.tanh(_conv(inputs["x"].astype(np.float64), w["w0"]))
    n, c, h, wd = t.shape
    p = np.zeros((n, c, h + 5, wd + 9))
    for i in range(p.shape[2]):
        for j in range(p.shape[3]):
            p[:, :, i, j] = t[:, :, i % h, (j - 7) % wd]
    return {"y": _conv(p, w["w1"])}
