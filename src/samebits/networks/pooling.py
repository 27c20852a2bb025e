"""Pools of ONNX over windows, on arrays: the largest value or the sum of each window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.limits import RESULT_BYTES, STEPS
from samebits.networks.network import Node


def view_windows(x: np.ndarray, attributes: Mapping[str, Any], filling: float) -> np.ndarray:
    """Every window of (N, C, spatial): shape (N, C, *outputs, *kernel); what lies outside is `filling`."""
    kernel = tuple(attributes["kernel_shape"])
    rank = len(kernel)
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    pads = find_pads(x.shape[2:], attributes)
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=filling)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if any(span > size for span, size in zip(reach, padded.shape[2:], strict=True)):
        raise NoReferenceError("a window is larger than what it looks at")
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in strides]
    taps = [slice(None, None, d) for d in dilations]
    found = windows[(slice(None), slice(None), *steps, *taps)]
    STEPS.check(found.size, "a pool's windows")
    return found


def count_taps(x: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """How many elements each window of an average counts."""
    present = np.ones((1, 1, *x.shape[2:]))
    rank = len(attributes["kernel_shape"])
    if not attributes.get("count_include_pad"):
        return view_windows(present, attributes, 0.0).sum(tuple(range(-rank, 0)))
    # The padding that is named counts; what a window that rounding up made reaches beyond it does not.
    ends = find_pads(x.shape[2:], attributes)
    is_named = attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    none = (0,) * 2 * rank
    pads = none if attributes.get("auto_pad") == "VALID" else tuple(attributes.get("pads") or none)
    named = list(zip(pads[:rank], pads[rank:], strict=True)) if is_named else ends
    counted = [(begin, 0 if attributes.get(NO_END) else end) for begin, end in named]
    present = np.pad(present, [(0, 0), (0, 0), *counted], constant_values=1.0)
    beyond = [(0, end - pad) for (_, end), (_, pad) in zip(ends, counted, strict=True)]
    padded = np.pad(present, [(0, 0), (0, 0), *beyond])
    plain = {**attributes, "pads": (0,) * 2 * rank, "ceil_mode": 0, "auto_pad": "NOTSET"}
    return view_windows(padded, plain, 0.0).sum(tuple(range(-rank, 0)))


def find_pads(sizes: tuple[int, ...], attributes: Mapping[str, Any]) -> list[tuple[int, int]]:
    """What is put before and behind each axis, with what a window that rounding up makes reaches beyond."""
    kernel = tuple(attributes["kernel_shape"])
    rank, auto = len(kernel), attributes.get("auto_pad", "NOTSET")
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    given = tuple(attributes.get("pads") or (0,) * 2 * rank) if auto == "NOTSET" else (0,) * 2 * rank
    found: list[tuple[int, int]] = []
    for i, (size, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        reach = (k - 1) * d + 1
        begin, end = given[i], given[rank + i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-size // s) - 1) * s + reach - size, 0)
            begin, end = total // 2, total - total // 2
            if auto == "SAME_LOWER":
                begin, end = end, begin
        elif attributes.get("ceil_mode"):
            over = (size + begin + end - reach) % s
            # A last window must begin inside the data or of its first padding.
            outputs = (size + begin + end - reach) // s + 1
            if over and outputs * s < size + begin:
                end += s - over
        found.append((begin, end))
    return found


# Marks an average that counts the padding before the data and not that behind it.
NO_END = "samebits.no_end"
# Operators that the reference has from a later opset on, which compute there what they did before.
_REFERRED_FROM = {"QuantizeLinear": 19, "DequantizeLinear": 19}
# The longest array that gives a shape: as long as NumPy's most axes.
_LONGEST_SHAPE = 64


class NoReferenceError(Exception):
    """ONNX's reference cannot compute a node, or not so that it could be relied on."""


def evaluate_plainly(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> list[np.ndarray]:
    """ONNX's own reference on plain arrays; raises NoReferenceError for what it cannot compute."""
    if node.operator == "GatherElements" and all(v is not None for v in inputs):
        return [_gather_elements(node, *inputs)]  # type: ignore[arg-type]  (both are there)
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
    # onnxruntime writes newer operators into files of older opsets.
    opset = opset if onnx.defs.has(node.operator, opset, "") else onnx.defs.onnx_opset_version()
    opset = max(opset, _REFERRED_FROM.get(node.operator, 0))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    feeds = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    RESULT_BYTES.check(_foresee_bytes(stored, infos, feeds, model), f"node {node.name[:60]} ({node.operator})")
    try:
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    except Exception as error:  # It raises anything.
        raise NoReferenceError(str(error)) from error


def _gather_elements(node: Node, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """GatherElements, of which ONNX's reference takes no more than 32 along the axis."""
    axis = int(node.attributes.get("axis", 0)) % max(data.ndim, 1)
    try:
        # The indices' other sizes may be smaller than those of the data.
        kept = data[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
        return np.take_along_axis(kept, indices % data.shape[axis], axis)
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise NoReferenceError(str(error)) from error


def _foresee_bytes(stored: Any, infos: Sequence[Any], feeds: Mapping[str, np.ndarray], model: Any) -> int:
    """The bytes of a node's results, where its operands' sizes and the values of short ones determine them; else 0.

    A few bytes may ask for any size, such as the shape in ConstantOfShape, Expand or Tile.
    """
    import onnx

    short = {n: onnx.numpy_helper.from_array(v, n) for n, v in feeds.items() if v.size <= _LONGEST_SHAPE}
    try:
        schema = onnx.defs.get_schema(stored.op_type, model.opset_import[0].version, stored.domain)
        types = {info.name: info.type for info in infos}
        found = onnx.shape_inference.infer_node_outputs(
            schema, stored, types, short, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except Exception:  # What cannot be inferred is not known; running it says what is wrong.
        return 0
    return sum(_count_bytes(t.tensor_type) for t in found.values() if t.tensor_type.HasField("shape"))


def _count_bytes(tensor: Any) -> int:
    import onnx

    item = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize if tensor.elem_type else 4
    return item * math.prod(d.dim_value for d in tensor.shape.dim if d.dim_value > 0)


def pool_plainly(node: Node, x: np.ndarray) -> np.ndarray:
    """MaxPool or AveragePool of an array, in its own dtype; an average is summed in float64 and rounded once."""
    axes = tuple(range(-len(node.attributes["kernel_shape"]), 0))
    if node.operator == "MaxPool":
        least = -np.inf if x.dtype.kind not in "iu" else float(np.iinfo(x.dtype).min)
        return view_windows(x, node.attributes, least).max(axes)
    wide = x.astype(np.float64)
    return (view_windows(wide, node.attributes, 0.0).sum(axes) / count_taps(x, node.attributes)).astype(x.dtype)
