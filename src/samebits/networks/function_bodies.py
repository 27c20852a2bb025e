"""Operators that ONNX defines by other operators: judged by the rules of those, in the sequence ONNX gives.

An engine that computes such an operator at once rounds no more often than its parts do.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.operations import apply_node, find_rule, is_random
from samebits.networks.pooling import NoReferenceError
from samebits.networks.product_nodes import PRODUCTS, apply_product
from samebits.networks.values import Value, as_value
from samebits.numbers.format import numpy_dtype

# Bodies of bodies: RotaryEmbedding in Attention, and no deeper.
_DEEPEST = 4


def has_body(node: Node, opset: int) -> bool:
    """Whether ONNX defines a node by others, and no rule of ours judges it."""
    if is_random(node.operator) or find_rule(node, opset) is not None or node.operator in PRODUCTS:
        return False
    schema = _find_schema(node.operator, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def apply_body(
    a: Arithmetic, node: Node, inputs: Sequence[Value | None], opset: int, dtype: str, depth: int = 0
) -> list[Value] | None:
    """A node's outputs by its body; None where a part of it cannot be bounded. `dtype` is what the unit computes in."""
    body = _find_body(node, inputs, opset, dtype)
    if body is None or depth > _DEEPEST:
        return None
    inner = next((o.version for o in body.opset_import if o.domain in ("", "ai.onnx")), opset)
    values: dict[str, Value | None] = dict(zip(body.input, inputs, strict=False))
    for part in body.node:
        read = _read_part(part, node, opset)
        given = [values.get(v) if v else None for v in read.inputs]
        try:
            found = _apply_part(a, read, given, inner, dtype, depth)
        except NoReferenceError:
            return None
        if found is None:
            return None
        values |= dict(zip((v for v in read.outputs), found, strict=False))
    results = [values.get(v) for v in body.output[: len(node.outputs)]]
    return None if any(v is None for v in results) else [v for v in results if v is not None]


def _apply_part(
    a: Arithmetic, part: Node, given: Sequence[Value | None], opset: int, dtype: str, depth: int
) -> list[Value] | None:
    if part.operator == "Constant":
        return [as_value(v) for v in _read_constant(part)]
    if part.operator in PRODUCTS:
        return apply_product(a, part, given, dtype)
    if has_body(part, opset):
        return apply_body(a, part, given, opset, dtype, depth + 1)
    return apply_node(a, part, given, opset)


def _read_constant(part: Node) -> list[np.ndarray]:
    import onnx

    given = part.attributes
    if "value" in given:
        return [onnx.numpy_helper.to_array(given["value"])]
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        for key in (name, f"{name}s"):
            if key in given:
                return [np.asarray(given[key], dtype)]
    raise NoReferenceError("a constant of no array")


def _find_schema(operator: str, opset: int) -> Any:
    import onnx

    return onnx.defs.get_schema(operator, opset, "") if onnx.defs.has(operator, opset, "") else None


def _find_body(node: Node, inputs: Sequence[Value | None], opset: int, dtype: str) -> Any:
    import onnx

    schema = _find_schema(node.operator, opset)
    if schema.has_function:
        return schema.function_body
    types = [_state_type(v, dtype).SerializeToString() for v in inputs]
    try:
        data = schema.get_context_dependent_function(node.stored.SerializeToString(), types)
    except Exception:  # What its builder does not take has no body here.
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(data)
    return body if body.node else None


def _state_type(value: Value | None, dtype: str) -> Any:
    import onnx

    if value is None:
        return onnx.TypeProto()
    array = value.value if isinstance(value, Bounded) else value
    own = numpy_dtype(dtype) if isinstance(value, Bounded) else array.dtype
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(own)), array.shape)


def _read_part(part: Any, node: Node, opset: int) -> Node:
    """A node of a body, with what it takes from the attributes of the node that it is the body of."""
    import onnx

    stored = onnx.NodeProto()
    stored.CopyFrom(part)
    del stored.attribute[:]
    attributes: dict[str, Any] = {}
    for one in part.attribute:
        value = _refer_attribute(one.ref_attr_name, node, opset) if one.ref_attr_name else None
        if one.ref_attr_name and value is None:
            continue
        kept = onnx.helper.make_attribute(one.name, value) if one.ref_attr_name else one
        stored.attribute.append(kept)
        read = onnx.helper.get_attribute_value(kept)
        attributes[one.name] = read.decode("utf-8", "replace") if isinstance(read, bytes) else read
    return Node(part.name or part.op_type, part.op_type, tuple(part.input), tuple(part.output), attributes, stored)


def _refer_attribute(name: str, node: Node, opset: int) -> Any:
    if name in node.attributes:
        return node.attributes[name]
    return _list_defaults(node.operator, opset).get(name)


@functools.cache
def _list_defaults(operator: str, opset: int) -> Mapping[str, Any]:
    import onnx

    schema = _find_schema(operator, opset)
    return {
        name: onnx.helper.get_attribute_value(one.default_value)
        for name, one in schema.attributes.items()
        if one.default_value.name
    }
