"""Channels that a second file of a network computes in another sequence, and reads so: the same function.

Tools that prune, pack or merge layers sort channels. The sequence begins at a product, whose weights hold the first
file's rows in another sequence, and ends where other weights take them in that sequence, or where a sum goes over all
of them. An order is believed only if everything between takes each channel for itself, with its own constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.networks.network import Network, Node
from samebits.networks.onnx_reading import make_network
from samebits.networks.operations import ELEMENTWISE, MOVES
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.units import fold_constants

# Each channel's places are reduced, or resized, for themselves.
_POOLS = (
    "AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "Resize", "Upsample",
)  # fmt: skip
# What these return for an element depends on the others only by a sum, or by the largest.
_OVER_ALL = ("LayerNormalization", "LogSoftmax", "RMSNormalization", "Softmax")
_PER_CHANNEL = ("BatchNormalization", "InstanceNormalization")
_STRAIGHT = "#straight"
_MOST_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Order:
    """Index i of `axis` in the second file is index `places[i]` in the first; `origins` are the products it is from."""

    axis: int
    places: np.ndarray
    origins: frozenset[str]

    def straighten(self, array: np.ndarray) -> np.ndarray:
        """What the second file made, in the first one's sequence."""
        return np.take(array, np.argsort(self.places), self.axis)

    def apply(self, array: np.ndarray) -> np.ndarray:
        """What the first file made, in the second one's sequence."""
        return np.take(array, self.places, self.axis)

    def is_same(self, other: Order) -> bool:
        """Whether both lead to the same sequence of the same axis."""
        return self.axis == other.axis and np.array_equal(self.places, other.places)


@dataclass(frozen=True)
class ChannelOrders:
    """The orders of the second file's values, by name, and that file with its constants in the first one's sequence."""

    values: Mapping[str, Order]
    straight: Network
    # The first file's products that begin them.
    products: Sequence[str] = ()


class _NotTakenError(Exception):
    """A node does not take an order along."""


def find_channel_orders(first: Network, second: Network) -> ChannelOrders:
    """The sequences in which the second file computes what the first computes; no values where there are none.

    Values that correspond have the same name in both files. An order that anything reads otherwise is none: its weights
    are other ones.
    """
    given_up: set[str] = set()
    while True:
        walk = _Walk(first, second, given_up)
        givers = walk.run()
        if not givers:
            products = [n.name for n in first.nodes if n.name in walk.begins]
            return ChannelOrders(walk.orders, _straighten(second, walk.constants), products)
        given_up |= givers


def _straighten(network: Network, constants: Mapping[tuple[str, int], np.ndarray]) -> Network:
    if not constants:
        return network
    from onnx import numpy_helper

    model = type(network.stored)()
    model.CopyFrom(network.stored)
    for node in model.graph.node:
        for i, value in enumerate(node.input):
            key = (node.output[0], i)
            if node.output and key in constants:
                node.input[i] = f"{value}{_STRAIGHT}{len(model.graph.initializer)}"
                model.graph.initializer.append(numpy_helper.from_array(constants[key], node.input[i]))
    return make_network(model, network.name)


