"""Resize and Upsample: nearest pixels chosen here, weights between pixels by ONNX's reference.

Which pixel is nearest hangs on the last bit of a position where two are as near: then either is right. Between pixels
a position that is off by e moves a value by at most e times the slope. Source: ONNX operator Resize.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node, give_attributes
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.values import Rule, Value, list_floats

_OPSET_OF_RESIZE, _OPSET_OF_UPSAMPLE = 18, 9
# Positions are made of a size, a scale and two additions, in float32 whatever the data's format.
_POSITION_ROUNDINGS = 8 * 2.0**-24
_CROPS = "tf_crop_and_resize"
# Marks a linear Resize that goes on past the first element of an axis where it should stay there.
EXTRAPOLATES = "samebits.extrapolates"


def _resize(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x = list_floats(inputs[:1])[0]
    others = [None if v is None else (v.value.astype(np.float32) if isinstance(v, Bounded) else v) for v in inputs[1:]]
    opset = _OPSET_OF_UPSAMPLE if node.operator == "Upsample" else _OPSET_OF_RESIZE
    if node.attributes.get(EXTRAPOLATES):
        return [_extrapolate(a, node, x, others)]
    value = evaluate_plainly(node, [x.value, *others], opset)[0]
    _check_corners(node, x.value.shape, value.shape, others)
    mode = node.attributes.get("mode", "nearest")
    way = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        # Upsample counts from the corners.
        return [_take_nearest(node, x, value.shape, others, "asymmetric" if node.operator == "Upsample" else way)]
    # Where a weight lies is a share of the size along the axis; cubic weights reach below zero.
    size = max(max(value.shape[2:], default=1), max(x.value.shape[2:], default=1))
    largest = np.abs(x.value).max(initial=0.0) + x.error.max(initial=0.0)
    if way == _CROPS:
        largest = max(largest, abs(float(node.attributes.get("extrapolation_value", 0.0))))
    reach = 2.0 * x.error.max(initial=0.0)
    unit = max(a.unit, 2.0**-24)
    return [Bounded(value, np.full_like(value, reach + 8 * size * unit * largest), np.abs(value))]


def _extrapolate(a: Arithmetic, node: Node, x: Bounded, others: Sequence[np.ndarray | None]) -> Bounded:
    """Linear, as if the first two elements of an axis lay on a line that goes on before them."""
    plain = {name: value for name, value in node.attributes.items() if name != EXTRAPOLATES}
    right = list_floats(_resize(a, give_attributes(node, plain), [x, *others]))[0]
    found = x.value
    way = plain.get("coordinate_transformation_mode", "half_pixel")
    for axis, (size, out, scale) in _list_scales(node, x.value.shape, right.value.shape, others).items():
        positions = _find_positions(np.arange(out, dtype=np.float64), scale, size, out, way)
        first = np.clip(np.floor(positions), 0, size - 1).astype(int)
        second = np.minimum(first + 1, size - 1)
        share = np.reshape(positions - first, [-1 if i == axis else 1 for i in range(found.ndim)])
        found = np.take(found, first, axis) * (1 - share) + np.take(found, second, axis) * share
    return Bounded(found, 3 * right.error, np.abs(found))


def _list_scales(
    node: Node, before: Sequence[int], after: Sequence[int], others: Sequence[np.ndarray | None]
) -> dict[int, tuple[int, int, float]]:
    """By axis that changes: the size before and after, and the scale."""
    axes = [int(i) % len(before) for i in node.attributes.get("axes", range(len(before)))]
    scales = others[1] if len(others) > 1 else others[0] if node.operator == "Upsample" else None
    given = node.attributes.get("scales", scales)
    found: dict[int, tuple[int, int, float]] = {}
    for place, axis in enumerate(axes):
        size, out = before[axis], after[axis]
        scale = float(given[place]) if given is not None and len(given) else out / size
        if out != size or scale != 1.0:
            found[axis] = size, out, scale
    return found


def _check_corners(
    node: Node, before: tuple[int, ...], after: tuple[int, ...], others: Sequence[np.ndarray | None]
) -> None:
    """Raises NoReferenceError where corners are aligned and scales make no whole sizes: which corners, is disputed."""
    scales = others[1] if len(others) > 1 else None
    if node.attributes.get("coordinate_transformation_mode") != "align_corners" or scales is None or not scales.size:
        return
    axes = [int(i) % len(before) for i in node.attributes.get("axes", range(len(before)))]
    if any(float(scale) * before[axis] != after[axis] for scale, axis in zip(scales, axes, strict=True)):
        raise NoReferenceError("no bound for this way of resizing")


def _take_nearest(
    node: Node, x: Bounded, shape: tuple[int, ...], others: Sequence[np.ndarray | None], way: str
) -> Bounded:
    """The nearest elements, axis by axis; where two are as near, the error is their difference."""
    if way == _CROPS or node.attributes.get("antialias"):
        raise NoReferenceError("no bound for this way of resizing")
    found = x
    for axis, (size, out, scale) in _list_scales(node, x.value.shape, shape, others).items():
        positions = _find_positions(np.arange(out, dtype=np.float64), scale, size, out, way)
        off = _POSITION_ROUNDINGS * (np.abs(positions) + 1.0)
        rounding = str(node.attributes.get("nearest_mode", "round_prefer_floor"))
        rounding = "floor" if node.operator == "Upsample" else rounding
        chosen, low, high = (
            np.clip(_round(p, rounding), 0, size - 1).astype(int) for p in (positions, positions - off, positions + off)
        )
        found = _choose(found, axis, chosen, low, high)
    return found


def _choose(x: Bounded, axis: int, chosen: np.ndarray, low: np.ndarray, high: np.ndarray) -> Bounded:
    value, error, magnitude = (np.take(part, chosen, axis) for part in (x.value, x.error, x.magnitude))
    for other in (low, high):
        if (other != chosen).any():
            away = np.abs(np.take(x.value, other, axis) - value) + np.take(x.error, other, axis)
            error = np.maximum(error, away)
    return Bounded(value, error, magnitude)


def _find_positions(places: Floats, scale: float, size: int, out: int, way: str) -> Floats:
    """Where outputs lie on the axis of the input."""
    if way == "asymmetric":
        return places / scale
    if way == "align_corners":
        return places * (size - 1) / (out - 1) if out > 1 else places * 0.0
    if way == "pytorch_half_pixel" and out <= 1:
        return places * 0.0
    half = (places + 0.5) / scale
    if way == "tf_half_pixel_for_nn":
        return half
    if way == "half_pixel_symmetric":
        # The middle of what would be made without rounding its size stays in the middle.
        return size / 2 * (1 - out / (scale * size)) + half - 0.5
    return half - 0.5


def _round(positions: Floats, rounding: str) -> Floats:
    if rounding == "floor":
        return np.floor(positions)
    if rounding == "ceil":
        return np.ceil(positions)
    if rounding == "round_prefer_ceil":
        return np.floor(positions + 0.5)
    return np.ceil(positions - 0.5)


RULES: dict[str, Rule] = {"Resize": _resize, "Upsample": _resize}
