"""Operators that ONNX defines by other operators: judged by the rules of those, in the sequence ONNX gives.

An engine that computes such an operator at once rounds no more often than its parts do.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.operations import apply_node, find_rule, is_random
from samebits.networks.pooling import NoReferenceError
from samebits.networks.product_nodes import PRODUCTS, apply_product
from samebits.networks.recurrent_operations import RECURRENT, apply_recurrent, is_judged_stepwise
from samebits.networks.values import Value, as_value
from samebits.numbers.format import numpy_dtype

# Bodies of bodies: RotaryEmbedding in Attention, and no deeper.
_DEEPEST = 4


def has_body(node: Node, opset: int) -> bool:
    """Whether a node is judged by its parts: ONNX defines it by others, or by steps, and no rule of ours judges it."""
    if node.operator in RECURRENT:
        return is_judged_stepwise(node)
    if is_random(node.operator) or find_rule(node, opset) is not None or node.operator in PRODUCTS:
        return False
    schema = _find_schema(node.operator, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def apply_body(
    a: Arithmetic,
    node: Node,
    inputs: Sequence[Value | None],
    opset: int,
    dtype: str,
    depth: int = 0,
    returned: np.ndarray | None = None,
) -> list[Value] | None:
    """A node's outputs by its body; None where a part of it cannot be bounded. `dtype` is what the unit computes in.

    `returned` is what an engine made of the first output, by which steps are judged one by one.
    """
    if node.operator in RECURRENT:
        return apply_recurrent(a, node, inputs, returned)
    body = _find_body(node, inputs, opset, dtype)
    if body is None or depth > _DEEPEST:
        return None
    inner = next((o.version for o in body.opset_import if o.domain in ("", "ai.onnx")), opset)
    values: dict[str, Value | None] = dict(zip(body.input, inputs, strict=False))
    if not _Body(a, node, opset, inner, dtype, depth).run(body.node, values):
        return None
    results = [values.get(v) for v in body.output[: len(node.outputs)]]
    return None if any(v is None for v in results) else [v for v in results if v is not None]


@dataclass(frozen=True)
class _Body:
    """The body of a node of opset `opset`, whose own nodes are of opset `inner`."""

    a: Arithmetic
    node: Node
    opset: int
    inner: int
    dtype: str
    depth: int

    def run(self, parts: Sequence[Any], values: dict[str, Value | None]) -> bool:
        """Adds what the parts make to `values`; False where one of them cannot be bounded."""
        for part in parts:
            read = _read_part(part, self.node, self.opset)
            try:
                found = self._choose(read, values) if read.operator == "If" else self._apply(read, values)
            except NoReferenceError:
                return False
            if found is None:
                return False
            values |= dict(zip(read.outputs, found, strict=False))
        return True

    def _apply(self, read: Node, values: Mapping[str, Value | None]) -> list[Value] | None:
        given = [values.get(v) if v else None for v in read.inputs]
        if any(value is None for value, name in zip(given, read.inputs, strict=True) if name and name in values):
            # An optional input that was left out; what ONNX makes of it stands in the node itself.
            read = replace(
                read, inputs=tuple(n if v is not None else "" for n, v in zip(read.inputs, given, strict=True))
            )
        return apply_any(self.a, read, given, self.inner, self.dtype, self.depth)

    def _choose(self, read: Node, values: Mapping[str, Value | None]) -> list[Value] | None:
        """The branch that a known condition takes."""
        condition = values.get(read.inputs[0])
        if condition is None or isinstance(condition, Bounded):
            return None
        branch = read.attributes["then_branch" if np.asarray(condition).reshape(-1)[0] else "else_branch"]
        inside = dict(values)
        if not self.run(branch.node, inside):
            return None
        results = [inside.get(v.name) for v in branch.output]
        return None if any(v is None for v in results) else [v for v in results if v is not None]


def apply_any(
    a: Arithmetic, part: Node, given: Sequence[Value | None], opset: int, dtype: str, depth: int = 0
) -> list[Value] | None:
    """A node's outputs, whatever it is judged by; None where nothing bounds them."""
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


def find_default(operator: str, attribute: str, opset: int) -> object:
    """What ONNX defines an attribute as where none is written, as nodes hold it; None where it defines nothing."""
    import onnx

    schema = _find_schema(operator, opset)
    known = schema.attributes.get(attribute) if schema is not None else None
    if known is None or not known.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(known.default_value)
    return value.decode() if isinstance(value, bytes) else value


def _find_body(node: Node, inputs: Sequence[Value | None], opset: int, dtype: str) -> Any:
    import onnx

    schema = _find_schema(node.operator, opset)
    if schema.has_function:
        return schema.function_body
    types = [_state_type(v, dtype).SerializeToString() for v in inputs]
    newest = schema.context_dependent_function_opset_versions[-1]
    try:
        data = schema.get_context_dependent_function_with_opset_version(newest, node.stored.SerializeToString(), types)
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
