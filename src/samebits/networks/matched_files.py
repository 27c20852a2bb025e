"""Two files of one network, named alike: inputs and outputs by position, values in between by how they are made."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ModelError
from samebits.networks.aligned_steps import Steps, choose_step
from samebits.networks.bound_sizes import bind_sizes
from samebits.networks.folded_weights import find_norm
from samebits.networks.graph_names import rename_values
from samebits.networks.network import Network, Node, ValueType
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.units import fold_constants
from samebits.networks.written_out import PLAIN_DOMAINS
from samebits.numbers.format import FORMATS

# Behind the name of a value that is none of the first file's, although that has the name.
_STRANGE = "#other"
# These read the same values in another sequence where a file was edited, or written wrongly.
_GATHERING = ("Concat",)
# The sequence in which exporters write the inputs of these says nothing.
COMMUTING = ("Add", "And", "Max", "Min", "Mul", "Or", "Sum", "Xor")


def take_other(
    network: Network, against: str | Path | Network, shapes: Mapping[str, Sequence[int]] | None = None
) -> Network:
    """Another file of the network, its values named alike; raises ModelError unless it has as many inputs and outputs.

    `shapes` are those of the inputs that both are fed: what a file computes of sizes that it leaves open is known then.
    Other names of inputs and outputs are matched by position, if all inputs there have the same types; floating types
    may be of another format. Values in between that no file shares get the name of what is made in the same way.
    """
    other = against if isinstance(against, Network) else read_onnx(against)
    names = {
        theirs: ours
        for these, those in ((other.inputs, network.inputs), (other.outputs, network.outputs))
        if set(these) != set(those) and len(these) == len(those)
        for theirs, ours in zip(these, those, strict=True)
        if theirs != ours
    }
    if names and all(map(_is_same_type, other.inputs.values(), network.inputs.values())):
        other = rename_values(other, names, make_network)
    if set(other.inputs) != set(network.inputs) or set(other.outputs) != set(network.outputs):
        taken = f"{', '.join(other.inputs)} -> {', '.join(other.outputs)}"
        raise ModelError(
            f"{other.name} is no other file of this network: it has {taken[:120]} in place of"
            f" {', '.join(network.inputs)} -> {', '.join(network.outputs)}"[:300]
        )
    network, bound = (bind_sizes(one, shapes or {}) for one in (network, other))
    for find in (_find_strange, match_values):
        if names := find(network, bound):
            other = rename_values(other, names, make_network)
            bound = bind_sizes(other, shapes or {})
    return other


def _find_strange(first: Network, second: Network) -> dict[str, str]:
    """New names for what the second file calls as the first calls something else: exporters number what they make."""
    constant, other_constant = fold_constants(first), fold_constants(second)
    shared = [v for v in second.producers if v in first.producers and v not in second.outputs]
    # What an optimizer put in place of several nodes has the last one's name.
    written = {v for n in second.stored.graph.node if n.domain in PLAIN_DOMAINS for v in n.output}
    strange = [
        v
        for v in shared
        if (v in constant) != (v in other_constant)
        or not _may_be_same(first.types.get(v), second.types.get(v))
        or _is_folded_in_one(first, second, v)
        or (v in written and _is_product_in_one(first, second, v))
    ]
    return {name: f"{name}{_STRANGE}" for name in strange}


def _is_folded_in_one(first: Network, second: Network, value: str) -> bool:
    """Whether a product of this name has a batch normalisation behind it in one file, and in its weights in the other.

    The same name is then of two values.
    """
    nodes = [network.nodes[network.producers[value]] for network in (first, second)]
    if nodes[0].operator not in PRODUCTS or nodes[0].operator != nodes[1].operator:
        return False
    return _is_other_step(first, second, *nodes)


# What a product may be computed together with, so that both have one name.
_WITH_PRODUCTS = (*PRODUCTS, "BatchNormalization", "Add")


def _is_product_in_one(first: Network, second: Network, value: str) -> bool:
    """Whether a product makes the value of this name in one file, and in the other what no product stands for."""
    operators = [n.nodes[n.producers[value]].operator for n in (first, second)]
    plain = [o for o in operators if o not in _WITH_PRODUCTS]
    return len(plain) == 1 and any(o in PRODUCTS for o in operators)


def _may_be_same(a: ValueType | None, b: ValueType | None) -> bool:
    """Whether two declared types may be those of one value; formats are what converters change."""
    return a is None or b is None or _is_same_type(replace(a, dtype=b.dtype), b)


def _is_same_type(a: ValueType, b: ValueType) -> bool:
    """Whether an input of one file may be fed to the other, cast if need be; open sizes fit any."""
    same = len(a.shape) == len(b.shape) and (a.dtype == b.dtype or {a.dtype, b.dtype} <= set(FORMATS))
    return same and all(x == y or None in (x, y) for x, y in zip(a.shape, b.shape, strict=True))


def match_values(first: Network, second: Network) -> dict[str, str]:
    """New names for values of the second file that the first has not: those of what is made in the same way.

    A node corresponds to the first one left with its operator and the same inputs; constants are the same by what they
    hold, else by their shape. Where exporters wrote other nodes, steps that do one thing correspond (`aligned_steps`).
    """
    own = [node for node in second.stored.graph.node if any(v and v not in first.producers for v in node.output)]
    if not own:
        return {}
    # What nodes make of constants is constant, too: it is known by what it holds, whatever makes it.
    known, constants = fold_constants(first), fold_constants(second)
    makers: dict[tuple[object, ...], list[Node]] = {}
    for node in first.nodes:
        if not all(v in known for v in node.outputs if v):
            for key in _list_keys(node.operator, node.inputs, {}, known):
                makers.setdefault(key, []).append(node)
    names: dict[str, str] = {}
    used: set[str] = set()
    taken = {v for node in second.nodes for v in node.outputs}
    shared = {v for v in second.producers if v in first.producers}
    steps, other_steps = Steps(first, known), Steps(second, constants)
    for node in second.nodes:
        made = [v for v in node.outputs if v]
        if all(v in first.producers for v in made) or any(v in second.hidden or v in constants for v in made):
            continue
        exact, *loose = _list_keys(node.operator, node.inputs, names, constants)
        read = _list_read(second, node)
        free = [m for m in makers.get(exact, ()) if _is_free(m, read, used)]
        both = list(zip(read, free[0].outputs, strict=False)) if free else []
        if not both and node.operator in PRODUCTS:
            both = _align(node, steps, other_steps, names, shared)
        free = [m for key in loose for m in makers.get(key, ()) if not both and _is_free(m, read, used)]
        if not both and free and not _is_other_step(first, second, free[0], node):
            both = list(zip(read, free[0].outputs, strict=False))
        if not both and node.operator not in PRODUCTS:
            both = _align(node, steps, other_steps, names, shared)
        pairs = [(a, b) for a, b in both if a and b and a not in names]
        new = {a: b for a, b in pairs if b not in taken}
        names |= new
        used.update(new.values())
        shared.update(new.values())
        taken.update(b for _, b in pairs)
    outputs = set(second.outputs)
    return {a: b for a, b in names.items() if a not in outputs and a != b}


def _align(
    node: Node, steps: Steps, other_steps: Steps, names: Mapping[str, str], shared: Collection[str]
) -> list[tuple[str, str]]:
    """What the step of the second file that begins with `node` makes, each with the first file's; [] where none fits.

    `shared` are the values that both files have, by the first one's names.
    """
    wanted = other_steps.find(node)
    if wanted is None or any(v in names for v in wanted.makes):
        return []
    behind = other_steps.lead_back(wanted, shared, names)
    left = [s for s in steps.by_look.get((wanted.kind, wanted.shape), ()) if not any(v in shared for v in s.makes)]
    candidates = [s for s in left if behind is not None and steps.lead_back(s, shared, {}) == behind]
    found = choose_step(wanted, candidates, names)
    if found is None:
        return []
    return [*zip(wanted.makes, found.makes, strict=True), *zip(wanted.inner, found.inner, strict=True)]


def _list_read(network: Network, node: Node) -> tuple[str, ...]:
    """What a node makes, without the last ones that nothing reads: exporters write more outputs than they need."""
    last = max((i for i, v in enumerate(node.outputs) if v in network.consumers or v in network.outputs), default=-1)
    return node.outputs[: last + 1] or node.outputs


def _is_free(maker: Node, read: Sequence[str], used: Collection[str]) -> bool:
    """Whether no node of the second file has been found to correspond to `maker` yet, and one that makes these may."""
    return len(maker.outputs) >= len(read) and not any(v in used for v in maker.outputs)


def _is_other_step(first: Network, second: Network, maker: Node, node: Node) -> bool:
    """Whether one of two products has a batch normalisation behind it that the other has in its weights."""
    return (find_norm(first, maker) is None) != (find_norm(second, node) is None)


def _list_keys(
    operator: str, inputs: Sequence[str], names: Mapping[str, str], constants: Mapping[str, np.ndarray]
) -> list[tuple[object, ...]]:
    """What a node is known by: its constants by what they hold; then by their shapes, then in any sequence."""

    def key(describe: Any) -> tuple[object, ...]:
        read = [describe(constants[v]) if v in constants else names.get(v, v) for v in inputs]
        return (operator, *(sorted(read, key=str) if operator in COMMUTING else read))

    keys = [key(digest), key(lambda array: array.shape)]
    if operator in _GATHERING:
        keys.append((operator, "in any sequence", *sorted(str(names.get(v, v)) for v in inputs)))
    return keys


def digest(array: np.ndarray) -> tuple[object, ...]:
    """What an array is known by: its shape, its dtype and what it holds."""
    return (array.shape, array.dtype.name, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
