"""What may have gone wrong in a unit, as another network: to be computed, and compared with what a side returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.quantised.integer_sums import PairOrder
from samebits.networks.bounded import Bounded, arithmetic_in
from samebits.networks.network import Network, Node, give_attributes
from samebits.networks.operations import ELEMENTWISE, MOVES, apply_node
from samebits.networks.operator_faults import list_code_faults, list_faults, list_lost
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.product_nodes import LIFT, PRODUCTS, SATURATES
from samebits.networks.units import Unit
from samebits.networks.values import as_value
from samebits.numbers.format import find_format

# So many operators that made a constant are looked at, those next to the unit first.
_MOST_MAKERS = 8
_OURS = "samebits."


@dataclass(frozen=True)
class Alternative:
    """A fault: its cause, what the unit does then, and the nodes and constants of a network in which it is so."""

    cause: CauseCode
    says: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


@dataclass(frozen=True)
class Alternatives:
    """The faults that a unit may have; `seen` has what one side fed it."""

    network: Network
    folded: Mapping[str, np.ndarray]
    unit: Unit
    seen: Mapping[str, np.ndarray]

    def list_all(self) -> Iterator[Alternative]:
        """Faults of the unit's operators one by one, then of those that made its constants."""
        fused, dropped = CauseCode.FUSION, CauseCode.DROPPED_ATTRIBUTE
        nodes = self.network.nodes
        yield from self._saturate()
        for place in self.unit.places:
            node = nodes[place]
            if node.operator == "MatMulInteger":
                says = "adds pairs of products of codes in 16 bits, which overflow"
                altered = _with(nodes, place, attributes={**node.attributes, SATURATES: 1})
                yield Alternative(CauseCode.INT8_SATURATION, says, altered)
            if node.operator in PRODUCTS:
                if len(node.inputs) > 2 and node.inputs[2]:
                    says = f"leaves out the bias of {node.operator}"
                    yield Alternative(dropped, says, _with(nodes, place, inputs=node.inputs[:2]))
                for cause, says, changes in list_lost(node, self.network.opset):
                    yield Alternative(cause, says, _with(nodes, place, **changes))
                continue
            if node.operator == "Clip":
                given = (*node.inputs, "", "")[:3]
                for kept, lost in ((given[:2], "upper"), ((given[0], "", given[2]), "lower")):
                    trimmed = {k: v for k, v in node.attributes.items() if k != {"upper": "max", "lower": "min"}[lost]}
                    altered = _with(nodes, place, inputs=kept, attributes=trimmed)
                    yield Alternative(fused, f"loses the clip's {lost} bound", altered)
            first = self.seen.get(node.inputs[0]) if node.inputs else None
            faults = list_faults(node, None if first is None else first.shape)
            for cause, says, changes in (*faults, *list_lost(node, self.network.opset)):
                yield Alternative(cause, says, _with(nodes, place, **changes))
            yield from (Alternative(fused, says, altered) for says, altered in self._leave_out(place))
            yield from self._change_operands(place)
        yield from self._change_makers()

    def _leave_out(self, place: int) -> Iterator[tuple[str, tuple[Node, ...]]]:
        """The node left out, each of its inputs that are computed in its place."""
        nodes = self.network.nodes
        node = nodes[place]
        if node.operator in ("Concat", "Gather", "Reshape", "Transpose", "Slice"):
            return
        computed = [(i, v) for i, v in enumerate(node.inputs) if v and v not in self.folded]
        for i, value in computed:
            skipped = Node(node.name, "Identity", (value,), node.outputs, {}, _identity(value, node))
            said = f"leaves out {node.operator} ({node.name})"
            if len(computed) > 1:
                said += f", keeping its input {i + 1} only"
            yield said, (*nodes[:place], skipped, *nodes[place + 1 :])

    def _saturate(self) -> Iterator[Alternative]:
        """The unit's products of numbers that stand for codes, computed on these codes in 16 bits."""
        lifts = {place: lift for place in self.unit.products if (lift := self._find_lift(place)) is not None}
        for order in PairOrder if lifts else ():
            nodes = self.network.nodes
            for place, lift in lifts.items():
                nodes = _with(nodes, place, attributes={**nodes[place].attributes, SATURATES: str(order), LIFT: lift})
            says = f"adds pairs of products of codes in 16 bits, {order}, which overflow"
            yield Alternative(CauseCode.INT8_SATURATION, says, nodes)

    def _find_lift(self, place: int) -> float | None:
        """What makes unsigned bytes of a product's first codes; None where it reads no codes with one zero point."""
        made = self._find_maker(self.network.nodes[place].inputs[0])
        while made is not None and made.operator in MOVES:
            made = self._find_maker(made.inputs[0])
        if made is None or made.operator != "DequantizeLinear" or len(made.inputs) < 3:
            return None
        zero = self.folded.get(made.inputs[2])
        if zero is None or zero.size != 1 or zero.dtype not in (np.uint8, np.int8):
            return None
        # Bytes with a sign have 128 added.
        return float(zero.reshape(())) + (128 if zero.dtype == np.int8 else 0)

    def _find_maker(self, value: str) -> Node | None:
        place = self.network.producers.get(value)
        return None if place is None else self.network.nodes[place]

    def _change_operands(self, place: int) -> Iterator[Alternative]:
        """A constant operand of an elementwise operator read along another axis; a missing lower bound taken for 0."""
        nodes = self.network.nodes
        node = nodes[place]
        if node.operator == "Clip" and not any(node.inputs[1:2]) and "min" not in node.attributes:
            zero, name = np.zeros((), self._find_dtype(node)), f"{_OURS}zero"
            altered = _with(nodes, place, inputs=(node.inputs[0], name, *node.inputs[2:]))
            says = f"takes the bound that {node.operator} does not have for 0"
            yield Alternative(CauseCode.FUSION, says, altered, {name: zero})
        shape = self._find_shape(node)
        for i, value in enumerate(node.inputs) if node.operator in ELEMENTWISE and shape else ():
            if value not in self.folded:
                continue
            for axis, other, turned in _turn(self.folded[value], shape):
                name = f"{_OURS}turned"
                inputs = (*node.inputs[:i], name, *node.inputs[i + 1 :])
                says = f"reads input {i + 1} of {node.operator} along axis {other} in place of {axis}"
                yield Alternative(CauseCode.AXIS_ORDER, says, _with(nodes, place, inputs=inputs), {name: turned})

    def _find_shape(self, node: Node) -> tuple[int, ...]:
        """The sizes of an elementwise operator's result, as far as its inputs or shape inference tell them."""
        if node.outputs[0] in self.seen:
            return self.seen[node.outputs[0]].shape
        own = self.network.types.get(node.outputs[0])
        return tuple(s for s in own.shape if s is not None) if own and None not in own.shape else ()

    def _find_dtype(self, node: Node) -> np.dtype:
        own = self.network.types.get(node.inputs[0])
        return np.dtype(own.dtype if own and own.dtype in ("float32", "float64", "float16") else "float32")

    def _change_makers(self) -> Iterator[Alternative]:
        """Faults of the operators that made the unit's constants, which engines fold before anything runs."""
        read = dict.fromkeys(v for p in self.unit.places for v in self.network.nodes[p].inputs if v in self.folded)
        for value in read:
            chain = self._list_makers(value)
            for at, node in enumerate(chain[:_MOST_MAKERS]):
                first = self._take_constant(node.inputs[0]) if node.inputs else None
                faults = list_faults(node, None if first is None else first.shape)
                for cause, says, changes in (*faults, *list_lost(node, self.network.opset)):
                    altered = _with((node,), 0, **changes)[0]
                    yield from self._follow(value, chain[: at + 1], altered, cause, says, {})
                given = [self._take_constant(v) if v else None for v in node.inputs]
                for cause, says, constants in list_code_faults(node, given):
                    yield from self._follow(value, chain[: at + 1], node, cause, says, constants)

    def _list_makers(self, value: str) -> list[Node]:
        """The operators that made a constant, the last one first, along their first inputs."""
        found: list[Node] = []
        while (made := self._find_maker(value)) is not None and made.inputs:
            found.append(made)
            value = made.inputs[0]
        return found

    def _take_constant(self, value: str) -> np.ndarray | None:
        return self.folded.get(value, self.network.constants.get(value))

    def _follow(
        self,
        value: str,
        chain: list[Node],
        altered: Node,
        cause: CauseCode,
        says: str,
        constants: Mapping[int, np.ndarray],
    ) -> Iterator[Alternative]:
        """The constant as it would be then; `constants` are other inputs of the altered operator, by their places."""
        result: np.ndarray | None = None
        for node in (altered, *chain[-2::-1]):
            inputs = [self._take_constant(v) if v else None for v in node.inputs]
            if node is altered:
                inputs = [constants.get(i, array) for i, array in enumerate(inputs)]
            else:
                inputs[0] = result
            if any(array is None for array, name in zip(inputs, node.inputs, strict=True) if name):
                return
            try:
                result = _compute(node, inputs, self.network.opset)
            except NoReferenceError:
                return
        if result is not None and result.shape == self.folded[value].shape:
            yield Alternative(cause, f"{says} ({altered.name})", self.network.nodes, {value: result})


