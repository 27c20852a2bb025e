"""A unit without the moves around its product, in which channels-last frameworks wrap an ONNX convolution.

Transpositions, padding and slices before the product are carried out, they round nothing. Transpositions behind it are
taken through what follows to the unit's end, and undone there. What is left is the product and the arithmetic behind
it, which one problem may express.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.networks.network import Network, Node
from samebits.networks.operations import ELEMENTWISE
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.product_nodes import find_product
from samebits.networks.units import Unit
from samebits.problems import format_problem

_MOVES = (
    "Transpose", "Pad", "Slice", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Concat", "Expand",
)  # fmt: skip
_TURNED = "#turned"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class TurnedUnit:
    """A unit and what one side fed it and made of it, turned; `order` is how its output's axes were moved, or None."""

    network: Network
    folded: Arrays
    unit: Unit
    seen: Arrays
    order: tuple[int, ...] | None = None

    def turn(self, output: np.ndarray) -> np.ndarray:
        """The unit's output as the turned unit returns it."""
        return output if self.order is None else np.ascontiguousarray(output.transpose(np.argsort(self.order)))

    def turn_back(self, output: np.ndarray) -> np.ndarray:
        """What the turned unit returns as the unit's output."""
        return output if self.order is None else np.ascontiguousarray(output.transpose(self.order))


def turn_unit(network: Network, folded: Arrays, unit: Unit, seen: Arrays) -> TurnedUnit:
    """The unit without the moves around its only product; unchanged where it has none, or they cannot be removed."""
    plain = TurnedUnit(network, folded, unit, seen)
    if len(unit.products) != 1 or len(unit.outputs) != 1 or len(unit.places) == 1:
        return plain
    place = unit.products[0]
    before = _list_sources(network, unit, place)
    known = _carry_out(network, folded, [network.nodes[p] for p in before], seen)
    if known is None:
        return plain
    behind = _Behind(folded, {**seen, **known})
    nodes = [network.nodes[p] for p in unit.places if p not in before]
    if nodes[0] is not network.nodes[place]:
        return plain
    if not all(behind.take(node) for node in nodes):
        behind = _Behind(folded, {**seen, **known})
        behind.nodes = nodes
    output = behind.names.get(unit.outputs[0], unit.outputs[0])
    order = behind.orders.get(unit.outputs[0])
    moved = TurnedUnit(network, folded, unit, seen, order)
    inside = {v for node in behind.nodes for v in node.outputs}
    inputs = dict.fromkeys(v for n in behind.nodes for v in n.inputs if v and v not in inside and v not in folded)
    turned = replace(
        unit,
        places=tuple(range(len(behind.nodes))),
        products=(0,),
        inputs=tuple(v for v in inputs if v not in behind.constants),
        outputs=(output,),
        operators=tuple(node.operator for node in behind.nodes),
    )
    results = {output: moved.turn(seen[unit.outputs[0]])} if unit.outputs[0] in seen else {}
    return TurnedUnit(
        replace(network, nodes=tuple(behind.nodes)),
        {**folded, **behind.constants},
        turned,
        {**behind.seen, **results},
        order,
    )


def state_problem(network: Network, folded: Arrays, unit: Unit, seen: Arrays) -> str | None:
    """The text of the problem that a unit's only product computes; None where it has none, or several."""
    if len(unit.products) != 1:
        return None
    turned = turn_unit(network, folded, unit, seen)
    node = turned.network.nodes[turned.unit.products[0]]
    known = {**turned.seen, **turned.folded}
    inputs = [known.get(v) if v else None for v in node.inputs]
    if any(i is None for i, v in zip(inputs, node.inputs, strict=True) if v):
        return None
    return format_problem(find_product(node, inputs).problem)


def _list_sources(network: Network, unit: Unit, place: int) -> list[int]:
    """The unit's nodes that the product depends on, in sequence."""
    needed = {v for v in network.nodes[place].inputs if v}
    found: list[int] = []
    for p in sorted((p for p in unit.places if p < place), reverse=True):
        if any(v in needed for v in network.nodes[p].outputs):
            found.insert(0, p)
            needed.update(v for v in network.nodes[p].inputs if v)
    return found


def _carry_out(network: Network, folded: Arrays, nodes: list[Node], seen: Arrays) -> dict[str, np.ndarray] | None:
    """The values computed by the moves before the product; None where one of these nodes is more than a move."""
    made: dict[str, np.ndarray] = {}
    for node in nodes:
        inputs = [folded[v] if v in folded else made.get(v, seen.get(v)) if v else None for v in node.inputs]
        if node.operator not in _MOVES or any(i is None for i, v in zip(inputs, node.inputs, strict=True) if v):
            return None
        try:
            results = evaluate_plainly(node, inputs, network.opset)
        except NoReferenceError:
            return None
        made |= dict(zip((v for v in node.outputs if v), results, strict=True))
    return made


@dataclass
class _Behind:
    """What follows a product, its transpositions taken along to the end."""

    folded: Arrays
    seen: dict[str, np.ndarray]
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    # Of a value that is another's transposition: that value's name, and the order of axes that leads from it.
    names: dict[str, str] = field(default_factory=dict[str, str])
    orders: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])

    def take(self, node: Node) -> bool:
        """Adds a node, in turned axes where what it reads is turned; False where it cannot be."""
        first = node.inputs[0] if node.inputs else ""
        if node.operator == "Transpose" and (made := {v for n in self.nodes for v in n.outputs} & {self._find(first)}):
            order = tuple(int(i) for i in node.attributes.get("perm", ()))
            before = self.orders.get(first, tuple(range(len(order))))
            if not order or len(before) != len(order):
                return False
            self.names[node.outputs[0]] = made.pop()
            self.orders[node.outputs[0]] = tuple(before[i] for i in order)
            return True
        orders = {self.orders[v] for v in node.inputs if v in self.orders}
        if not orders:
            self.nodes.append(node)
            return True
        # A batch norm's channels are the second axis, wherever they lie.
        takes = node.operator in ELEMENTWISE and node.operator != "BatchNormalization" and len(node.outputs) == 1
        if len(orders) > 1 or not takes:
            return False
        order = orders.pop()
        inputs = [self._turn_input(node, i, order) for i in range(len(node.inputs))]
        if any(name is None for name in inputs):
            return False
        named = [name or "" for name in inputs]
        output = node.outputs[0] + _TURNED
        stored = type(node.stored)()
        stored.CopyFrom(node.stored)
        del stored.input[:]
        stored.input.extend(named)
        stored.output[0] = output
        self.nodes.append(replace(node, inputs=tuple(named), outputs=(output,), stored=stored))
        self.names[node.outputs[0]], self.orders[node.outputs[0]] = output, order
        return True

    def _find(self, value: str) -> str:
        return self.names.get(value, value)

    def _turn_input(self, node: Node, i: int, order: tuple[int, ...]) -> str | None:
        """The name of an input in turned axes; None where it cannot be turned."""
        value = node.inputs[i]
        if not value or value in self.orders:
            return self._find(value)
        array = self.folded[value] if value in self.folded else self.seen.get(value)
        if array is None or array.ndim > len(order):
            return None
        if array.size == 1 or node.operator == "Clip":
            return value
        wide = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
        moved = np.ascontiguousarray(wide.transpose(np.argsort(order)))
        (self.constants if value in self.folded else self.seen)[value + _TURNED] = moved
        return value + _TURNED
