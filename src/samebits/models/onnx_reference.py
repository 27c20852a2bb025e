"""Single nodes on plain arrays: ONNX's own reference, and pools faster than its."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.models.network import Node
from samebits.models.pooling import count_taps, view_windows


class NoReferenceError(Exception):
    """ONNX's reference cannot compute a node, or not so that it could be relied on."""


def evaluate_plainly(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> list[np.ndarray]:
    """ONNX's own reference on plain arrays; raises NoReferenceError for what it cannot compute."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = [f"in{i}" if value is not None else "" for i, value in enumerate(inputs)]
    stored = onnx.NodeProto()
    stored.CopyFrom(node.stored)
    del stored.input[:]
    stored.input.extend(names)
    infos = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, inputs, strict=True)
        if v is not None
    ]
    wanted = [onnx.ValueInfoProto(name=n) for n in node.outputs if n]
    graph = onnx.helper.make_graph([stored], "node", infos, wanted)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    feeds = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    try:
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    except Exception as error:  # It raises anything.
        raise NoReferenceError(str(error)) from error


def pool_plainly(node: Node, x: np.ndarray) -> np.ndarray:
    """MaxPool or AveragePool of an array, in its own dtype; an average is summed in float64 and rounded once."""
    axes = tuple(range(-len(node.attributes["kernel_shape"]), 0))
    if node.operator == "MaxPool":
        return view_windows(x, node.attributes, -np.inf).max(axes)
    wide = x.astype(np.float64)
    return (view_windows(wide, node.attributes, 0.0).sum(axes) / count_taps(x, node.attributes)).astype(x.dtype)
