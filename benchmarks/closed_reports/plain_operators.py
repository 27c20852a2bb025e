"""What several reports share: operators by their definitions in float64, and the writing of a network."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write(truth, folder: Path, nodes, inputs, weights, outputs, opset, ir, contrib=False) -> None:
    """Saves model.onnx (weights as initializers) and inputs.npz; `truth` tells the outputs' ranks."""
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


def conv(x, w, b=None, pads=(0, 0, 0, 0)):
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


def softmax(scores):
    """Softmax over the last axis; minus infinity counts as absent."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def quantize(x, scale, zero, low, high):
    return np.clip(np.rint(x / np.float64(scale)) + float(zero), low, high)


def dequantize(q, scale, zero):
    return (np.asarray(q, np.float64) - float(zero)) * np.float64(scale)
