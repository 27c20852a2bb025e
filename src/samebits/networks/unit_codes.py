"""A product of codes between quantisers, computed as kernels for whole numbers do: exact sums, rescaled once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from samebits.mechanisms.quantised.integer_sums import (
    IntegerCase,
    PairOrder,
    Whole,
    list_orders_of,
    sum_exactly,
    sum_in_pairs,
)
from samebits.mechanisms.quantised.requantising import clamp, list_ways
from samebits.networks.model_runners import run_node_by_reference
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import find_product
from samebits.networks.units import Unit
from samebits.numbers.format import FORMATS
from samebits.problems.integer_problem import IntegerProblem

Arrays = Mapping[str, np.ndarray]
_CODES = ("uint8", "int8")
# Sums of so many products of codes are exact.
_MOST_PRODUCTS = 2**15


def compute_codes(
    network: Network, folded: Arrays, unit: Unit, fed: Arrays, known: str = ""
) -> Iterator[tuple[str, np.ndarray]]:
    """The unit's codes in every way to add and rescale, each with the text that names it; `known` is one such text.

    Nothing of a unit that is not one product of codes between a DequantizeLinear and a QuantizeLinear.
    """
    case = state_codes(network, folded, unit, fed)
    if case is None:
        return
    relu = any(network.nodes[p].operator == "Relu" for p in unit.places)
    for order, way in itertools.product((None, *list_orders_of(case)), list_ways()):
        text = way.says if order is None else f"{way.says}; pairs saturate, {order.value}"
        if known and text != known:
            continue
        sums = _add(case, order)
        if sums is None:
            continue
        made = clamp(case, way.run(case, sums))
        made = np.maximum(made, case.y_zero) if relu else made
        yield text, made.astype(case.problem.out).reshape(case.problem.plain.out_shape)


def _add(case: IntegerCase, order: PairOrder | None) -> Whole | None:
    return sum_exactly(case) if order is None else sum_in_pairs(case, order)


def state_codes(network: Network, folded: Arrays, unit: Unit, fed: Arrays) -> IntegerCase | None:
    """A unit as an integer case: codes of x that are fed, those of w and the bias as they stand in the file."""
    if len(unit.products) != 1 or len(unit.outputs) != 1:
        return None
    nodes = {p: network.nodes[p] for p in unit.places}
    product = nodes[unit.products[0]]
    last = nodes[unit.places[-1]]
    between = {n.operator for p, n in nodes.items() if p > unit.products[0]} - {"Relu"}
    if last.operator != "QuantizeLinear" or between != {"QuantizeLinear"}:
        return None
    x, w = (_read_codes(network, folded, fed, value) for value in product.inputs[:2])
    y_scale, y_zero = _read_scale(last, folded)
    if x is None or w is None or y_scale is None or y_scale.size != 1 or x[1].size != 1:
        return None
    floats = [np.zeros(x[0].shape, np.float32), np.zeros(w[0].shape, np.float32)]
    bias = folded.get(product.inputs[2]) if len(product.inputs) > 2 and product.inputs[2] else None
    if len(product.inputs) > 2 and product.inputs[2] and bias is None:
        return None
    found = find_product(product, [*floats, *([] if bias is None else [bias])])
    plain = found.problem
    if found.alpha != 1.0 or found.adds_third or plain.is_transposed or plain.reduction_length > _MOST_PRODUCTS:
        return None
    codes = {"x": x[0], "w": w[0]}
    arranged = {n: a.T if n in found.turned else a for n, a in codes.items()}
    per_channel = "channel" if w[1].size > 1 else "tensor"
    out = y_zero.dtype.name
    if out not in _CODES:
        return None
    case = IntegerCase(
        IntegerProblem(plain, x[0].dtype.name, w[0].dtype.name, out, per_channel),
        x=arranged["x"].astype(np.int64), w=arranged["w"].astype(np.int64),
        x_zero=int(x[2].reshape(-1)[0]), w_zero=w[2].reshape(-1).astype(np.int64), bias=np.zeros(1, np.int64),
        x_scale=float(x[1].reshape(-1)[0]), w_scale=w[1].reshape(-1).astype(np.float64),
        y_scale=float(y_scale.reshape(-1)[0]), y_zero=int(y_zero.reshape(-1)[0]), pad=int(x[2].reshape(-1)[0]),
    )  # fmt: skip
    return case if bias is None else _with_bias(case, bias)


def _with_bias(case: IntegerCase, bias: np.ndarray) -> IntegerCase | None:
    """The case with a bias that stands as floats; None where it is no whole number of steps."""
    steps = bias.reshape(-1).astype(np.float64) / (case.x_scale * case.w_scale)
    whole = np.rint(steps)
    # A bias of float32 is its code to 24 bits.
    if not np.isfinite(steps).all() or (np.abs(steps - whole) > 2.0**-22 * np.maximum(np.abs(whole), 1)).any():
        return None
    return replace(case, bias=whole.astype(np.int64)) if (np.abs(whole) < 2**31).all() else None


def _read_codes(
    network: Network, folded: Arrays, fed: Arrays, value: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Codes, scale and zero point of a value that a DequantizeLinear makes; None of any other."""
    place = network.producers.get(value)
    node = None if place is None else network.nodes[place]
    if node is None or node.operator != "DequantizeLinear":
        return None
    codes = _find_codes(network, {**folded, **fed}, node.inputs[0])
    scale, zero = _read_scale(node, folded)
    if codes is None or scale is None or codes.dtype.name not in _CODES:
        return None
    return codes, scale, zero


def _find_codes(network: Network, known: Arrays, value: str) -> np.ndarray | None:
    """The codes of a value that is known, or that is a known one quantised."""
    if value in known or value not in network.producers:
        return known.get(value)
    node = network.nodes[network.producers[value]]
    inputs = [known.get(v) if v else None for v in node.inputs]
    if node.operator != "QuantizeLinear" or any(i is None for i, v in zip(inputs, node.inputs, strict=True) if v):
        return None
    return run_node_by_reference(node, inputs, network.opset)[0]


def _read_scale(node: Node, folded: Arrays) -> tuple[np.ndarray | None, np.ndarray]:
    _, stated, *more = node.inputs
    scale = folded.get(stated)
    zero = folded.get(more[0]) if more and more[0] else np.zeros(1, np.uint8)
    if scale is None or zero is None or scale.dtype.name not in FORMATS:
        return None, np.zeros(1, np.uint8)
    return scale, zero
