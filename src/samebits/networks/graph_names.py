"""Names of values in ONNX graphs, and in the graphs that their nodes hold: which are made, read, and renamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from samebits.networks.network import Network


def list_made(graph: Any) -> set[str]:
    """The values that a graph's own nodes make."""
    return {v for node in graph.node for v in node.output if v}


def list_graphs(node: Any) -> Iterator[Any]:
    """The graphs that a node holds: branches, or the body of a loop."""
    for attribute in node.attribute:
        yield from (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)


def list_captured(node: Any) -> list[str]:
    """The values from outside that the graphs of a node read."""
    found: dict[str, None] = {}
    for graph in list_graphs(node):
        own = list_made(graph) | {t.name for t in graph.initializer} | {v.name for v in graph.input}
        for inner in graph.node:
            found |= dict.fromkeys(v for v in (*inner.input, *list_captured(inner)) if v and v not in own)
        found |= dict.fromkeys(v.name for v in graph.output if v.name and v.name not in own)
    return list(found)


def rename_node(node: Any, names: Mapping[str, str]) -> Any:
    """A copy of a node with other names for values, in the graphs that it holds too."""
    copy = type(node)()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        renamed = [names.get(v, v) for v in field]
        del field[:]
        field.extend(renamed)
    for graph in list_graphs(copy):
        hidden = list_made(graph) | {t.name for t in graph.initializer} | {v.name for v in graph.input}
        outer = {old: new for old, new in names.items() if old not in hidden}
        inside = [rename_node(inner, outer) for inner in graph.node]
        del graph.node[:]
        graph.node.extend(inside)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)
    return copy


def rename_values(network: Network, names: Mapping[str, str], make: Any) -> Network:
    """The network with other names for some of its values; one that has such a name already gets another."""
    model = type(network.stored)()
    model.CopyFrom(network.stored)
    taken = set(names.values()) - set(names)
    full = {**{v: f"{v}/own" for v in (*network.producers, *network.constants) if v in taken}, **names}
    nodes = [rename_node(node, full) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer):
        value.name = full.get(value.name, value.name)
    return make(model, network.name)
