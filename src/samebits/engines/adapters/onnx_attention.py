"""An attention as an ONNX model: the operator Attention, onnxruntime's own operators, or the operators people write.

Sources: ONNX, docs/Operators.md (Attention, versions 23 and 24); onnxruntime, docs/ContribOperators.md
(MultiHeadAttention, GroupQueryAttention).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from samebits.engines.adapters.attention_operands import merge_mask, put_length_first, repeat_heads
from samebits.problems.attention import Attention

WAYS = ("attention", "multi_head", "group_query", "pattern")
_OPSET, _IR = 23, 11
_PLAIN_OPSET, _PLAIN_IR = 17, 8


def explain_no_attention_model(problem: Attention, way: str) -> str | None:
    """Why an attention is no such model; None where it is one."""
    if way == "multi_head" and problem.softcap is not None:
        return "MultiHeadAttention has no softcap"
    if way == "group_query":
        if problem.causal != "lower_right" or problem.v[3] != problem.k[3]:
            return "GroupQueryAttention is causal, to the lower right, with values as wide as keys"
        if problem.mask is not None:
            return "GroupQueryAttention is asked without a mask here"
        if problem.q[0] > 1 and 1 < problem.q[2] < problem.k[2]:
            return "GroupQueryAttention takes several queries behind a cache for one item only"
    return None


def build_attention(
    onnx: Any, problem: Attention, operands: Mapping[str, np.ndarray], way: str
) -> tuple[Any, dict[str, np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """The model that computes `y`, what it is fed, and what makes an array of the problem's shape of y."""
    build = {
        "attention": _build_attention, "multi_head": _build_multi_head, "group_query": _build_group_query,
        "pattern": _build_pattern,
    }[way]  # fmt: skip
    return build(onnx, problem, operands)


def _build_attention(onnx: Any, problem: Attention, operands: Mapping[str, np.ndarray]) -> Any:
    feeds = {name: operands[name] for name in ("q", "k", "v")}
    is_causal = problem.causal == "upper_left"
    mask = merge_mask(problem, operands, has_causal=is_causal)
    attributes: dict[str, Any] = {"scale": problem.factor, "is_causal": int(is_causal)}
    if problem.softcap is not None:
        attributes["softcap"] = problem.softcap
    if mask is not None:
        feeds["mask"] = np.ascontiguousarray(mask)
    node = onnx.helper.make_node("Attention", list(feeds), ["y"], **attributes)
    return _make_model(onnx, [node], feeds, {}, problem, problem.out_shape), feeds, np.asarray


def _build_multi_head(onnx: Any, problem: Attention, operands: Mapping[str, np.ndarray]) -> Any:
    feeds = {"q": _join_heads(operands["q"])}
    feeds |= {name: _join_heads(repeat_heads(problem, operands[name])) for name in ("k", "v")}
    mask = merge_mask(problem, operands, has_causal=problem.causal == "upper_left")
    inputs = list(feeds)
    if mask is not None:
        # It is added to the scores; a boolean one has no input of its own.
        if mask.dtype == bool:
            mask = np.where(mask, 0, -np.inf).astype(operands["q"].dtype)
        feeds["mask"] = np.ascontiguousarray(np.broadcast_to(mask, (problem.q[0], *mask.shape[1:])))
        inputs += ["", "", "mask"]
    attributes = {
        "num_heads": problem.q[1], "scale": problem.factor, "unidirectional": int(problem.causal == "upper_left")
    }  # fmt: skip
    node = onnx.helper.make_node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", **attributes)
    shape = (problem.q[0], problem.q[2], problem.q[1] * problem.v[3])
    return _make_model(onnx, [node], feeds, {}, problem, shape), feeds, _part_heads(problem)


