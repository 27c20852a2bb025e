"""A network as data: nodes in the sequence they run in, the arrays that stand in the file, and what it takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.networks.bounded import Bounded


@dataclass(frozen=True)
class ValueType:
    """What a value of a network is declared as: its dtype, and its sizes, None where any will do."""

    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Program:
    """A program: its file, and whether it was a "torch" module, a "keras" model, or is a "tflite" file."""

    path: str
    kind: str


@dataclass(frozen=True)
class Node:
    """One operation. `inputs` may hold "" where an optional one is left out; attributes are plain Python values."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    # The node as its file has it, for running it.
    stored: Any


def give_attributes(node: Node, attributes: Mapping[str, Any]) -> Node:
    """The node with other attributes, and as a file has it: ONNX's reference reads that."""
    import onnx

    stored = onnx.NodeProto()
    stored.CopyFrom(node.stored)
    del stored.attribute[:]
    own = {a.name: a for a in node.stored.attribute}
    for name, value in attributes.items():
        same = name in own and node.attributes.get(name) == value
        stored.attribute.append(own[name] if same else onnx.helper.make_attribute(name, value))
    return replace(node, attributes=attributes, stored=stored)


@dataclass(frozen=True)
class Network:
    """A network of ONNX operators; nodes stand behind those whose results they read.

    `stored` is the ONNX model, with all weights in it; `types` are what shape inference says of values in between.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: Mapping[str, ValueType]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    types: Mapping[str, ValueType]
    opset: int
    stored: Any
    # The model with the operators that ONNX lacks written out in ONNX's own; `stored` itself where it has none.
    plain: Any = None
    # The exported program that the model was made from, if it was.
    program: Program | None = None
    # Values that the model itself does not have: an operator was read as several.
    hidden: tuple[str, ...] = ()
    # What was put in place of the file's own nodes, in sentences.
    notes: tuple[str, ...] = ()
    # Values at which a layer, or such an operator, ends: what follows is another unit.
    ends: tuple[str, ...] = ()

    # What is the same whatever comes in, once it has been computed (`units.fold_constants`).
    folded: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], init=False, repr=False, compare=False)

    # Those of them that are computed, with what rounding may do to them on the way.
    folded_bounds: dict[str, Bounded] = field(default_factory=dict[str, Bounded], init=False, repr=False, compare=False)

    def replace_node(self, place: int, inputs: tuple[str, ...]) -> Network:
        """The network where one node reads other values."""
        node = replace(self.nodes[place], inputs=inputs)
        return replace(self, nodes=(*self.nodes[:place], node, *self.nodes[place + 1 :]))

    @functools.cached_property
    def producers(self) -> dict[str, int]:
        """Which node makes a value, by its place."""
        return {value: i for i, node in enumerate(self.nodes) for value in node.outputs if value}

    @functools.cached_property
    def consumers(self) -> dict[str, tuple[int, ...]]:
        """Which nodes read a value, by their places, each once."""
        found: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for value in dict.fromkeys(v for v in node.inputs if v):
                found.setdefault(value, []).append(i)
        return {value: tuple(places) for value, places in found.items()}
