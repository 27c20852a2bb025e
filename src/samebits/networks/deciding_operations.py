"""Operators that choose, count or decide, and comparisons: exact, or open where an error could decide otherwise.

What they return for values that were really fed is exact, so a unit begins with them; ties go as ONNX says (the first
index of ArgMax and TopK). Nothing is said of a decision that the error of a value computed before could turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.pooling import evaluate_plainly
from samebits.networks.values import Rule, Value, as_value, list_floats

# What they return hangs on which of their inputs is larger, and so do they on the last bit of an input.
DECISIONS = ("ArgMax", "ArgMin", "Hardmax", "Mod", "NonZero", "TopK", "Unique")
_COMPARISONS = {
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
}  # fmt: skip
# Any opset that has all of them as they are today.
_OPSET = 21


def _decide(_: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    if any(isinstance(v, Bounded) and v.error.any() for v in inputs):
        return None
    plain = [v.value if isinstance(v, Bounded) else v for v in inputs]
    if node.operator == "Hardmax" and plain[0] is not None:
        axis = int(node.attributes.get("axis", -1))
        largest = np.expand_dims(plain[0].argmax(axis), axis)
        found = np.zeros(plain[0].shape)
        np.put_along_axis(found, largest, 1.0, axis)
        return [bounded.exactly(found)]
    if node.operator == "TopK":
        return _take_largest(node, plain)
    return [as_value(v) for v in evaluate_plainly(node, plain, _OPSET)]


def _take_largest(node: Node, plain: Sequence[np.ndarray | None]) -> list[Value] | None:
    """The k largest or smallest of an axis in sequence; the lower index of equal ones first; none with NaN."""
    x, k = plain[0], plain[1] if len(plain) > 1 else None
    assert x is not None
    if np.isnan(x).any():
        return None
    axis, largest = int(node.attributes.get("axis", -1)), bool(node.attributes.get("largest", 1))
    count = int(np.asarray(node.attributes["k"] if k is None else k).reshape(-1)[0])
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    chosen = np.take(order, range(count), axis)
    made = (as_value(np.take_along_axis(x, chosen, axis)), chosen.astype(np.int64))
    return [value for value, name in zip(made, node.outputs, strict=True) if name]


def _compare(_: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Truth values; nothing where an error decides one of them."""
    function = _COMPARISONS[node.operator]
    x, y = list_floats(inputs)
    value = function(x.value, y.value)
    for sign in (-1.0, 1.0):
        if not np.array_equal(function(x.value + sign * x.error, y.value - sign * y.error), value):
            return None
    return [value]


def _equal(_: Arithmetic, __: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    x, y = list_floats(inputs)
    with np.errstate(invalid="ignore"):
        apart = np.abs(x.value - y.value) > x.error + y.error
    is_open = ~apart & ((x.error > 0) | (y.error > 0))
    return None if is_open.any() else [x.value == y.value]


def _is_odd(_: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """IsNaN and IsInf: a finite bound keeps a finite value finite."""
    (x,) = list_floats(inputs)
    if not np.isfinite(x.error).all():
        return None
    if node.operator == "IsNaN":
        return [np.isnan(x.value)]
    up, down = (bool(node.attributes.get(f"detect_{name}", 1)) for name in ("positive", "negative"))
    return [np.isinf(x.value) & ((up & (x.value > 0)) | (down & (x.value < 0)))]


def _sign(_: Arithmetic, __: Node, inputs: Sequence[Value | None]) -> list[Value]:
    return [bounded.step(np.sign, list_floats(inputs)[0])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(DECISIONS, _decide),
    **dict.fromkeys(_COMPARISONS, _compare),
    "Equal": _equal,
    **dict.fromkeys(("IsNaN", "IsInf"), _is_odd),
    "Sign": _sign,
}
