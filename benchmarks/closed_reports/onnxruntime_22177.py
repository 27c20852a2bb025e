"""onnxruntime#22177: A zero Pad in front of AveragePool is folded into its pads, after which the padded zeros are no longer counted."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
    _write(folder, nodes, {"x": x}, _weights(), ["y"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    s = 1 / (1 + np.exp(-_conv(inputs["x"].astype(np.float64), w["w0"], w["b0"])))
    n, c, h, wd = s.shape
    q = np.zeros((n, c, h + 2, wd + 2))
    q[:, :, 1:-1, 1:-1] = s
    p = np.zeros((n, c, (h + 2 - 3) // 2 + 1, (wd + 2 - 3) // 2 + 1))
    for i in range(p.shape[2]):
        for j in range(p.shape[3]):
            p[:, :, i, j] = q[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].sum(axis=(2, 3)) / 9
    return {"y": _conv(p, w["w1"])}
