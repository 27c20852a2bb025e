"""A unit computed without its engine: the sums of its product by their recipe, all else in plain IEEE arithmetic.

What no recipe is known of is computed correctly rounded. Additions, maxima and moves have one result wherever they are
computed. A mean has one for each order of its sum, so the order is part of the step. Functions such as exp have as many
results as there are libraries: a step with one is the engine's to the last bit only where that was seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineRaised, EngineUnsupported
from samebits.networks.fused_forms import Candidate, apply_affine, emulate_onto, list_candidates
from samebits.networks.model_runners import run_node_by_reference, run_product
from samebits.networks.network import Network, Node
from samebits.networks.pooling import count_taps, view_windows
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.turned_units import TurnedUnit, turn_unit
from samebits.networks.units import Unit
from samebits.problems import Problem
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.truth import compute_truth

Arrays = Mapping[str, np.ndarray]

# The form of a unit that is computed node by node.
NODES = "nodes"
_LANES, _JOINS, _SCALES = (1, 4, 8, 16), ("halves", "neighbours", "chain"), ("divided", "multiplied")


@dataclass(frozen=True)
class MeanOrder:
    """How a mean adds: element i to running sum i modulo `lanes`, these joined by `join`, what is left over last.

    `scale` says whether the sum is divided by the count or multiplied by its rounded reciprocal.
    """

    lanes: int = 1
    join: str = "chain"
    scale: str = "divided"

    def __str__(self) -> str:
        return f"{self.lanes} {self.join} {self.scale}"


IN_SEQUENCE = MeanOrder()


def read_mean_order(text: str) -> MeanOrder | None:
    """The order that a text states; None for any other text."""
    return next((order for order in list_mean_orders() if str(order) == text), None)


def list_mean_orders() -> Iterator[MeanOrder]:
    """Every order that is tried."""
    for lanes, join, scale in itertools.product(_LANES, _JOINS, _SCALES):
        if lanes > 1 or join == "chain":
            yield MeanOrder(lanes, join, scale)


@dataclass(frozen=True)
class Step:
    """How a unit is computed: the name of a fused form and its product's recipe, or `NODES`, and how means add."""

    form: str
    recipe: Recipe | None = None
    means: MeanOrder = IN_SEQUENCE


def has_means(network: Network, unit: Unit) -> bool:
    """Whether a unit adds in an order that its operators leave open, other than a product's."""
    return any(network.nodes[p].operator in MEANS for p in unit.places)


def compute_unit(network: Network, folded: Arrays, unit: Unit, fed: Arrays, step: Step) -> dict[str, np.ndarray]:
    """A unit's outputs, by value, for what it is fed.

    Raises EngineRaised where a node cannot be computed, EngineUnsupported where the unit has no such form.
    """
    if step.form == NODES:
        values = {**folded, **fed}
        for place in unit.places:
            values |= _compute_node(network.nodes[place], values, network.opset, step.means)
        return {v: values[v] for v in unit.outputs}
    turned = turn_unit(network, folded, unit, fed)
    if step.recipe is not None:
        for candidate in list_candidates(turned):
            if candidate.form == step.form:
                made = finish_candidate(candidate, turned, sum_candidate(candidate, step.recipe), step.means)
                return {unit.outputs[0]: turned.turn_back(made)}
    raise EngineUnsupported(f"{unit.name} cannot be computed as {step.form[:40]!r}")


def sum_candidate(candidate: Candidate, recipe: Recipe, product: np.ndarray | None = None) -> np.ndarray:
    """What a candidate makes before its remaining nodes; `product` are its sums where they are known.

    Raises EngineUnsupported where the recipe leaves open how it adds to what comes next, RecipeError as `emulate` does.
    """
    if candidate.addend is None:
        made = emulate(candidate.problem, recipe, candidate.operands) if product is None else product
    else:
        made = emulate_onto(candidate.problem, recipe, candidate.operands, candidate.addend)
    if made is None:
        raise EngineUnsupported("the recipe does not say what is added to what")
    return made if candidate.affine is None else apply_affine(candidate, made)


def finish_candidate(
    candidate: Candidate, turned: TurnedUnit, made: np.ndarray, means: MeanOrder = IN_SEQUENCE
) -> np.ndarray:
    """The turned unit's output: the remaining nodes after what the candidate made."""
    values = {**turned.folded, **turned.seen, **candidate.constants, candidate.makes: made}
    for node in candidate.rest:
        values |= _compute_node(node, values, turned.network.opset, means)
    return values[turned.unit.outputs[0]]


def _compute_node(node: Node, values: Arrays, opset: int, means: MeanOrder) -> dict[str, np.ndarray]:
    try:
        inputs = [values[v] if v else None for v in node.inputs]
    except KeyError as error:
        raise EngineRaised(f"node {node.name[:60]} reads a value that is not there: {error}") from None
    x = inputs[0] if inputs else None
    if node.operator in MEANS and x is not None and x.dtype == np.float32:
        made = MEANS[node.operator](node, inputs, means)
        if made is not None:
            return {node.outputs[0]: made}
    if node.operator in PRODUCTS:
        return {node.outputs[0]: run_product(node, inputs, _compute_truly)}
    results = run_node_by_reference(node, inputs, opset)
    return dict(zip((v for v in node.outputs if v), results, strict=True))


def _compute_truly(problem: Problem, operands: Arrays) -> np.ndarray:
    return compute_truth(problem, operands).values


def _average_all(node: Node, inputs: Sequence[np.ndarray | None], order: MeanOrder) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    if x.ndim < 3:
        return None
    rows = x.reshape(*x.shape[:2], -1)
    return _scale(_add(rows, order), rows.shape[-1], order).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))


def _average_windows(node: Node, inputs: Sequence[np.ndarray | None], order: MeanOrder) -> np.ndarray | None:
    x = inputs[0]
    assert x is not None
    windows = view_windows(x, node.attributes, 0.0)
    flat = np.ascontiguousarray(windows.reshape(*windows.shape[: x.ndim], -1))
    return _scale(_add(flat, order), count_taps(x, node.attributes).astype(np.float32), order)


def _average_axes(node: Node, inputs: Sequence[np.ndarray | None], order: MeanOrder) -> np.ndarray | None:
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


def _add(rows: np.ndarray, order: MeanOrder) -> np.ndarray:
    """The sums along the last axis, in float32 and in that order."""
    count = rows.shape[-1]
    whole = count // order.lanes * order.lanes
    sums = np.zeros((*rows.shape[:-1], order.lanes), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, whole, order.lanes):
            sums += rows[..., start : start + order.lanes]
        while (width := sums.shape[-1]) > 1:
            if order.join == "halves":
                sums = sums[..., : width // 2] + sums[..., width // 2 :]
            elif order.join == "neighbours":
                sums = sums[..., ::2] + sums[..., 1::2]
            else:
                sums = np.add.accumulate(sums, -1, dtype=np.float32)[..., -1:]
        total = sums[..., 0]
        for i in range(whole, count):
            total = total + rows[..., i]
    return total


def _scale(total: np.ndarray, count: np.ndarray | int, order: MeanOrder) -> np.ndarray:
    number = np.asarray(count, np.float32)
    with np.errstate(all="ignore"):
        return total / number if order.scale == "divided" else total * (np.float32(1) / number)


# Operators that add, in an order that they leave open.
MEANS = {
    "GlobalAveragePool": _average_all,
    "AveragePool": _average_windows,
    "ReduceMean": _average_axes,
    "ReduceSum": _average_axes,
}
