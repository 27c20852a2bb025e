"""Whether two nodes of two files do one thing, however it is written: sizes, axes, functions of one number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.networks.network import Network, Node

# Operators whose second input says the sizes of the result.
SHAPED = ("Reshape", "Expand")
# Those whose second input says which axes they take away or add, from the front or from the end.
AXES = {"Squeeze": "inputs", "Unsqueeze": "outputs"}


# Functions of one number, of which no two are the same; a clip from 0 on is a Relu.
_ACTIVATIONS = (
    "Relu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu",
    "Softplus", "Softsign", "Mish", "Erf", "Abs", "Neg", "Exp", "Sqrt",
)  # fmt: skip


def are_other_functions(constant: Mapping[str, np.ndarray], node: Node, other: Node) -> bool:
    """Whether two operators are two functions, not two ways to write one; the first is in the file of `constant`."""
    if not {node.operator, other.operator} <= set(_ACTIVATIONS):
        return False
    if {node.operator, other.operator} != {"Relu", "Clip"}:
        return True
    # Only the first one's limits are known here: those of a clip in its place may be any.
    high = node.inputs[2] if node.operator == "Clip" and len(node.inputs) > 2 else ""
    return bool(high in constant and np.isfinite(constant[high]).all())


def have_same_axes(
    first: Network,
    constant: Mapping[str, np.ndarray],
    node: Node,
    other_constant: Mapping[str, np.ndarray],
    other: Node,
) -> bool:
    """Whether two nodes name the same axes, counted from the front or from the end."""
    counted = first.types.get(getattr(node, AXES[node.operator])[0])
    held = [known.get(n.inputs[1]) for known, n in ((constant, node), (other_constant, other)) if len(n.inputs) > 1]
    if counted is None or not counted.shape or len(held) < 2 or held[0] is None or held[1] is None:
        return False
    rank = len(counted.shape)
    return sorted((held[0] % rank).ravel()) == sorted((held[1] % rank).ravel())


def have_same_sizes(first: Network, node: Node, second: Network, other: Node) -> bool:
    """Whether what two nodes make has the same shape, as far as that is known."""
    a, b = (network.types.get(n.outputs[0]) for network, n in ((first, node), (second, other)))
    if a is None or b is None or not a.shape or len(a.shape) != len(b.shape):
        return False
    # What shape inference does not follow is open.
    return all(x == y or None in (x, y) for x, y in zip(a.shape, b.shape, strict=True))
