"""`If`, where what is fed decides which branch is taken: the branch stands in its place, and is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.errors import ModelError
from samebits.networks.network import Network
from samebits.networks.pooling import NoReferenceError, evaluate_plainly

BRANCHING = "If"
# So deep may an If stand in another's branch, or hang on another's result: each pass settles all it can.
_MOST_PASSES = 16
# What a condition may hang on: more nodes than this are a network of their own.
_MOST_ASKED = 200


def has_branches(network: Network) -> bool:
    """Whether some node chooses between two graphs."""
    return any(node.operator == BRANCHING for node in network.nodes)


def take_branches(network: Network, fed: Mapping[str, np.ndarray], make: Any) -> Network:
    """The network with each If replaced by the branch that these inputs take; `make(model, name)` reads a model.

    Raises ModelError for a condition that shapes, constants and inputs do not decide.
    """
    for _ in range(_MOST_PASSES):
        if not has_branches(network):
            return network
        model = type(network.stored)()
        model.CopyFrom(network.stored)
        known, open_ = _Known(network, fed), []
        taken = 0
        # From behind, so that places before stay what they are.
        for place in reversed(range(len(model.graph.node))):
            node = model.graph.node[place]
            if node.op_type != BRANCHING:
                continue
            condition = known.find(node.input[0])
            if condition is None:
                open_.append(node.name)
                continue
            wanted = "then_branch" if condition.reshape(-1)[0] else "else_branch"
            branch = next(one.g for one in node.attribute if one.name == wanted)
            _put_in_place(model, place, branch, prefix=f"{node.output[0]}/")
            taken += 1
        if not taken:
            raise ModelError(
                f"{network.name}: node {open_[-1][:60]} (If) chooses by a value that the network computes; only"
                " conditions that follow from shapes, constants and inputs are supported"
            )
        network = make(model, network.name)
    raise ModelError(f"{network.name}: its If nodes stand in each other more than {_MOST_PASSES} deep")


class _Known:
    """Values that follow from constants, inputs and shapes, computed by ONNX's reference when they are asked for."""

    def __init__(self, network: Network, fed: Mapping[str, np.ndarray]) -> None:
        self._network = network
        self._values: dict[str, np.ndarray | None] = {**network.constants, **fed}
        self._asked = 0

    def find(self, value: str) -> np.ndarray | None:
        """The value; None where it cannot be computed, or only by much of the network."""
        if value in self._values:
            return self._values[value]
        self._asked += 1
        place = self._network.producers.get(value)
        self._values[value] = None
        if place is None or self._asked > _MOST_ASKED or self._network.nodes[place].operator == BRANCHING:
            return None
        node = self._network.nodes[place]
        if node.operator in ("Shape", "Size") and (shape := self._find_shape(node.inputs[0])) is not None:
            inputs: list[np.ndarray | None] = [np.empty(shape, np.float32)]
        else:
            inputs = [self.find(v) if v else None for v in node.inputs]
            if any(found is None for found, v in zip(inputs, node.inputs, strict=True) if v):
                return None
        try:
            made = evaluate_plainly(node, inputs, self._network.opset)
        except NoReferenceError:
            return None
        self._values |= dict(zip((v for v in node.outputs if v), made, strict=True))
        return self._values[value]

    def _find_shape(self, value: str) -> tuple[int, ...] | None:
        if (known := self._values.get(value)) is not None:
            return known.shape
        type_ = self._network.types.get(value)
        if type_ is None or any(size is None for size in type_.shape):
            return None
        return tuple(size for size in type_.shape if size is not None)


def _put_in_place(model: Any, place: int, branch: Any, prefix: str) -> None:
    """Replaces a node by a graph: its own values get a prefix, its outputs the node's names."""
    import onnx

    node = model.graph.node[place]
    own = {v for inner in branch.node for v in inner.output if v} | {t.name for t in branch.initializer}
    names = {v: prefix + v for v in own}
    returned = [(inner.name, outer) for inner, outer in zip(branch.output, node.output, strict=False) if outer]
    names |= {inner: outer for inner, outer in returned if inner in own}
    made = [_rename(inner, names) for inner in branch.node]
    for inner, outer in returned:
        if inner not in own or names[inner] != outer:  # Made outside of the branch, or returned twice.
            made.append(onnx.helper.make_node("Identity", [names.get(inner, inner)], [outer], name=f"{outer}/same"))
    for tensor in branch.initializer:
        kept = model.graph.initializer.add()
        kept.CopyFrom(tensor)
        kept.name = names[tensor.name]
    nodes = [*model.graph.node[:place], *made, *model.graph.node[place + 1 :]]
    rebuilt = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del model.graph.node[:]
    model.graph.node.extend(rebuilt)


def rename_values(network: Network, names: Mapping[str, str], make: Any) -> Network:
    """The network with other names for some of its values; one that has such a name already gets another."""
    model = type(network.stored)()
    model.CopyFrom(network.stored)
    taken = set(names.values()) - set(names)
    full = {**{v: f"{v}/own" for v in (*network.producers, *network.constants) if v in taken}, **names}
    nodes = [_rename(node, full) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer):
        value.name = full.get(value.name, value.name)
    return make(model, network.name)


def _rename(node: Any, names: Mapping[str, str]) -> Any:
    """A copy of a node with other names for values, in the graphs that it holds too."""
    copy = type(node)()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        renamed = [names.get(v, v) for v in field]
        del field[:]
        field.extend(renamed)
    for attribute in copy.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            hidden = {v for inner in graph.node for v in inner.output} | {t.name for t in graph.initializer}
            outer = {old: new for old, new in names.items() if old not in hidden}
            inside = [_rename(inner, outer) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(inside)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
    return copy
