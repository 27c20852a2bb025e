"""QuantizeLinear and DequantizeLinear: codes that are exact, but for values that lie at the middle between two of them.

Engines divide by the scale or multiply by its reciprocal, so that x / scale may be off by three roundings: where the
middle between two codes lies within that, either is right. Source: ONNX operator QuantizeLinear, rounding half to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from samebits.mechanisms.quantised.integer_sums import add_saturating_pairs
from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.product_nodes import SATURATES, apply_product
from samebits.networks.values import Rule, Value, list_floats

_MOST_CODE = 255
# An attribute of our own: how far off a value may be before it is rounded to a code, where sums are rescaled by whole
# numbers. In steps, one number or one for each index of the last axis; and as a share of the value.
COARSE = "coarse"
# Marks a QuantizeLinear that cuts off the fraction of a step.
CUTS = "samebits.cuts"


def _spread(node: Node, x: np.ndarray, given: np.ndarray) -> np.ndarray | None:
    """A scale or a zero point along its axis; None for blocks."""
    if given.size == 1:
        return given.reshape(())
    axis = int(node.attributes.get("axis", 1)) % max(x.ndim, 1)
    if node.attributes.get("block_size") or given.ndim != 1 or given.shape[0] != x.shape[axis]:
        return None
    return given.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def _quantize(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    x, scales = list_floats(inputs[:2])
    if node.attributes.get("output_dtype") or node.attributes.get("precision"):
        return None
    zero = inputs[2] if len(inputs) > 2 else np.zeros((), np.uint8)
    if zero is None or isinstance(zero, Bounded) or zero.dtype.name not in ("int8", "uint8", "int16", "uint16"):
        return None
    scale, offset = _spread(node, x.value, scales.value), _spread(node, x.value, zero)
    if scale is None or offset is None or scales.error.any():
        return None
    with np.errstate(all="ignore"):
        steps = x.value / scale
        more, share = node.attributes.get(COARSE, (0.0, 0.0))
        off = x.error / np.abs(scale) + (3 * a.unit + share) * np.abs(steps) + np.asarray(more)
        holds, nearest = np.iinfo(zero.dtype), np.trunc if node.attributes.get(CUTS) else np.rint

        def code(value: np.ndarray) -> np.ndarray:
            return np.clip(nearest(value) + offset, holds.min, holds.max)

        codes = code(steps)
        error = np.maximum(np.abs(code(steps - off) - codes), np.abs(code(steps + off) - codes))
    return [Bounded(codes, np.nan_to_num(error, nan=np.inf), np.abs(codes))]


def _dequantize(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    x, scales = list_floats(inputs[:2])
    zero = list_floats(inputs[2:3])[0].value if len(inputs) > 2 and inputs[2] is not None else np.zeros(())
    scale, offset = _spread(node, x.value, scales.value), _spread(node, x.value, zero)
    if scale is None or offset is None or scales.error.any():
        return None
    # A difference of two codes is exact; their product is rounded once.
    steps = Bounded(x.value - offset, x.error, np.abs(x.value - offset))
    found = bounded.multiply(a, steps, bounded.exactly(np.broadcast_to(scale, x.value.shape)))
    # Multiplied out, both products are rounded.
    parts = np.where(offset == 0, 0.0, np.abs(x.value) + np.abs(offset)) * np.abs(scale)
    return [replace(found, error=found.error + a.unit * parts)]


def _quantize_by_range(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """DynamicQuantizeLinear: codes of 8 bits, and the scale and zero point that the values' own range asks for."""
    x = list_floats(inputs)[0]
    with np.errstate(all="ignore"):
        ends = [x.value + sign * x.error for sign in (-1.0, 1.0)]
        low, high = min(float(x.value.min(initial=0.0)), 0.0), max(float(x.value.max(initial=0.0)), 0.0)
        off = (low - min(float(ends[0].min(initial=0.0)), 0.0)) + (max(float(ends[1].max(initial=0.0)), 0.0) - high)
        step = (high - low) / _MOST_CODE
        scale = bounded.rounded(a, np.array(step), np.array(off / _MOST_CODE), 3.0)
        if not step:
            return None
        share = float(scale.error) / step
        zero, zero_error = _round_codes(np.array(-low / step), abs(low) / step * (share + 3 * a.unit) + off / step)
        steps = x.value / step
        codes, error = _round_codes(steps, np.abs(steps) * (share + 3 * a.unit) + x.error / step)
        codes = np.clip(codes + zero, 0, _MOST_CODE)
    return [Bounded(codes, error + zero_error, codes), scale, Bounded(zero, zero_error, zero)]


