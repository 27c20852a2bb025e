"""`If`, `Loop` and `Scan` as what these inputs make of them: the branch taken, the rounds one after the other.

Which branch, and how many rounds, follows from shapes, constants and inputs; else ONNX's reference runs what decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.networks.graph_names import list_captured, list_made, rename_node
from samebits.networks.network import Network, Node
from samebits.networks.onnx_reading import read_node
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.unrolled_loops import LOOPS, MOST_ROUNDS, goes_on_by_itself, unroll

BRANCHING = "If"
# So deep may an If stand in another's branch, or hang on another's result: each pass settles all it can.
_MOST_PASSES = 16
# What a condition may hang on: more nodes than this are a network of their own.
_MOST_ASKED = 200
_OPSET_OF_LOOPS = 11


def settle_control_flow(network: Network, fed: Mapping[str, np.ndarray], make: Any) -> Network:
    """The network with each If and each loop replaced by what these inputs make of it; `make(model, name)` reads one.

    What nothing here can settle stays as it is: one operation, which is not judged. `notes` say what was replaced.
    """
    notes: list[str] = []
    for _ in range(_MOST_PASSES):
        if not any(n.op_type in (BRANCHING, *LOOPS) for n in network.stored.graph.node):
            break
        settled, said = _settle_all(network, fed)
        if not said:
            break
        notes += said
        network = make(settled, network.name)
    return replace(network, notes=(*network.notes, *notes)) if notes else network


def _settle_all(network: Network, fed: Mapping[str, np.ndarray]) -> tuple[Any, list[str]]:
    """The model with every node replaced whose branch or rounds are known, and what stands in their places now."""
    import onnx

    model = type(network.stored)()
    model.CopyFrom(network.stored)
    known, notes, nodes = _Known(network, fed), list[str](), list[Any]()
    for node in network.stored.graph.node:
        try:
            made = _settle(node, known) if node.op_type in (BRANCHING, *LOOPS) else None
        except (StopIteration, ValueError, IndexError, KeyError):
            # A graph that lacks what it must have: engines say what is wrong with it.
            made = None
        if made is None:
            nodes.append(node)
            continue
        notes.append(made.says)
        nodes += made.nodes
        model.graph.initializer.extend(made.tensors)
    # Copies: what a list of messages holds goes when it is emptied.
    copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model, notes


@dataclass(frozen=True)
class _Made:
    """What stands in a node's place, and what is said of it."""

    nodes: Sequence[Any]
    tensors: Sequence[Any]
    says: str


def _settle(node: Any, known: _Known) -> _Made | None:
    """What stands in a node's place if what decides is known."""
    import onnx

    name = (node.name or node.output[0])[:60]
    if node.op_type == BRANCHING:
        condition = known.find_anyhow(node.input[0])
        if condition is None:
            return None
        wanted = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        branch = next(one.g for one in node.attribute if one.name == wanted)
        nodes, tensors = _write_branch(node, branch, prefix=f"{node.output[0]}/")
        said = f"{name} (If) is compared as the branch that these inputs take: {wanted.partition('_')[0]}"
        return _Made(nodes, tensors, said)
    rounds = known.count_rounds(node)
    found = None if rounds is None else unroll(node, rounds, known.network.opset)
    if found is None:
        return None
    own = [onnx.numpy_helper.from_array(array, name) for name, array in found.constants.items()]
    said = f"{name} ({node.op_type}) is compared as its {rounds:,} rounds, one after the other"
    return _Made(found.nodes, [*found.tensors, *own], said)


