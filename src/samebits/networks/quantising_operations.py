"""QuantizeLinear and DequantizeLinear: codes that are exact, but for values that lie at the middle between two of them.

Engines divide by the scale or multiply by its reciprocal, so that x / scale may be off by three roundings: where the
middle between two codes lies within that, either is right. Source: ONNX operator QuantizeLinear, rounding half to even.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.values import Rule, Value, list_floats


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
        off = x.error / np.abs(scale) + 3 * a.unit * np.abs(steps)
        holds = np.iinfo(zero.dtype)

        def code(value: np.ndarray) -> np.ndarray:
            return np.clip(np.rint(value) + offset, holds.min, holds.max)

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
    return [bounded.multiply(a, steps, bounded.exactly(np.broadcast_to(scale, x.value.shape)))]


RULES: dict[str, Rule] = {"QuantizeLinear": _quantize, "DequantizeLinear": _dequantize}
