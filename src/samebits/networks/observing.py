"""Runs in which the values between units are outputs, so arranged that this changes no bit of the result."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from samebits.networks.model_runners import Arrays, ModelRunner
from samebits.networks.network import Network
from samebits.networks.operations import FLATTENING
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.recorded_runs import RecordedRunner
from samebits.networks.recurrent_operations import returns_states
from samebits.networks.units import Unit, divide_network, list_addends
from samebits.numbers.ulps import has_same_bits
from samebits.progress import Progress

# Searching for the values that may be outputs takes runs: so many at most, and so much time. Where a network is
# compiled for longer than `_SLOW_S` in each of them, so many runs' time.
_MOST_RUNS = 400
_LONGEST_SEARCH_S, _SLOW_S, _MOST_TIMES = 60.0, 5.0, 3.0


@dataclass
class Observer:
    """One runner and one network, observed on some inputs.

    `left_out` are values whose observation changes bits, or was not tried in time: then `is_settled` is False. `hidden`
    are those for which the runner has no name, `plain` the network's outputs without observation; `repeats` tells
    whether all of `calls` runs give them; None of what was recorded, which cannot be run.
    """

    runner: ModelRunner
    network: Network
    inputs: Mapping[str, np.ndarray]
    calls: int = 2
    plain: Arrays = field(default_factory=dict[str, np.ndarray])
    repeats: bool | None = True
    left_out: list[str] = field(default_factory=list[str])
    hidden: list[str] = field(default_factory=list[str])
    changed_bits: bool = False
    is_settled: bool = True
    runs: int = 0
    # What the first run takes, building the network included.
    run_s: float = 0.0
    _ends_at: float = math.inf
    # Whether the result was the same with these values as outputs.
    _kept: dict[frozenset[str], bool] = field(default_factory=dict[frozenset[str], bool])
    # The roles of values that changed something, each with the values that were put off for it.
    _alike: dict[tuple[object, ...], list[str]] = field(default_factory=dict[tuple[object, ...], list[str]])

    @property
    def is_recorded(self) -> bool:
        """Whether nothing is run: the values are those of a run elsewhere."""
        return isinstance(self.runner, RecordedRunner)

    def begin(self) -> None:
        """Runs the network as it is, `calls` times."""
        began = time.monotonic()
        self.plain = self.run_with([], self.network.outputs)
        self.run_s = time.monotonic() - began
        if self.is_recorded:
            self.repeats = None
            return
        self.repeats = all(
            _are_same(self.plain, self.run_with([], self.network.outputs)) for _ in range(self.calls - 1)
        )

    def settle(self, values: Sequence[str], progress: Progress) -> None:
        """Finds values that can be outputs together without changing the result; all others are `left_out`."""
        self.changed_bits = True
        progress(f"finding which observations change what {self.runner.text[:40]} returns", 0.2)
        longest = _LONGEST_SEARCH_S if self.run_s < _SLOW_S else _MOST_TIMES * self.run_s
        self._ends_at = time.monotonic() + longest
        # What products read is whole in any case; what lies between may be gone where nobody looks.
        read = {v for node in self.network.nodes if node.operator in PRODUCTS for v in node.inputs}
        inner = [v for v in values if v not in self.network.outputs]
        shown = self._find_shown([v for v in inner if v in read], [v for v in inner if v not in read])
        # Values in one place of many blocks change the result all or none: they are tried together, not one by one.
        groups = [group for group in self._alike.values() if group]
        if len(groups) > 1 and self._may_search() and self.keeps_bits([*shown, *itertools.chain(*groups)]):
            shown += itertools.chain(*groups)
            groups = []
        for group in groups:
            if self._may_search() and self.keeps_bits([*shown, *group]):
                shown += group
        self.is_settled = self._may_search()
        self.left_out = [v for v in inner if v not in shown]

    def _may_search(self) -> bool:
        return self.runs < _MOST_RUNS and time.monotonic() < self._ends_at

    def observe(self, observed: Sequence[str], wanted: Sequence[str]) -> Arrays:
        """The wanted values, of a run in which all of `observed` are outputs."""
        return self.run_with(observed, wanted)

    def run_with(
        self, observed: Sequence[str], wanted: Sequence[str], given: Mapping[str, np.ndarray] | None = None
    ) -> Arrays:
        """A run of the network; the wanted values, those of them that are fed included."""
        known = {**self.inputs, **(given or {})}
        asked = [v for v in wanted if v not in known]
        outputs = [v for v in observed if v not in known]
        found = self.runner.run_network(self.network, self.inputs, outputs, asked, given or {}) if asked else {}
        return {v: known[v] if v in known else found[v] for v in wanted}

    def find_hidden(self, values: Sequence[str]) -> None:
        """What the runner has no name for cannot be observed at all."""
        shown = self.list_shown(values)
        self.hidden += [v for v in values if v not in shown]

    def list_shown(self, values: Sequence[str]) -> set[str]:
        """Those of the values that the runner has a name for."""
        find = getattr(self.runner, "list_observable", None)
        return set(values if find is None else find(values)) | set(self.network.outputs)

    def keeps_bits(self, values: Sequence[str]) -> bool:
        """Whether the result is the same with these values as outputs; True where it does not repeat anyway."""
        if not self.repeats:
            return True
        asked = frozenset(values) - set(self.network.outputs)
        if asked not in self._kept:
            self.runs += 1
            self._kept[asked] = _are_same(self.plain, self.run_with(values, self.network.outputs))
        return self._kept[asked]

    def _find_shown(self, *groups: list[str]) -> list[str]:
        """Those of the values that change nothing together: all at once, else by halves, the first groups first.

        Networks repeat their blocks: values in the place of one that changed something are put off.
        """
        shown: list[str] = []
        left = list(reversed(groups))
        while left and self._may_search():
            left = [kept for group in left if (kept := self._put_off(group))]
            # Once a value that changes something is put off, all others may be harmless.
            if left and self.keeps_bits([*shown, *itertools.chain(*left)]):
                return [*shown, *itertools.chain(*left)]
            if not left:
                break
            group = left.pop()
            if self.keeps_bits([*shown, *group]):
                shown += group
            elif len(group) > 1:
                middle = len(group) // 2
                left += [group[middle:], group[:middle]]
            else:
                self._alike[_find_role(self.network, group[0])] = []
        return shown

    def _put_off(self, values: Sequence[str]) -> list[str]:
        """The values without those in the place of one that changed something, which are tried later."""
        kept: list[str] = []
        for value in values:
            role = _find_role(self.network, value)
            if role in self._alike:
                self._alike[role].append(value)
            else:
                kept.append(value)
        return kept


def _find_role(network: Network, value: str) -> tuple[object, ...]:
    """What a value has in common with those in the same place of other blocks: its shape, and what is around it."""
    place, type_ = network.producers.get(value), network.types.get(value)
    if place is None:
        return (value,)
    node = network.nodes[place]
    sources = (network.producers.get(v) for v in node.inputs)
    before = tuple("" if s is None else network.nodes[s].operator for s in sources)
    behind = sorted(network.nodes[r].operator for r in network.consumers.get(value, ()))
    return node.operator, node.outputs.index(value), type_ and type_.shape, before, tuple(behind)


def divide_observably(
    network: Network, folded: Mapping[str, np.ndarray], observers: Mapping[str, Observer], progress: Progress
) -> dict[str, list[Unit]]:
    """By side, units whose ends can be observed there without changing what its runner returns.

    All sides have the same units where that is possible. A value that one of them must not show joins units on this
    side alone; one that an engine has no name for joins them on all, but for the states of recurrent layers; one that
    was not recorded joins them on the recorded side.
    """
    units = divide_network(network, folded)
    for observer in observers.values():
        observer.find_hidden(list_ends(network, units))
    hidden = {v for o in observers.values() if not o.is_recorded for v in o.hidden}
    # Without the states that a recurrent layer returned nothing can be said of it: who shows them is judged by them.
    own = {v for v in hidden if _is_state(network, v) and any(v not in o.hidden for o in observers.values())}
    hidden -= own
    hidden_by = {
        name: hidden | (set(o.hidden) if o.is_recorded else own & set(o.hidden)) for name, o in observers.items()
    }
    divisions = {name: divide_network(network, folded, values) for name, values in hidden_by.items()}
    divided = _divide_before_flattening(network, folded, observers, list_flattened(network, units), hidden_by)
    divisions |= divided
    undivided = {name: o for name, o in observers.items() if name not in divided}
    left = {name for name, o in undivided.items() if not o.keeps_bits(list_ends(network, divisions[name]))}
    # Another choice for sums is one for all sides: it is not tried where they have units of their own already.
    if left and not own and (addends := list_addends(network, units)):
        # Where two products are added, engines may have fused the sum with the other one.
        others = divide_network(network, folded, hidden, preferred=addends)
        ends = list_ends(network, others)
        fused_so = {name for name in left if observers[name].keeps_bits(ends)}
        if fused_so == left and all(o.keeps_bits(ends) for name, o in observers.items() if name not in left):
            return dict.fromkeys(observers, others)
        divisions |= dict.fromkeys(fused_so, others)
        left -= fused_so
    for name in left:
        divisions[name] = _settle(observers[name], folded, divisions[name], hidden_by[name], progress)
    return divisions


def list_flattened(network: Network, units: Iterable[Unit]) -> list[str]:
    """Values inside units that only functions read which flatten them: a large error there can leave no trace.

    A sigmoid makes 1e-8 of -18 and of -18.01, and may be wrong by more than they differ.
    """
    found: list[str] = []
    for unit in units:
        made = [v for p in unit.places for v in network.nodes[p].outputs if v and v not in unit.outputs]
        readers = {v: {network.nodes[r].operator for r in network.consumers.get(v, ())} for v in made}
        found += [v for v in made if unit.products and readers[v] and readers[v] <= set(FLATTENING)]
    return found


def _divide_before_flattening(
    network: Network,
    folded: Mapping[str, np.ndarray],
    observers: Mapping[str, Observer],
    flattened: Sequence[str],
    hidden_by: Mapping[str, set[str]],
) -> dict[str, list[Unit]]:
    """Units of the sides that show what is about to be flattened, and return the same; in one more run at most."""
    found: dict[str, list[Unit]] = {}
    for name, observer in observers.items():
        shown = observer.list_shown(flattened) & set(flattened) - hidden_by[name]
        if shown and observer.run_s < _SLOW_S:
            division = divide_network(network, folded, hidden_by[name], apart=shown)
            if observer.keeps_bits(list_ends(network, division)):
                found[name] = division
    return found


def _is_state(network: Network, value: str) -> bool:
    """Whether a value is what a recurrent layer returns of every step."""
    place = network.producers.get(value)
    return place is not None and returns_states(network.nodes[place]) and value == network.nodes[place].outputs[0]


def _settle(
    observer: Observer, folded: Mapping[str, np.ndarray], units: list[Unit], hidden: Iterable[str], progress: Progress
) -> list[Unit]:
    """Units of one side, that hold the values which change its result when they are observed."""
    observer.settle(list_ends(observer.network, units), progress)
    return divide_network(observer.network, folded, {*hidden, *observer.left_out})


def list_ends(network: Network, units: Sequence[Unit]) -> list[str]:
    """The values at which units meet, in sequence; what the network takes is known without observing."""
    ends = dict.fromkeys(v for unit in units for v in (*unit.inputs, *unit.outputs))
    return [v for v in ends if v not in network.inputs]


def _are_same(a: Arrays, b: Arrays) -> bool:
    return all(has_same_bits(a[name], b[name]) for name in a)
