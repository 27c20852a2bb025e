"""Operators as one library computes them: elementary functions, means and norms, whose bits ONNX leaves open.

A `Manner` says which library's functions a unit uses, and in which order its means add. Whoever has seen an engine's
values finds it by trying them all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.networks.network import Node
from samebits.networks.pooling import count_taps, view_windows
from samebits.sums.functions import mlas
from samebits.sums.functions.lane_sums import add_aligned, add_in_lanes

Inputs = Sequence[np.ndarray | None]
_LANES, _JOINS, _SCALES = (1, 4, 8, 16), ("halves", "neighbours", "chain"), ("divided", "multiplied")


@dataclass(frozen=True)
class MeanOrder:
    """How a mean adds: element i to running sum i modulo `lanes`, these joined by `join`, what is left over last.

    With the join `aligned` (Eigen's) whole packets of `lanes` elements begin where the row's address is a multiple of
    their size; two packets at a time go to two sums, and the elements before the first packet are added behind all
    packets. `scale` says whether the sum is divided by the count or multiplied by its rounded reciprocal.
    """

    lanes: int = 1
    join: str = "chain"
    scale: str = "divided"

    def __str__(self) -> str:
        return f"{self.lanes} {self.join} {self.scale}"


IN_SEQUENCE = MeanOrder()


def list_mean_orders() -> Iterator[MeanOrder]:
    """Every order that is tried."""
    for lanes, join, scale in itertools.product(_LANES, _JOINS, _SCALES):
        if lanes > 1 or join == "chain":
            yield MeanOrder(lanes, join, scale)
    for scale in _SCALES:
        yield MeanOrder(4, "aligned", scale)


@dataclass(frozen=True)
class Manner:
    """Whose functions a unit uses, a name of `LIBRARIES` or "" for NumPy's, and how its means add."""

    functions: str = ""
    means: MeanOrder = IN_SEQUENCE


PLAIN = Manner()


def read_manner(functions: str, means: str) -> Manner | None:
    """The manner that two texts state; None for texts that state none."""
    orders = {str(order): order for order in list_mean_orders()} | {"": IN_SEQUENCE}
    if means not in orders or (functions and functions not in LIBRARIES):
        return None
    return Manner(functions, orders[means])


def list_manners(nodes: Iterable[Node]) -> Iterator[Manner]:
    """Every manner in which these nodes may be computed, the plain one first."""
    operators = {node.operator for node in nodes}
    names = ["", *(name for name, held in LIBRARIES.items() if operators & set(held))]
    orders = list_mean_orders() if operators & set(_MEANS) else iter((IN_SEQUENCE,))
    for means, functions in itertools.product(orders, names):
        yield Manner(functions, means)


def has_means(nodes: Iterable[Node]) -> bool:
    """Whether some node adds in an order that its operator leaves open, other than a product's."""
    return any(node.operator in _MEANS for node in nodes)


def apply_manner(node: Node, inputs: Inputs, opset: int, manner: Manner) -> np.ndarray | None:
    """What a node returns in this manner; None where the manner says nothing of it. float32 alone."""
    x = inputs[0] if inputs else None
    if x is None or x.dtype != np.float32 or sum(1 for v in node.outputs if v) != 1:
        return None
    if node.operator in _MEANS:
        return _MEANS[node.operator](node, inputs, manner.means)
    known = LIBRARIES.get(manner.functions, {}).get(node.operator)
    with np.errstate(all="ignore"):
        return None if known is None else known(node, inputs, opset)


def _average_all(node: Node, inputs: Inputs, order: MeanOrder) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    if x.ndim < 3:
        return None
    rows = x.reshape(*x.shape[:2], -1)
    return _scale(_add(rows, order), rows.shape[-1], order).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))


def _average_windows(node: Node, inputs: Inputs, order: MeanOrder) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    windows = view_windows(x, node.attributes, 0.0)
    flat = np.ascontiguousarray(windows.reshape(*windows.shape[: x.ndim], -1))
    return _scale(_add(flat, order), count_taps(x, node.attributes).astype(np.float32), order)


