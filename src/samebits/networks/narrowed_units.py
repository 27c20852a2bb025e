"""How far a unit goes from the truth where every step is rounded to bfloat16: tried, in place of bounded.

Bounds of the worst case are wide. What lies many times farther than what such roundings do, once rounded to the nearest
and once cut off, has another reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from samebits.networks.bounded import Floats
from samebits.networks.network import Network
from samebits.networks.unit_reference import OutputReference, refer_unit
from samebits.networks.units import Unit
from samebits.numbers.format import numpy_dtype

# Of fewer outputs one trial says too little.
_FEWEST = 8


def count_times_narrow(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Mapping[str, np.ndarray],
    references: Mapping[str, OutputReference],
) -> float:
    """The largest error of a unit's outputs as a multiple of the largest one that bfloat16 throughout made.

    0 where nothing was computed so, or too few outputs are there to tell.
    """
    largest, narrow, count = 0.0, 0.0, 0
    for cuts in (False, True):
        found = _compute_narrowly(network, folded, unit, seen, cuts=cuts)
        if found is None:
            return 0.0
        for output in unit.outputs:
            right, result = references[output].value, seen[output]
            if result.dtype.kind != "f" or result.shape != right.shape or found[output].shape != right.shape:
                return 0.0
            with np.errstate(invalid="ignore"):
                own, tried = np.abs(result.astype(np.float64) - right), np.abs(found[output] - right)
            if not (np.isfinite(own).all() and np.isfinite(tried).all()):
                return 0.0
            largest, narrow = max(largest, float(own.max(initial=0.0))), max(narrow, float(tried.max(initial=0.0)))
            count += right.size
    return largest / narrow if narrow > 0 and count >= _FEWEST else 0.0


def _compute_narrowly(
    network: Network, folded: Mapping[str, np.ndarray], unit: Unit, seen: Mapping[str, np.ndarray], *, cuts: bool
) -> dict[str, Floats] | None:
    """A unit's outputs with everything that it reads and makes rounded to bfloat16; None where that is not known."""
    constants = {v: folded[v] for p in unit.places for v in network.nodes[p].inputs if v in folded}
    rounded = {**folded, **{v: _narrow(a, cuts=cuts) for v, a in constants.items()}}
    values = {v: _narrow(seen[v], cuts=cuts) for v in unit.inputs if v in seen}
    for place in unit.places:
        node = network.nodes[place]
        read = tuple(v for v in node.inputs if v and v not in folded)
        made = tuple(v for v in node.outputs if v)
        if not all(v in values for v in read):
            return None
        products = (place,) if place in unit.products else ()
        alone = replace(unit, places=(place,), inputs=read, outputs=made, operators=(node.operator,), products=products)
        for value, reference in refer_unit(network, rounded, alone, values).items():
            if reference.bound is None:
                return None
            values[value] = _narrow(reference.value.astype(reference.truth.dtype), cuts=cuts)
    return {v: values[v].astype(np.float64) for v in unit.outputs}


def _narrow(array: np.ndarray, *, cuts: bool) -> np.ndarray:
    """Numbers of float32 rounded to bfloat16, or cut off there; others as they are."""
    if array.dtype != np.float32:
        return array
    if cuts:
        return (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype("bfloat16")).astype(np.float32)
