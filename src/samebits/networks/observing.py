"""Runs in which the values between units are outputs, so arranged that this changes no bit of the result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from samebits.networks.model_runners import Arrays, ModelRunner
from samebits.networks.network import Network
from samebits.networks.units import Unit, divide_network, list_addends
from samebits.numbers.ulps import has_same_bits
from samebits.progress import Progress

# Searching for the values that must not be outputs takes runs: so many at most, and so much time. Where a network is
# compiled for longer than `_SLOW_S` in each of them, so many runs' time.
_MOST_RUNS = 400
_LONGEST_SEARCH_S, _SLOW_S, _MOST_TIMES = 60.0, 5.0, 3.0


@dataclass
class Observer:
    """One runner and one network, observed on some inputs.

    `left_out` are values whose observation changes bits, `hidden` those for which the runner has no name; `plain` are
    the network's outputs without observation; `repeats` tells whether a second run gives them again.
    """

    runner: ModelRunner
    network: Network
    inputs: Mapping[str, np.ndarray]
    plain: Arrays = field(default_factory=dict[str, np.ndarray])
    repeats: bool = True
    left_out: list[str] = field(default_factory=list[str])
    hidden: list[str] = field(default_factory=list[str])
    changed_bits: bool = False
    is_settled: bool = True
    runs: int = 0
    # What the first run takes, building the network included.
    run_s: float = 0.0
    _ends_at: float | None = None

    def begin(self) -> None:
        """Runs the network as it is, twice."""
        began = time.monotonic()
        self.plain = self.run_with([], self.network.outputs)
        self.run_s = time.monotonic() - began
        again = self.run_with([], self.network.outputs)
        self.repeats = _are_same(self.plain, again)

    def settle(self, values: Sequence[str], progress: Progress) -> None:
        """Finds out which of these values cannot be outputs without changing the result; adds them to `left_out`.

        A search that takes too long is given up: then `is_settled` is False, what is observed changes the result, and
        no deviation that is seen counts.
        """
        if self.keeps_bits(values):
            return
        self.changed_bits = True
        progress(f"finding which observations change what {self.runner.text[:40]} returns", 0.2)
        longest = _LONGEST_SEARCH_S if self.run_s < _SLOW_S else _MOST_TIMES * self.run_s
        self._ends_at = self._ends_at or time.monotonic() + longest
        found = self._find_all(values)
        kept = [v for v in values if v not in found]
        # Values that change nothing each by itself may do so together.
        while self._may_search() and not self.keeps_bits(kept):
            value = self._find_one(kept)
            if value is None:
                break
            found.append(value)
            kept.remove(value)
        self.is_settled = self.is_settled and self._may_search()
        self.left_out += found if self.is_settled else []

    def _may_search(self) -> bool:
        return self.runs < _MOST_RUNS and (self._ends_at is None or time.monotonic() < self._ends_at)

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
        find = getattr(self.runner, "list_observable", None)
        if find is not None:
            shown = set(find(values))
            self.hidden += [v for v in values if v not in shown and v not in self.network.outputs]

    def keeps_bits(self, values: Sequence[str]) -> bool:
        """Whether the result is the same with these values as outputs; True where it does not repeat anyway."""
        if not self.repeats:
            return True
        self.runs += 1
        return _are_same(self.plain, self.run_with(values, self.network.outputs))

    def _find_all(self, values: Sequence[str]) -> list[str]:
        """Values whose observation by itself changes bits: halves that change none are done with at once."""
        if not self._may_search():
            return []
        if len(values) == 1:
            return list(values)
        middle = len(values) // 2
        halves = [values[:middle], values[middle:]]
        changing = [half for half in halves if not self.keeps_bits(half)]
        return [v for half in changing for v in self._find_all(half)]

    def _find_one(self, values: Sequence[str]) -> str | None:
        """A value whose observation changes bits, by bisection: the last of the fewest first ones that do together."""
        low, high = 0, len(values)
        # The first `low` values keep the bits, the first `high` do not.
        while high - low > 1:
            if not self._may_search():
                return None
            middle = (low + high) // 2
            if self.keeps_bits(values[:middle]):
                low = middle
            else:
                high = middle
        return values[low]


def divide_observably(
    network: Network, folded: Mapping[str, np.ndarray], observers: Mapping[str, Observer], progress: Progress
) -> dict[str, list[Unit]]:
    """By side, units whose ends can be observed there without changing what its runner returns.

    All sides have the same units where that is possible. A value that one of them must not show joins units on this
    side alone; one that a side has no name for joins them on all.
    """
    units = divide_network(network, folded)
    for observer in observers.values():
        observer.find_hidden(list_ends(network, units))
    hidden = {v for o in observers.values() for v in o.hidden}
    units = divide_network(network, folded, hidden)
    changing = {name for name, o in observers.items() if not o.keeps_bits(list_ends(network, units))}
    addends = list_addends(network, units) if changing else []
    if not addends:
        return {
            name: _settle(observer, folded, units, hidden, progress) if name in changing else units
            for name, observer in observers.items()
        }
    # Where two products are added, engines may have fused the sum with the other one.
    others = divide_network(network, folded, hidden, preferred=addends)
    ends = list_ends(network, others)
    fused_so = {name for name in changing if observers[name].keeps_bits(ends)}
    if fused_so == changing and all(o.keeps_bits(ends) for name, o in observers.items() if name not in changing):
        return dict.fromkeys(observers, others)
    return {
        name: units
        if name not in changing
        else others
        if name in fused_so
        else _settle(observer, folded, units, hidden, progress)
        for name, observer in observers.items()
    }


def _settle(
    observer: Observer, folded: Mapping[str, np.ndarray], units: list[Unit], hidden: Iterable[str], progress: Progress
) -> list[Unit]:
    """Units of one side, joined at values that change its result when they are observed."""
    before = -1
    while before != len(observer.left_out) and observer.is_settled:
        before = len(observer.left_out)
        observer.settle(list_ends(observer.network, units), progress)
        units = divide_network(observer.network, folded, {*hidden, *observer.left_out})
    return units


def list_ends(network: Network, units: Sequence[Unit]) -> list[str]:
    """The values at which units meet, in sequence; what the network takes is known without observing."""
    ends = dict.fromkeys(v for unit in units for v in (*unit.inputs, *unit.outputs))
    return [v for v in ends if v not in network.inputs]


def _are_same(a: Arrays, b: Arrays) -> bool:
    return all(has_same_bits(a[name], b[name]) for name in a)
