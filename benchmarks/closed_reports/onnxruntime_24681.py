"""onnxruntime#24681: AveragePool of opset 19 leaves the padding behind the input out of the average although count_include_pad=1."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/microsoft/onnxruntime/issues/24681"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.24.4", "1.25.0"
FIRST_FAULTY = "1.21.0"
UNIT = "AveragePool"
VERDICT = "wrong"
CAUSES = ("padding",)
CAUSE = "the divisor counts padding before the input but not after it (end of the window clipped to the input instead of input plus end padding) with count_include_pad=1"
CONDITION = "opset 19 or later, count_include_pad=1, padding at the end (pads or auto_pad=SAME)"
WORKAROUND = None
NOTE = "1.24.4: 1.4e-1 of the largest value, 16 of 144 elements (last rows and columns); 1.16.3 to 1.20.1 right, 1.21.0 (after PR 16752) to 1.24.4 wrong, 1.25.1 right (1.3e-7). Fix: PR 27375"


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
    r = np.random.default_rng(24681)
    return {
        "w0": (r.standard_normal((4, 3, 3, 3)) * 0.3).astype(np.float32),
        "b0": r.standard_normal(4).astype(np.float32),
        "w1": (r.standard_normal((2, 4, 1, 1)) * 0.5).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[5, 3], auto_pad="SAME_LOWER", count_include_pad=1),
        helper.make_node("Conv", ["p", "w1"], ["y"]),
    ]
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 8)).astype(np.float32)
    _write(folder, nodes, {"x": x}, _weights(), ["y"], 19, 9)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    r = np.maximum(_conv(inputs["x"].astype(np.float64), w["w0"], w["b0"], (1, 1, 1, 1)), 0)
    n, c, h, wd = r.shape
    p = np.zeros_like(r)
    for i in range(h):  # kernel 5 x 3, padding 2 and 1 on either side, stride 1: the output is as large as the input
        for j in range(wd):
            total = np.zeros((n, c))
            for di in range(-2, 3):
                for dj in range(-1, 2):
                    if 0 <= i + di < h and 0 <= j + dj < wd:
                        total += r[:, :, i + di, j + dj]
            p[:, :, i, j] = total / 15.0
    return {"y": _conv(p, w["w1"])}
