"""A network whose open sizes are known: what exporters compute of them becomes constants, as where they were known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.networks.network import Network
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import fold_constants

# Sizes follow from sizes: so often are shapes inferred again of what is known by then.
_ROUNDS, _MOST_NUMBERS = 6, 64


def bind_sizes(network: Network, shapes: Mapping[str, Sequence[int]]) -> Network:
    """The network with the sizes that it leaves open as these inputs have them; itself where it leaves none open.

    Two exporters write other nodes for open sizes than for known ones. Whole numbers that follow from the sizes become
    constants, and the nodes that compute them are left out.
    """
    if not any(None in type_.shape for type_ in network.inputs.values()):
        return network
    model = type(network.stored)()
    model.CopyFrom(network.stored)
    for value in model.graph.input:
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) == len(shapes.get(value.name, ())):
            for size, known in zip(sizes, shapes[value.name], strict=True):
                size.Clear()
                size.dim_value = known
    for value in model.graph.output:
        for size in value.type.tensor_type.shape.dim:
            size.Clear()
    del model.graph.value_info[:]
    bound = make_network(model, network.name)
    for _ in range(_ROUNDS):
        if not _store_known(model, fold_constants(bound)):
            break
        bound = make_network(model, network.name)
    return bound


def _store_known(model: Any, folded: Mapping[str, np.ndarray]) -> bool:
    """Puts constants in place of nodes that make few whole numbers, known by now; whether there were any."""
    from onnx import numpy_helper

    known = {v: a for v, a in folded.items() if a.dtype.kind in "iub" and a.size <= _MOST_NUMBERS}
    outputs = {value.name for value in model.graph.output}
    made = [n for n in model.graph.node if n.output and all(v in known and v not in outputs for v in n.output if v)]
    made = [n for n in made if not n.domain and n.op_type != "Constant"]
    for node in made:
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(known[v]), v) for v in node.output if v)
        model.graph.node.remove(node)
    return bool(made)