@dataclass
class _Walk:
    """One walk through the second file; `given_up` are products whose order was read otherwise."""

    first: Network
    second: Network
    given_up: set[str]
    orders: dict[str, Order] = field(default_factory=dict[str, Order])
    # Constants in the first file's sequence, by the first output of the node that reads them, and the input's number.
    constants: dict[tuple[str, int], np.ndarray] = field(default_factory=dict[tuple[str, int], np.ndarray])

    # The first file's products that begin an order.
    begins: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.known, self.other_known = fold_constants(self.first), fold_constants(self.second)

    def run(self) -> set[str]:
        """Finds all orders; returns the products to give up, if an order of theirs was read otherwise."""
        for node in self.second.nodes:
            if all(v in self.other_known for v in node.outputs if v):
                continue
            origins = {o for v in node.inputs if v in self.orders for o in self.orders[v].origins}
            same = self._find_same(node)
            try:
                if same is None:
                    # Another exporter's node. Without constants of its own along an axis it needs no counterpart.
                    self._need(not origins or self._is_plain(node))
                order = self._take(same or node, node) if same is not None or origins else None
            except _NotTakenError:
                return origins or {node.name}
            for value in node.outputs:
                if order is not None and value:
                    self.orders[value] = order
        return {o for v in self.second.outputs if v in self.orders for o in self.orders[v].origins}

    def _is_plain(self, node: Node) -> bool:
        """Whether a node is no product, and has no constants but single numbers."""
        held = [self.other_known[v] for v in node.inputs if v in self.other_known]
        return node.operator not in PRODUCTS and all(array.size == 1 or array.dtype.kind in "iu" for array in held)

    def _find_same(self, node: Node) -> Node | None:
        place = next((self.first.producers[v] for v in node.outputs if v in self.first.producers), None)
        same = None if place is None else self.first.nodes[place]
        is_same = same is not None and same.operator == node.operator and len(same.inputs) == len(node.inputs)
        return same if is_same else None

    def _take(self, same: Node, node: Node) -> Order | None:
        """The order of what a node returns; raises _NotTakenError where it reads an order otherwise."""
        if node.operator in PRODUCTS and node.inputs[1] in self.other_known and same.inputs[1] in self.known:
            return self._take_product(same, node)
        own = [self.orders[v] for v in node.inputs if v in self.orders]
        if not own:
            return None
        if node.operator == "MatMul":
            return self._take_pair(node)
        if node.operator in MOVES:
            return self._take_move(node)
        if node.operator in _PER_CHANNEL or (node.operator in _POOLS and len([v for v in node.outputs if v]) == 1):
            return self._take_channels(same, node, own[0])
        if node.operator.startswith("Reduce"):
            return self._take_reduction(node, own[0])
        self._need(node.operator in (*ELEMENTWISE, *_OVER_ALL, "Cast"))
        return self._take_elements(same, node, own)

    def _need(self, holds: bool | np.bool_) -> None:
        if not holds:
            raise _NotTakenError

    def _take_product(self, same: Node, node: Node) -> Order | None:
        weights, held = self.known[same.inputs[1]], self.other_known[node.inputs[1]]
        order = self.orders.get(node.inputs[0])
        is_matrix = node.operator in ("Gemm", "MatMul")
        if weights.shape != held.shape or weights.dtype != held.dtype or (is_matrix and weights.ndim != 2):
            self._need(order is None)
            return None
        if order is not None:
            self._need(order.axis == (self._rank(node.inputs[0]) - 1 if is_matrix else 1))
            self._need(not node.attributes.get("transA", 0))
        if int(node.attributes.get("group", 1)) > 1:
            return self._take_filters(same, node, weights, held)
        if order is None and np.array_equal(weights, held):
            return None
        reads, makes = _find_axes(node, weights.ndim)
        fed, straight = weights, held
        if order is not None:
            fed, straight = np.take(weights, order.places, reads), np.take(held, np.argsort(order.places), reads)
        biases = [k.get(n.inputs[2]) if len(n.inputs) > 2 else None for k, n in self._list_both(same, node)]
        places = _match_slices(_list_rows(fed, makes, biases[0]), _list_rows(held, makes, biases[1]))
        if places is None:
            # Where some weights were changed the others tell the sequence.
            self._need(order is None or 2 * np.count_nonzero(straight == weights) > held.size)
        if places is None or node.name in self.given_up:
            places = np.arange(held.shape[makes])
        if order is None and np.array_equal(places, np.arange(places.size)):
            return None
        self._keep(node, 1, np.take(straight, np.argsort(places), makes))
        if np.array_equal(places, np.arange(places.size)):
            return None
        self._need(self._fits(same, node, 2, places, 0))
        self.begins.add(same.name)
        return Order(self._rank(node.outputs[0]) - 1 if is_matrix else 1, places, frozenset({node.name}))

    def _list_both(self, same: Node, node: Node) -> Sequence[tuple[Mapping[str, np.ndarray], Node]]:
        return (self.known, same), (self.other_known, node)

    def _take_filters(self, same: Node, node: Node, weights: np.ndarray, held: np.ndarray) -> Order | None:
        """The order of a product in groups: where each channel is one, its own filter goes with it."""
        order = self.orders.get(node.inputs[0])
        if order is None:
            return None
        made = weights.shape[1] if node.operator == "ConvTranspose" else 1
        self._need(int(node.attributes["group"]) == weights.shape[0] == order.places.size and made == 1)
        self._need(self._fits(same, node, 1, order.places, 0) and self._fits(same, node, 2, order.places, 0))
        return order

    def _fits(self, same: Node, node: Node, number: int, places: np.ndarray, axis: int) -> bool:
        """Whether an input is a constant whose `axis` goes with these places, or has nothing along it.

        The constant is kept in the first file's sequence.
        """
        if len(node.inputs) <= number or not node.inputs[number]:
            return True
        held = self.other_known.get(node.inputs[number])
        mine = held if same is node else self.known.get(same.inputs[number])
        if mine is None or held is None or mine.shape != held.shape:
            return False
        if axis < 0 or mine.ndim <= axis or mine.shape[axis] == 1:
            return np.array_equal(mine, held)
        if mine.shape[axis] != places.size or not np.array_equal(np.take(mine, places, axis), held):
            return False
        self._keep(node, number, np.take(held, np.argsort(places), axis))
        return True

    def _take_channels(self, same: Node, node: Node, order: Order) -> Order:
        self._need(order.axis == 1)
        if node.operator in _PER_CHANNEL:
            self._need(all(self._fits(same, node, i, order.places, 0) for i in range(1, len(node.inputs))))
        elif node.operator in ("Resize", "Upsample"):
            sizes = [self._shape(v)[1] for v in (node.inputs[0], node.outputs[0])]
            self._need(sizes[0] == sizes[1])
        return order

    def _take_elements(self, same: Node, node: Node, own: Sequence[Order]) -> Order:
        """The order of an operation element by element; every input has it, or is a constant that goes with it."""
        rank = self._rank(node.outputs[0])
        ends = {order.axis - self._rank(v) for v in node.inputs if (order := self.orders.get(v)) is not None}
        self._need(len(ends) == 1 and all(np.array_equal(own[0].places, o.places) for o in own))
        end = ends.pop()
        for i, value in enumerate(node.inputs):
            if not value or value in self.orders:
                continue
            if value in self.other_known:
                axis = end + self.other_known[value].ndim
                self._need(self._fits(same, node, i, own[0].places, axis))
            else:
                shape = self._shape(value)
                self._need(len(shape) + end < 0 or shape[end] == 1)
        return replace(self._join(own), axis=end + rank)

    def _take_reduction(self, node: Node, order: Order) -> Order | None:
        rank = self._rank(node.inputs[0])
        read = node.inputs[1] if len(node.inputs) > 1 else ""
        self._need(not read or read in self.other_known)
        given = self.other_known[read].tolist() if read else node.attributes.get("axes")
        axes = sorted(int(a) % rank for a in (given or range(rank)))
        if order.axis in axes:
            return None
        gone = 0 if node.attributes.get("keepdims", 1) else sum(1 for a in axes if a < order.axis)
        return replace(order, axis=order.axis - gone)

    def _take_pair(self, node: Node) -> Order | None:
        """A product of two values: orders of what is summed over vanish if they are the same."""
        a, b = (self.orders.get(v) for v in node.inputs)
        ranks = [self._rank(v) for v in node.inputs]
        self._need(ranks[0] == ranks[1] >= 2)
        summed = [a is not None and a.axis == ranks[0] - 1, b is not None and b.axis == ranks[1] - 2]
        if any(summed):
            self._need(a is not None and b is not None and all(summed) and np.array_equal(a.places, b.places))
            return None
        both = [o for o in (a, b) if o is not None]
        if len(both) == 2:
            self._need(both[0].is_same(both[1]) and both[0].axis < ranks[0] - 2)
        if len(both) == 1 and both[0].axis < ranks[0] - 2:
            lone = node.inputs[1] if a is not None else node.inputs[0]
            self._need(self._shape(lone)[both[0].axis] == 1)
        return self._join(both)

    def _take_move(self, node: Node) -> Order | None:
        """The order behind an operation that moves elements, found by moving their numbers."""
        self._need(len([v for v in node.outputs if v]) == 1)
        straight: list[np.ndarray | None] = []
        moved: list[np.ndarray | None] = []
        begin = 1
        for value in node.inputs:
            known = self.other_known.get(value)
            if not value or (known is not None and known.dtype.kind in "iub"):
                straight.append(known)
                moved.append(known)
                continue
            shape = self._shape(value) if known is None else known.shape
            size = int(np.prod(shape, dtype=np.int64))
            self._need(size <= _MOST_NUMBERS)
            numbers = np.arange(begin, begin + size).reshape(shape)
            begin += size
            order = self.orders.get(value)
            straight.append(numbers)
            moved.append(numbers if order is None else order.apply(numbers))
        try:
            before, after = (evaluate_plainly(node, inputs, self.second.opset)[0] for inputs in (straight, moved))
        except NoReferenceError as error:
            raise _NotTakenError from error
        if np.array_equal(before, after):
            return None
        origins = self._join([self.orders[v] for v in node.inputs if v in self.orders]).origins
        for axis in range(before.ndim):
            places = _match_slices(_list_rows(before, axis, None), _list_rows(after, axis, None))
            if places is not None and np.array_equal(np.take(before, places, axis), after):
                return Order(axis, places, origins)
        raise _NotTakenError

    def _join(self, orders: Sequence[Order]) -> Order:
        return replace(orders[0], origins=frozenset().union(*(o.origins for o in orders)))

    def _keep(self, node: Node, number: int, straight: np.ndarray) -> None:
        self.constants[node.outputs[0], number] = straight

    def _shape(self, value: str) -> tuple[int, ...]:
        known = self.known.get(value)
        if known is not None:
            return known.shape
        type_ = self.second.types.get(value) or self.second.inputs.get(value) or self.first.types.get(value)
        sizes = () if type_ is None else tuple(s for s in type_.shape if s is not None)
        self._need(type_ is not None and len(sizes) == len(type_.shape))
        return sizes

    def _rank(self, value: str) -> int:
        type_ = self.second.types.get(value) or self.first.types.get(value) or self.second.inputs.get(value)
        self._need(type_ is not None)
        return 0 if type_ is None else len(type_.shape)


