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
_WITH_GELU = "+gelu"


def list_mean_orders() -> Iterator[MeanOrder]:
    """Every order that is tried."""
    for lanes, join, scale in itertools.product(_LANES, _JOINS, _SCALES):
        if lanes > 1 or join == "chain":
            yield MeanOrder(lanes, join, scale)
    for scale in _SCALES:
        yield MeanOrder(4, "aligned", scale)


@dataclass(frozen=True)
class Manner:
    """Whose functions a unit uses, a name of `LIBRARIES` or "" for NumPy's, and how its means add.

    With "+gelu" behind its name the library computes a gelu by tanh that is written out as one function.
    """

    functions: str = ""
    means: MeanOrder = IN_SEQUENCE

    @property
    def library(self) -> str:
        """The library's name."""
        return self.functions.removesuffix(_WITH_GELU)

    @property
    def fuses_gelu(self) -> bool:
        """Whether a gelu that is written out is one function."""
        return self.functions.endswith(_WITH_GELU)


PLAIN = Manner()


def read_manner(functions: str, means: str) -> Manner | None:
    """The manner that two texts state; None for texts that state none."""
    orders = {str(order): order for order in list_mean_orders()} | {"": IN_SEQUENCE}
    found = Manner(functions, orders.get(means, IN_SEQUENCE))
    return found if means in orders and (not functions or found.library in LIBRARIES) else None


def list_manners(nodes: Iterable[Node]) -> Iterator[Manner]:
    """Every manner in which these nodes may be computed, the plain one first."""
    nodes = list(nodes)
    operators = {node.operator for node in nodes}
    names = ["", *(name for name, held in LIBRARIES.items() if operators & set(held))]
    if find_fast_gelus(nodes):
        names += [f"{name}{_WITH_GELU}" for name in LIBRARIES]
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
    known = LIBRARIES.get(manner.library, {}).get(node.operator)
    with np.errstate(all="ignore"):
        return None if known is None else known(node, inputs, opset)


def find_fast_gelus(nodes: Sequence[Node]) -> dict[str, str]:
    """By the value that it ends in, what a gelu by tanh, written out in these nodes, is taken of: libraries fuse it.

    x (1 + tanh(b (x + c x^3))) / 2, whatever the sequence of the factors.
    """
    makers = {v: node for node in nodes for v in node.outputs if v}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for value in node.inputs:
            readers.setdefault(value, []).append(node)
    found: dict[str, str] = {}
    for node in nodes:
        if node.operator != "Tanh":
            continue
        cubed = _find_before(makers, node.inputs[0], ("Mul", "Add", "Mul", "Pow"))
        raised = _follow(readers, node.outputs[0], "Add")
        product = None if raised is None else _follow(readers, raised, "Mul")
        if cubed is None or product is None:
            continue
        other = next(v for v in makers[product].inputs if v != raised)
        halved = makers.get(other)
        if other == cubed:
            product = _follow(readers, product, "Mul")
        elif halved is None or halved.operator != "Mul" or cubed not in halved.inputs:
            continue
        if product is not None:
            found[product] = cubed
    return found


def _find_before(makers: Mapping[str, Node], value: str, operators: Sequence[str]) -> str | None:
    """What the last of these operators reads, each a maker of what the one before it reads."""
    if not operators:
        return value
    node = makers.get(value)
    if node is None or node.operator != operators[0]:
        return None
    ways = (
        _find_before(makers, v, operators[1:]) for v in (node.inputs[:1] if node.operator == "Pow" else node.inputs)
    )
    return next((way for way in ways if way is not None), None)


def _follow(readers: Mapping[str, list[Node]], value: str, operator: str) -> str | None:
    """What the only reader of a value makes, if it is this operator."""
    found = readers.get(value, [])
    return found[0].outputs[0] if len(found) == 1 and found[0].operator == operator else None


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


def _power(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
    x, exponent = inputs[0], inputs[1]
    assert x is not None
    if exponent is None or exponent.size != 1 or float(exponent.reshape(-1)[0]) not in (2.0, 3.0):
        return None
    square = np.broadcast_to(x * x, np.broadcast_shapes(x.shape, exponent.shape))
    return square * x if float(exponent.reshape(-1)[0]) == 3.0 else square.copy()


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


def _batch_norm(node: Node, inputs: Inputs, opset: int) -> np.ndarray | None:
    x, scale, shift, mean, variance = (*inputs, *(None,) * 5)[:5]
    if x is None or scale is None or shift is None or mean is None or variance is None or x.ndim < 2:
        return None
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    factor, moved = mlas.fold_batch_norm(scale, shift, mean, variance, epsilon)
    shape = (-1, *(1,) * (x.ndim - 2))
    return x * factor.reshape(shape) + moved.reshape(shape)


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
    "Pow": _power,
    "Softmax": _softmax,
    "InstanceNormalization": _instance_norm,
    "BatchNormalization": _batch_norm,
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
