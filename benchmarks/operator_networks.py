"""Networks of one or two operators on which an engine deviates: kept, so that it is seen when that ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Build = Callable[[], tuple[onnx.ModelProto, dict[str, np.ndarray]]]


def _model(
    nodes: Sequence[onnx.NodeProto], x: np.ndarray, opset: int, constants: Mapping[str, np.ndarray] | None = None
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    graph = helper.make_graph(
        list(nodes),
        "operators",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), {"x": x}


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _with_nan(*shape: int) -> np.ndarray:
    x = _draw(*shape)
    x.reshape(-1)[3] = np.nan
    return x


def zeros_before_a_maximum() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Zeros padded before a MaxPool of values below zero: they are the maximum at the borders."""
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], name="pad"),
        helper.make_node("MaxPool", ["p"], ["y"], name="pool", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    return _model(nodes, -np.abs(_draw(1, 2, 8, 8)), 18, {"pads": pads})


def pool_same_and_dilated() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A MaxPool with dilations whose pads SAME_UPPER finds."""
    node = helper.make_node(
        "MaxPool", ["x"], ["y"], name="pool", kernel_shape=[3, 3], dilations=[2, 2], auto_pad="SAME_UPPER"
    )
    return _model([node], _draw(1, 2, 9, 9), 18)


def softmax_of_opset_11() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Before opset 13 Softmax is over all axes from its own on."""
    return _model([helper.make_node("Softmax", ["x"], ["y"], name="softmax", axis=1)], _draw(2, 3, 4), 11)


def pool_rounded_up() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """An AveragePool that counts its padding and whose size is rounded up: the last window hangs over the padding."""
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], name="pool",
        kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1, count_include_pad=1,
    )  # fmt: skip
    return _model([node], _draw(1, 2, 8), 19)


def nan_into_relu() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """NaN is NaN behind Relu."""
    return _model([helper.make_node("Relu", ["x"], ["y"], name="relu")], _with_nan(2, 8), 18)


def nan_into_clip() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """NaN is NaN behind Clip."""
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"], name="clip")
    return _model([node], _with_nan(2, 8), 18, {"low": np.array(-1, np.float32), "high": np.array(1, np.float32)})


def nan_into_maximum() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """NaN is NaN behind ReduceMax."""
    node = helper.make_node("ReduceMax", ["x", "axes"], ["y"], name="maximum", keepdims=0)
    return _model([node], _with_nan(2, 8), 18, {"axes": np.array([1])})


def erf_of_many() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The error function, of which OpenCL allows 16 units in the last place."""
    x = np.linspace(-4, 4, 100001, dtype=np.float32)
    return _model([helper.make_node("Erf", ["x"], ["y"], name="erf")], x, 18)


def split_without_a_name() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A Split whose first part nobody wants: its name is left out, as ONNX allows."""
    node = helper.make_node("Split", ["x", "sizes"], ["", "y"], name="split", axis=1)
    return _model([node], _draw(2, 6), 18, {"sizes": np.array([2, 4])})


OPERATOR_NETWORKS: dict[str, Build] = {
    f.__name__: f
    for f in (
        zeros_before_a_maximum, pool_same_and_dilated, softmax_of_opset_11, pool_rounded_up, nan_into_relu,
        nan_into_clip, nan_into_maximum, erf_of_many, split_without_a_name,
    )
}  # fmt: skip