def _build_group_query(onnx: Any, problem: Attention, operands: Mapping[str, np.ndarray]) -> Any:
    """Queries are the last ones of the keys; those before them are the past that a cache holds."""
    items, heads, queries, features = problem.q
    past = problem.k[2] - queries
    feeds = {"q": _join_heads(operands["q"])}
    feeds |= {name: _join_heads(operands[name][:, :, past:]) for name in ("k", "v")}
    feeds |= {f"past_{name}": np.ascontiguousarray(operands[name][:, :, :past]) for name in ("k", "v")}
    feeds["last"] = np.full((items,), problem.k[2] - 1, np.int32)
    feeds["total"] = np.array([problem.k[2]], np.int32)
    attributes: dict[str, Any] = {
        "num_heads": heads, "kv_num_heads": problem.k[1], "scale": problem.factor,
        "local_window_size": -1 if problem.window is None else problem.window,
    }  # fmt: skip
    if problem.softcap is not None:
        attributes["softcap"] = problem.softcap
    made = ["y", "present_k", "present_v"]
    node = onnx.helper.make_node("GroupQueryAttention", list(feeds), made, domain="com.microsoft", **attributes)
    model = _make_model(onnx, [node], feeds, {}, problem, (items, queries, heads * features))
    for name in made[1:]:
        element = onnx.helper.np_dtype_to_tensor_dtype(operands["q"].dtype)
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, element, problem.k))
    return model, feeds, _part_heads(problem)


def _build_pattern(onnx: Any, problem: Attention, operands: Mapping[str, np.ndarray]) -> Any:
    helper, dtype = onnx.helper, operands["q"].dtype
    feeds = {"q": operands["q"]}
    feeds |= {name: np.ascontiguousarray(repeat_heads(problem, operands[name])) for name in ("k", "v")}
    constants = {"scale": np.array(problem.factor, dtype)}
    nodes = [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
    ]
    last = "scores"
    if problem.softcap is not None:
        constants["cap"] = np.array(problem.softcap, dtype)
        nodes += [
            helper.make_node("Div", [last, "cap"], ["shares"]),
            helper.make_node("Tanh", ["shares"], ["bent"]),
            helper.make_node("Mul", ["bent", "cap"], ["capped"]),
        ]
        last = "capped"
    mask = merge_mask(problem, operands)
    if mask is not None:
        feeds["mask"] = np.ascontiguousarray(mask)
        if mask.dtype == bool:
            constants["hidden"] = np.array(-np.inf, dtype)
            nodes.append(helper.make_node("Where", ["mask", last, "hidden"], ["masked"]))
        else:
            nodes.append(helper.make_node("Add", [last, "mask"], ["masked"]))
        last = "masked"
    nodes.append(helper.make_node("Softmax", [last], ["weights"], axis=-1))
    nodes.append(helper.make_node("MatMul", ["weights", "v"], ["y"]))
    return _make_model(onnx, nodes, feeds, constants, problem, problem.out_shape, plain=True), feeds, np.asarray


def _make_model(
    onnx: Any,
    nodes: list[Any],
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    problem: Attention,
    shape: tuple[int, ...],
    *,
    plain: bool = False,
) -> Any:
    helper = onnx.helper

    def describe(name: str, dtype: Any, sizes: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), sizes)

    inputs = [describe(name, array.dtype, array.shape) for name, array in feeds.items()]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [describe("y", feeds["q"].dtype, shape)]
    graph = helper.make_graph(nodes, "samebits", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", _PLAIN_OPSET if plain else _OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_PLAIN_IR if plain else _IR)


def _join_heads(array: np.ndarray) -> np.ndarray:
    """(N, heads, length, features) as (N, length, heads * features)."""
    items, heads, length, features = array.shape
    return put_length_first(array).reshape(items, length, heads * features)


def _part_heads(problem: Attention) -> Callable[[np.ndarray], np.ndarray]:
    items, heads, queries, _ = problem.q
    return lambda y: put_length_first(np.asarray(y).reshape(items, queries, heads, problem.v[3]))
