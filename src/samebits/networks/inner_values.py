"""Values inside units, observed to find causes: those of several units of a side in one run, if it changes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from samebits.errors import SamebitsError
from samebits.networks.network import Network
from samebits.networks.observing import Observer
from samebits.networks.units import Unit
from samebits.numbers.ulps import has_same_bits


def list_inner(
    network: Network, folded: Mapping[str, np.ndarray], unit: Unit, seen: Mapping[str, np.ndarray]
) -> list[str]:
    """What a unit's products read and return, as far as it is computed and not `seen` yet."""
    nodes = [network.nodes[p] for p in unit.products]
    wanted = dict.fromkeys(v for n in nodes for v in (*n.inputs, *n.outputs) if v and v not in folded)
    return [v for v in wanted if v not in seen]


@dataclass
class InnerValues:
    """The values inside units of one side, those of `units` in one run; `seen` is what a run with `ends` showed."""

    network: Network
    folded: Mapping[str, np.ndarray]
    units: Sequence[Unit]
    observer: Observer
    ends: Sequence[str]
    seen: Mapping[str, np.ndarray]

    def find(self, unit: Unit, wanted: list[str]) -> Mapping[str, np.ndarray]:
        """The wanted values of one unit; raises EngineFailure where they cannot be observed.

        One run observes those of all units. A unit that is fed or returns other bits in it has a run of its own.
        """
        if len(self.units) > 1:
            unchanged, values = self._together
            if unit.places in unchanged and all(v in values for v in wanted):
                return {v: values[v] for v in wanted}
        return self.observer.observe([*self.ends, *wanted], wanted)

    @cached_property
    def _together(self) -> tuple[set[tuple[int, ...]], Mapping[str, np.ndarray]]:
        """The places of the units that have the same ends as before, and the values inside all of them."""
        inner = list(dict.fromkeys(v for u in self.units for v in list_inner(self.network, self.folded, u, self.seen)))
        around = {u.places: [v for v in (*u.inputs, *u.outputs) if v in self.seen] for u in self.units}
        asked = dict.fromkeys([*inner, *(v for values in around.values() for v in values)])
        try:
            values = self.observer.observe([*self.ends, *inner], list(asked))
        except SamebitsError:
            return set(), {}
        same = {v for v in asked if v in self.seen and _are_same(values[v], self.seen[v])}
        return {places for places, own in around.items() if same.issuperset(own)}, {v: values[v] for v in inner}


def _are_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays, of any shapes and dtypes, have the same bits."""
    return a.shape == b.shape and a.dtype == b.dtype and has_same_bits(a, b)