class _Known:
    """Values that follow from constants, inputs and shapes, computed by ONNX's reference when they are asked for."""

    def __init__(self, network: Network, fed: Mapping[str, np.ndarray]) -> None:
        self.network = network
        self._values: dict[str, np.ndarray | None] = {**network.constants, **fed}
        self._asked = 0

    def find_anyhow(self, value: str) -> np.ndarray | None:
        """The value, by computing as much of the network as it takes; None where the reference cannot."""
        if (found := self.find(value)) is not None:
            return found
        asked, needed = [value], set[int]()
        while asked:
            place = self.network.producers.get(asked.pop(), -1)
            if place >= 0 and place not in needed:
                needed.add(place)
                asked += [v for v in self.network.nodes[place].inputs if self._values.get(v) is None]
        values = {name: array for name, array in self._values.items() if array is not None}
        if not _run_nodes([self.network.nodes[i] for i in sorted(needed)], values, self.network.opset):
            return None
        self._values |= values
        return self._values.get(value)

    def find(self, value: str) -> np.ndarray | None:
        """The value; None where it cannot be computed, or only by much of the network."""
        if value in self._values:
            return self._values[value]
        self._asked += 1
        place = self.network.producers.get(value)
        self._values[value] = None
        if place is None or self._asked > _MOST_ASKED or self.network.nodes[place].operator in (BRANCHING, *LOOPS):
            return None
        node = self.network.nodes[place]
        if node.operator in ("Shape", "Size") and (shape := self._find_shape(node.inputs[0])) is not None:
            inputs: list[np.ndarray | None] = [np.empty(shape, np.float32)]
        else:
            inputs = [self.find(v) if v else None for v in node.inputs]
            if any(found is None for found, v in zip(inputs, node.inputs, strict=True) if v):
                return None
        try:
            made = evaluate_plainly(node, inputs, self.network.opset)
        except NoReferenceError:
            return None
        self._values |= dict(zip((v for v in node.outputs if v), made, strict=True))
        return self._values[value]

    def count_rounds(self, node: Any) -> int | None:
        """How often a loop runs; None where that is not known."""
        body = next(one.g for one in node.attribute if one.name == "body")
        if node.op_type == "Scan":
            count = next(one.i for one in node.attribute if one.name == "num_scan_inputs")
            axes = next((list(one.ints) for one in node.attribute if one.name == "scan_input_axes"), [0])
            shape = self._find_shape(node.input[-count])
            return None if shape is None else shape[axes[0]]
        most = self.find_anyhow(node.input[0]) if node.input[0] else None
        begins = self.find_anyhow(node.input[1]) if len(node.input) > 1 and node.input[1] else np.True_
        if begins is None or self.network.opset < _OPSET_OF_LOOPS or (node.input[0] and most is None):
            return None
        if not np.all(begins):
            return 0
        if goes_on_by_itself(body):
            return None if most is None else max(int(most.reshape(-1)[0]), 0)
        return self._count_by_running(node, body, 2**62 if most is None else max(int(most.reshape(-1)[0]), 0))

    def _count_by_running(self, node: Any, body: Any, most: int) -> int | None:
        """The rounds of a loop that ends itself: it is run, as long as it is short enough to be unrolled."""
        import onnx

        captured = {v: self.find_anyhow(v) for v in list_captured(node)}
        states = [self.find_anyhow(v) for v in node.input[2:]]
        if any(v is None for v in (*captured.values(), *states)):
            return None
        nodes = [read_node(i, one) for i, one in enumerate(body.node)]
        constants = {t.name: onnx.numpy_helper.to_array(t) for t in body.initializer}
        names = [value.name for value in body.input]
        for done in range(min(most, MOST_ROUNDS + 1)):
            counter = np.full((1,) * len(body.input[0].type.tensor_type.shape.dim), done, np.int64)
            values = {n: v for n, v in {**captured, **constants}.items() if v is not None}
            values |= dict(zip(names, [counter, np.True_, *[v for v in states if v is not None]], strict=True))
            if not _run_nodes(nodes, values, self.network.opset):
                return None
            results = [values.get(value.name) for value in body.output[: 1 + len(states)]]
            if any(v is None for v in results):
                return None
            states = results[1:]
            if not np.all(results[0]):
                return done + 1
        return min(most, MOST_ROUNDS + 1)

    def _find_shape(self, value: str) -> tuple[int, ...] | None:
        if (known := self._values.get(value)) is not None:
            return known.shape
        type_ = self.network.types.get(value)
        if type_ is None or any(size is None for size in type_.shape):
            return None
        return tuple(size for size in type_.shape if size is not None)


def _run_nodes(nodes: Sequence[Node], values: dict[str, np.ndarray], opset: int) -> bool:
    """Adds what the nodes make to the values, by ONNX's reference; False where it cannot."""
    for node in nodes:
        if all(v in values for v in node.outputs if v):
            continue
        if any(v and v not in values for v in node.inputs):
            return False
        try:
            made = evaluate_plainly(node, [values[v] if v else None for v in node.inputs], opset)
        except NoReferenceError:
            return False
        values |= dict(zip((v for v in node.outputs if v), made, strict=True))
    return True


def _write_branch(node: Any, branch: Any, prefix: str) -> tuple[list[Any], list[Any]]:
    """A graph's nodes and constants in place of a node: its values get a prefix, its outputs the node's names."""
    import onnx

    own = list_made(branch) | {t.name for t in branch.initializer}
    names = {v: prefix + v for v in own}
    returned = [(inner.name, outer) for inner, outer in zip(branch.output, node.output, strict=False) if outer]
    names |= {inner: outer for inner, outer in returned if inner in own}
    made = [rename_node(inner, names) for inner in branch.node]
    for inner, outer in returned:
        if inner not in own or names[inner] != outer:  # Made outside of the branch, or returned twice.
            made.append(onnx.helper.make_node("Identity", [names.get(inner, inner)], [outer], name=f"{outer}/same"))
    tensors: list[Any] = []
    for tensor in branch.initializer:
        kept = onnx.TensorProto()
        kept.CopyFrom(tensor)
        kept.name = names[tensor.name]
        tensors.append(kept)
    return made, tensors