def _average_axes(node: Node, inputs: Inputs, order: MeanOrder) -> np.ndarray | None:
    x, given = inputs[0], inputs[1] if len(inputs) > 1 else None
    assert x is not None
    stated = node.attributes.get("axes") if given is None else given.tolist()
    if not stated:
        return None
    axes = sorted(int(a) % x.ndim for a in stated)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(*(x.shape[a] for a in kept), -1)
    count = rows.shape[-1]
    made = _add(rows, order) if node.operator == "ReduceSum" else _scale(_add(rows, order), count, order)
    keeps = int(node.attributes.get("keepdims", 1))
    return made.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keeps else made


# Operators that add, in an order that they leave open.
_MEANS: dict[str, Callable[[Node, Inputs, MeanOrder], np.ndarray | None]] = {
    "GlobalAveragePool": _average_all,
    "AveragePool": _average_windows,
    "ReduceMean": _average_axes,
    "ReduceSum": _average_axes,
}


def _add(rows: np.ndarray, order: MeanOrder) -> np.ndarray:
    """The sums along the last axis, in float32 and in that order."""
    return add_aligned(rows, order.lanes) if order.join == "aligned" else add_in_lanes(rows, order.lanes, order.join)


def _scale(total: np.ndarray, count: np.ndarray | int, order: MeanOrder) -> np.ndarray:
    number = np.asarray(count, np.float32)
    with np.errstate(all="ignore"):
        return total / number if order.scale == "divided" else total * (np.float32(1) / number)


_Computes = Callable[[Node, Inputs, int], np.ndarray | None]


def _each(function: Callable[[np.ndarray], np.ndarray]) -> _Computes:
    def compute(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
        x = inputs[0]
        assert x is not None
        return function(x)

    return compute


def _gelu(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    return mlas.compute_gelu(x) if str(node.attributes.get("approximate", "none")) == "none" else None


def _softmax(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    axis = int(node.attributes.get("axis", -1 if opset >= 13 else 1)) % max(x.ndim, 1)
    if not x.size or not x.ndim:
        return None
    if opset < 13:
        # All axes from this one on are one row.
        rows = x.reshape(math.prod(x.shape[:axis]), -1)
        return mlas.compute_softmax(rows).reshape(x.shape)
    turned = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    return np.ascontiguousarray(np.moveaxis(mlas.compute_softmax(turned), -1, axis))


def _instance_norm(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
    x, scale, shift = (*inputs, None, None)[:3]
    if x is None or scale is None or shift is None or x.ndim < 3 or not x.size:
        return None
    rows = x.reshape(*x.shape[:2], -1)
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return mlas.compute_instance_norm(rows, scale, shift, epsilon).reshape(x.shape)


def _norm(function: Callable[..., np.ndarray], *, centred: bool) -> _Computes:
    def compute(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
        x, scale = inputs[0], inputs[1]
        shift = inputs[2] if len(inputs) > 2 else None
        assert x is not None
        axis = int(node.attributes.get("axis", -1)) % max(x.ndim, 1)
        if scale is None or scale.dtype != np.float32 or scale.size != math.prod(x.shape[axis:]) or not x.size:
            return None
        rows = x.reshape(*x.shape[:axis], -1)
        epsilon = float(node.attributes.get("epsilon", 1e-5))
        row = None if shift is None else shift.reshape(-1)
        return function(rows, scale.reshape(-1), row, epsilon, centred=centred).reshape(x.shape)

    return compute


_MLAS: Mapping[str, _Computes] = {
    "Sigmoid": _each(mlas.compute_logistic),
    "Tanh": _each(mlas.compute_tanh),
    "Exp": _each(mlas.compute_exp),
    "Erf": _each(mlas.compute_erf),
    "Gelu": _gelu,
    "Softmax": _softmax,
    "InstanceNormalization": _instance_norm,
}


def _with_norms(function: Callable[..., np.ndarray]) -> dict[str, _Computes]:
    return {
        "LayerNormalization": _norm(function, centred=True),
        "RMSNormalization": _norm(function, centred=False),
    }


# By library, the functions that are known to the bit. It computes norms otherwise where it fuses them with the sums
# before them, and did so in older releases.
LIBRARIES: dict[str, Mapping[str, _Computes]] = {
    "mlas": {**_MLAS, **_with_norms(mlas.compute_layer_norm)},
    "mlas-fused-norm": {**_MLAS, **_with_norms(mlas.compute_layer_norm_in_sequence)},
    "mlas-one-pass-norm": {**_MLAS, **_with_norms(mlas.compute_layer_norm_in_one_pass)},
}