def _compute(node: Node, inputs: list[np.ndarray | None], opset: int) -> np.ndarray:
    """An operator's first output; by our own rule where it has a mark of ours, which ONNX's reference does not know."""
    right = evaluate_plainly(_strip(node), inputs, opset)[0]
    if not any(name.startswith(_OURS) for name in node.attributes):
        return right
    found = apply_node(
        arithmetic_in(find_format("float32")), node, [None if v is None else as_value(v) for v in inputs], opset
    )
    if not found or not isinstance(found[0], Bounded):
        raise NoReferenceError("no rule computes it")
    return found[0].value.astype(right.dtype)


def _strip(node: Node) -> Node:
    """The operator without our marks."""
    return give_attributes(node, {n: value for n, value in node.attributes.items() if not n.startswith(_OURS)})


def _turn(array: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[int, int, np.ndarray]]:
    """An array with one long axis along each other axis of a result that has the same size there."""
    full = array.reshape((1,) * (len(shape) - array.ndim) + array.shape) if array.ndim <= len(shape) else array
    long = [axis for axis, size in enumerate(full.shape) if size > 1]
    for other, size in enumerate(shape) if len(long) == 1 and full.ndim == len(shape) else ():
        if other != long[0] and size == full.shape[long[0]]:
            yield long[0], other, full.reshape([size if axis == other else 1 for axis in range(len(shape))])


def _with(nodes: tuple[Node, ...], place: int, **changes: object) -> tuple[Node, ...]:
    node, attributes = nodes[place], changes.pop("attributes", None)
    if isinstance(attributes, Mapping):
        node = give_attributes(node, attributes)
    node = replace(node, **changes)  # type: ignore[arg-type]  (fields of a node)
    return (*nodes[:place], node, *nodes[place + 1 :])


def _identity(value: str, node: Node) -> object:
    import onnx

    return onnx.helper.make_node("Identity", [value], [node.outputs[0]])