def _round_codes(steps: np.ndarray, off: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, and how far from them those may be that lie within `off`."""
    codes = np.rint(steps)
    error = np.maximum(np.abs(np.rint(steps - off) - codes), np.abs(np.rint(steps + off) - codes))
    return codes, np.nan_to_num(error, nan=np.inf)


def _multiply_whole(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """MatMulInteger and ConvInteger: exact, but for codes that may be either of two."""
    given = [None if v is None else list_floats([v])[0] for v in inputs]
    if node.attributes.get(SATURATES):
        return _multiply_in_pairs(node, inputs)
    x, w = _less(given, 0, 0), _less(given, 1, node.operator == "ConvInteger")
    plain = replace(node, operator="Conv" if node.operator == "ConvInteger" else "MatMul")
    (found,) = apply_product(replace(a, unit=0.0, least=0.0), plain, [x, w], "float64")
    assert isinstance(found, Bounded)
    # Sums of whole numbers below 2^53 are exact in float64, too; its rounding is no error here.
    error = np.where(found.error < 0.5, 0.0, found.error)
    return [Bounded(np.rint(found.value), error, found.magnitude)]


def _multiply_in_pairs(node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """MatMulInteger as processors without VNNI compute it: pairs of neighbouring products saturate in 16 bits.

    One operand is taken without its sign (128 more, if it has one); zero points are put right afterwards, exactly.
    """
    if any(isinstance(v, Bounded) for v in inputs):
        return None
    x, w = (np.asarray(v).astype(np.int64) for v in inputs[:2])
    zeros = [
        np.asarray(v).astype(np.int64) if v is not None else np.zeros((), np.int64) for v in (*inputs[2:], None, None)
    ]
    lift = 128 if inputs[0] is not None and np.asarray(inputs[0]).dtype == np.int8 else 0
    if w.ndim != 2 or x.ndim < 2 or zeros[0].size != 1:
        return None
    rows, x_zero = x.reshape(-1, x.shape[-1]) + lift, zeros[0].reshape(()) + lift
    total = add_saturating_pairs(rows, w.T)
    w_zero = zeros[1].reshape(1, -1)
    total -= x_zero * w.sum(0)[None] + w_zero * rows.sum(1)[:, None] - x.shape[-1] * x_zero * w_zero
    return [total.reshape(*x.shape[:-1], -1)]


def _less(given: Sequence[Bounded | None], place: int, by_row: int) -> Bounded:
    """An operand less its zero point: one number, or one by row or by column."""
    x, zero = given[place], given[place + 2] if len(given) > place + 2 else None
    assert x is not None
    if zero is None:
        return x
    rank = x.value.ndim
    shape = zero.value.shape
    if zero.value.size > 1 and zero.value.ndim == 1:
        # Of the first operand a zero point goes with a row, of the second with a column, or with a filter.
        axis = 0 if by_row else rank - 2 if place == 0 else rank - 1
        shape = tuple(-1 if i == axis else 1 for i in range(rank))
    value, error = x.value - zero.value.reshape(shape), x.error + zero.error.reshape(shape)
    return Bounded(value, error, np.abs(value))


# Products of codes.
WHOLE_PRODUCTS = ("MatMulInteger", "ConvInteger")
RULES: dict[str, Rule] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _quantize_by_range,
    "MatMulInteger": _multiply_whole,
    "ConvInteger": _multiply_whole,
}
