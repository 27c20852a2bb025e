"""Whether a unit deviates only where an index counts from the end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.networks.network import Network
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import Unit

# Operators that read or write places named by an input, which this is; OneHot counts from the end of its depth.
_PLACES = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1, "OneHot": 0}
_OURS = "samebits.places"


def find_negative_indices(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Mapping[str, np.ndarray],
    beyond: Mapping[str, np.ndarray],
) -> str | None:
    """The operator whose negative indices alone decide about every output that deviates; None without one.

    Which outputs these are, other indices in their place show: what does not change with any of them hangs on none.
    """
    right = refer_unit(network, folded, unit, seen)
    for place in unit.places:
        node = network.nodes[place]
        at = _PLACES.get(node.operator)
        given = node.inputs[at] if at is not None else ""
        indices = folded.get(given, seen.get(given)) if given else None
        if at is None or indices is None or indices.dtype.kind != "i" or not (indices < 0).any():
            continue
        depends = {v: np.zeros(r.value.shape, bool) for v, r in right.items()}
        for other in (0, 1):
            inputs = (*node.inputs[:at], _OURS, *node.inputs[at + 1 :])
            altered = network.replace_node(place, inputs)
            changed = refer_unit(altered, {**folded, _OURS: np.where(indices < 0, other, indices)}, unit, seen)
            for v, reference in changed.items():
                if reference.value.shape != depends[v].shape:
                    return None
                depends[v] |= ~(reference.value == right[v].value)
        # Where everything hangs on one, it shows nothing.
        if all((~mask | depends[v]).all() and not depends[v].all() for v, mask in beyond.items()):
            return node.operator
    return None
