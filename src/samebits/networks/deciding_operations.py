"""Operators that choose, count or decide, and comparisons: exact, or open where an error could decide otherwise.

What they return for values that were really fed is exact, so a unit begins with them; ties go as ONNX says (the first
index of ArgMax and TopK). Nothing is said of a decision that the error of a value computed before could turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.limits import STEPS
from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node
from samebits.networks.pooling import evaluate_plainly
from samebits.networks.values import Rule, Value, as_value, list_floats

# What they return hangs on which of their inputs is larger, and so do they on the last bit of an input.
DECISIONS = ("ArgMax", "ArgMin", "Hardmax", "Mod", "NonMaxSuppression", "NonZero", "TopK", "Unique")
_COMPARISONS = {
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
}  # fmt: skip
# An overlap of boxes is made of differences, products, a sum and a quotient.
_OVERLAP_ROUNDINGS = 16
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


def _suppress(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """NonMaxSuppression: the boxes of the highest scores that overlap no chosen one by more than the threshold.

    Nothing is said where two scores that count are equal, or where an overlap lies at the threshold within rounding.
    """
    if any(isinstance(v, Bounded) and v.error.any() for v in inputs):
        return None
    boxes, scores, *limits = list_floats([v if v is not None else np.zeros(0) for v in inputs])
    most, overlap, least = (
        float(limits[i].value.reshape(-1)[0]) if i < len(limits) and limits[i].value.size else default
        for i, default in enumerate((0.0, 0.0, -np.inf))
    )
    centred = bool(node.attributes.get("center_point_box"))
    STEPS.check(int(scores.value.size * min(max(most, 0.0), scores.value.shape[-1])), "comparisons of boxes")
    chosen: list[tuple[int, int, int]] = []
    for item, by_class in enumerate(scores.value):
        corners = _list_corners(boxes.value[item], centred=centred)
        for kind, row in enumerate(by_class):
            found = _choose_boxes(a, corners, row, int(most), overlap, least)
            if found is None:
                return None
            chosen += [(item, kind, box) for box in found]
    return [np.array(chosen, np.int64).reshape(-1, 3)]


def _list_corners(boxes: Floats, *, centred: bool) -> Floats:
    """Boxes as their lower and upper corners (4, boxes)."""
    if centred:
        x, y, width, height = boxes.T
        return np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
    first, second = boxes.T[:2], boxes.T[2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)])


def _choose_boxes(
    a: Arithmetic, corners: Floats, scores: Floats, most: int, overlap: float, least: float
) -> list[int] | None:
    """The boxes that stay, the highest score first; None where rounding decides one of them."""
    waiting = np.flatnonzero(scores > least)
    waiting = waiting[np.argsort(-scores[waiting], kind="stable")]
    chosen: list[int] = []
    while len(waiting) and len(chosen) < most:
        if len(waiting) > 1 and scores[waiting[0]] == scores[waiting[1]]:
            return None
        first, waiting = int(waiting[0]), waiting[1:]
        chosen.append(first)
        shares, off = _overlap(a, corners[:, first], corners[:, waiting])
        if (np.abs(shares - overlap) <= off).any():
            return None
        waiting = waiting[shares <= overlap]
    return chosen


def _overlap(a: Arithmetic, box: Floats, others: Floats) -> tuple[Floats, Floats]:
    """The share of their union that a box and others (4, boxes) have in common, and what rounding may change of it."""
    sides = np.maximum(np.minimum(box[2:, None], others[2:]) - np.maximum(box[:2, None], others[:2]), 0.0)
    common = sides.prod(0)
    extents = others[2:] - others[:2]
    both = (box[2:] - box[:2]).prod() + extents.prod(0) - common
    shares = np.divide(common, both, out=np.zeros_like(common), where=both > 0)
    # A corner's rounding is a share of its place: the smaller an extent is, the more it changes.
    reach = np.maximum(np.abs(box).max(), np.abs(others).max(0, initial=0.0))
    smallest = np.minimum(np.where(extents > 0, extents, np.inf).min(0), (box[2:] - box[:2]).min())
    off = _OVERLAP_ROUNDINGS * max(a.unit, 2.0**-24) * (1.0 + reach / np.maximum(smallest, 1e-300))
    return shares, np.where(common > 0, off, 0.0)


RULES: dict[str, Rule] = {
    **dict.fromkeys(DECISIONS, _decide),
    "NonMaxSuppression": _suppress,
    **dict.fromkeys(_COMPARISONS, _compare),
    "Equal": _equal,
    **dict.fromkeys(("IsNaN", "IsInf"), _is_odd),
    "Sign": _sign,
}