def _find_axes(node: Node, rank: int) -> tuple[int, int]:
    """Which axis of a product's weights goes over what comes in, and which over what it makes."""
    if node.operator == "MatMul":
        return rank - 2, rank - 1
    turned = node.operator == "ConvTranspose" or (node.operator == "Gemm" and not node.attributes.get("transB", 0))
    return (0, 1) if turned else (1, 0)


def _list_rows(array: np.ndarray, axis: int, bias: np.ndarray | None) -> list[bytes]:
    rows = [np.ascontiguousarray(row).tobytes() for row in np.moveaxis(array, axis, 0)]
    if bias is None or bias.shape != (len(rows),):
        return rows
    return [row + number.tobytes() for row, number in zip(rows, bias, strict=True)]


def _match_slices(rows: Sequence[bytes], others: Sequence[bytes]) -> np.ndarray | None:
    """For each of the other rows the place where it is found here, each once; None where most are not.

    Rows that are not found go to the places left whose bytes are most like theirs.
    """
    free: dict[bytes, list[int]] = {}
    for i in range(len(rows) - 1, -1, -1):
        free.setdefault(rows[i], []).append(i)
    places = [free[row].pop() if free.get(row) else -1 for row in others]
    left = sorted(i for found in free.values() for i in found)
    if len(places) != len(rows) or 2 * len(left) > len(rows):
        return None
    for i, place in enumerate(places):
        if place < 0:
            places[i] = max(left, key=lambda j: _count_same(rows[j], others[i]))
            left.remove(places[i])
    return np.array(places)


def _count_same(a: bytes, b: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(a, np.uint8) == np.frombuffer(b, np.uint8)))
