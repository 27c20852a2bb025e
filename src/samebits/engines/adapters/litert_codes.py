"""ONNX's operators on 8-bit codes as LiteRT's: QLinearConv, QLinearMatMul and QGemm of constant weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.engines.adapters.litert_graph import LitertGraph, Scaling
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

# Where each operator has what it is fed; the bias may be left out, and QGemm's factor and flags are as ONNX's default.
_PLACES = {
    "QLinearConv": ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"),
    "QLinearMatMul": ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"),
    "QGemm": ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "bias", "y_scale", "y_zero"),
}


def write_codes(onnx: Any, model: bytes) -> bytes:
    """The LiteRT model of a network of one such operator; raises EngineUnsupported for any other.

    Its input and its output are shaped as ONNX has them.
    """
    graph = onnx.load_from_string(model).graph
    if len(graph.node) != 1 or graph.node[0].op_type not in _PLACES:
        kinds = sorted({node.op_type for node in graph.node})
        raise EngineUnsupported(f"LiteRT is asked for one product of 8-bit codes here, not for {', '.join(kinds)[:80]}")
    node = graph.node[0]
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    places = zip(_PLACES[node.op_type], node.input, strict=False)
    given = {name: constants[value] for name, value in places if value and name != "x"}
    shape = tuple(size.dim_value for size in graph.input[0].type.tensor_type.shape.dim)
    dtypes = {given["w"].dtype.name, given["x_zero"].dtype.name, given["y_zero"].dtype.name}
    if dtypes not in ({"int8"}, {"uint8"}):
        raise EngineUnsupported(f"LiteRT multiplies codes of one dtype, not {' by '.join(sorted(dtypes))}")
    if dtypes == {"int8"} and given["w_zero"].any():
        raise EngineUnsupported("LiteRT's signed weights have no zero point")
    if dtypes == {"uint8"} and given["w_scale"].size > 1:
        raise EngineUnsupported("LiteRT's unsigned weights have one scale")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    write = _write_convolution if node.op_type == "QLinearConv" else _write_product
    return write(given, shape, attributes)


def _make_scalings(given: Mapping[str, np.ndarray], axis: int) -> dict[str, Scaling]:
    """Those of x, w, bias and y; the bias has the product of the first two, without a zero point."""
    found = {name: Scaling(given[f"{name}_scale"], given[f"{name}_zero"]) for name in ("x", "y")}
    scales = np.ravel(given["w_scale"])
    found["w"] = Scaling(scales, given["w_zero"], axis)
    found["bias"] = Scaling(np.float32(given["x_scale"]) * scales, np.zeros(1, np.int64))
    return found


def _write_convolution(given: Mapping[str, np.ndarray], shape: tuple[int, ...], attributes: Mapping[str, Any]) -> bytes:
    """Between two transpositions: LiteRT's channels are last."""
    w = given["w"]
    rank = w.ndim - 2
    if rank != 2:
        raise EngineUnsupported("LiteRT's convolutions of codes have two axes here")
    pads = attributes["pads"]
    problem = Problem(
        kind="conv2d", x=shape, w=w.shape, stride=tuple(attributes["strides"]), groups=attributes["group"],
        padding=tuple(zip(pads[:rank], pads[rank:], strict=True)), dilation=tuple(attributes["dilations"]),
    )  # fmt: skip
    graph, dtype = LitertGraph(), w.dtype.name
    scalings = _make_scalings(given, 0)
    fed = graph.add_tensor(shape, dtype, scaling=scalings["x"])
    x = graph.transpose(fed, (0, 2, 3, 1), scalings["x"])
    bias = given.get("bias", np.zeros(w.shape[0], np.int32))
    none = graph.schema.ActivationFunctionType.NONE
    y = graph.convolve(x, w, bias, problem.axes, problem.groups, fused=none, scalings=scalings)
    return graph.finish([fed], [graph.transpose(y, (0, 3, 1, 2), scalings["y"])])


def _write_product(given: Mapping[str, np.ndarray], shape: tuple[int, ...], attributes: Mapping[str, Any]) -> bytes:
    w = given["w"]
    if w.ndim != 2 or attributes.get("transA", 0):
        raise EngineUnsupported("LiteRT's products of codes have a matrix of weights here")
    w = w if attributes.get("transB", 0) else w.T
    graph, dtype = LitertGraph(), w.dtype.name
    scalings = _make_scalings(given, 0)
    rows = shape if len(shape) > 1 else (1, *shape)
    fed = graph.add_tensor(rows, dtype, scaling=scalings["x"])
    constants = [graph.add_constant(np.ascontiguousarray(w), scalings["w"])]
    if "bias" in given:
        constants.append(graph.add_constant(np.ravel(given["bias"]), scalings["bias"]))
    y = graph.add_operator(
        "FULLY_CONNECTED", [fed, *constants], (*rows[:-1], w.shape[0]), dtype, options="FullyConnectedOptions",
        scaling=scalings["y"], keepNumDims=True, fusedActivationFunction=graph.schema.ActivationFunctionType.NONE,
    )  # fmt: skip
    return graph.finish([fed], [y])
