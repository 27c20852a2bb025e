"""Parts of a network where a second file computes other values in between, and the same at their end.

A factor that one product takes over from another, channels in another sequence, a concatenation whose halves are
exchanged: each of their units deviates by itself, and nothing is wrong. Such a part is found by exchange: a fault goes
away where the right value is put in its place, while a file that computes otherwise on purpose gets worse by it. Its
units are then judged as one, by the bound of all that they compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from samebits import thresholds
from samebits.errors import EngineFailure
from samebits.judging.measuring import measure_norm
from samebits.networks.model_conclusion import Asked, Outcome
from samebits.networks.model_judging import JudgedUnit, ModelJudge, measure_relative
from samebits.networks.network import Network
from samebits.networks.observing import list_ends
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import Unit, divide_network
from samebits.numbers.format import FORMATS
from samebits.progress import Progress

# A part may end in one that is found only when it has been joined.
_MOST_ROUNDS = 4


@dataclass(frozen=True)
class Rewritten:
    """The outcome with such parts as units of their own on the second file's side, and the nodes in them, by name."""

    outcome: Outcome
    nodes: frozenset[str] = frozenset()


def join_rewritten(outcome: Outcome, side: Asked, progress: Progress) -> Rewritten:
    """Joins what the side computes otherwise on purpose; as it is where nothing is, or where that cannot be shown."""
    other = next(
        (a for a in outcome.asked if a is not side and a.observer and not outcome.list_deviating(a.name)), None
    )
    judge, observer = outcome.judge, side.observer
    deviating = outcome.list_deviating(side.name)
    if other is None or other.observer is None or observer is None or judge is None or not deviating:
        return Rewritten(outcome)
    joined: set[str] = set()
    found = outcome
    for number in range(_MOST_ROUNDS):
        progress("joining what the second file computes otherwise", number / _MOST_ROUNDS)
        more = _find_more(outcome.network, found.list_deviating(side.name), side, other, joined)
        if not more:
            return Rewritten(outcome)
        joined |= more
        found = _judge_joined(outcome, judge, side, joined)
        if not found.list_deviating(side.name):
            break
    else:
        return Rewritten(outcome)
    parts = [unit for unit in found.judged if _list_nodes(outcome.network, unit, joined)]
    if not all(unit.is_judged and _is_as_near(unit.unit, found, side, other, judge) for unit in parts):
        # A bound of several products is wide: a fault may hide in it.
        return Rewritten(outcome)
    whole = ModelJudge(
        outcome.network, judge.folded, {**judge.divisions, **found.judge.divisions} if found.judge else judge.divisions,
        judge.observers, judge.progress, judge.keeps, judge.known,
    )  # fmt: skip
    nodes = {n for unit in found.judged for n in _list_nodes(outcome.network, unit, joined)}
    return Rewritten(replace(outcome, judged=list(whole.judge()), judge=whole), frozenset(nodes))


def _is_as_near(unit: Unit, found: Outcome, side: Asked, other: Asked, judge: ModelJudge) -> bool:
    """Whether the side's outputs of a part are as near to the truth as the other side's, but for a few times.

    Each is judged on what it was fed itself. Sides may round once where the other is exact.
    """
    wanted = [*unit.inputs, *unit.outputs]
    errors: list[list[float]] = []
    sizes: list[float] = []
    for one, division in ((side, found.judge), (other, judge)):
        if one.observer is None or division is None:
            return False
        ends = dict.fromkeys([*list_ends(found.network, division.divisions[one.name]), *wanted])
        try:
            seen = one.observer.observe(list(ends), wanted)
        except EngineFailure:
            return False
        references = refer_unit(found.network, judge.folded, unit, seen)
        floats = [v for v in unit.outputs if seen[v].dtype.name in FORMATS]
        errors.append([measure_norm(seen[v].astype(np.float64) - references[v].value) for v in floats])
        units = [float(FORMATS[seen[v].dtype.name].unit_roundoff) for v in floats]
        sizes = [u * measure_norm(references[v].value) for u, v in zip(units, floats, strict=True)]
    own, others = errors
    return all(a <= thresholds.FITTED_TIMES * max(b, c) for a, b, c in zip(own, others, sizes, strict=True))


def _find_more(network: Network, deviating: list[JudgedUnit], side: Asked, other: Asked, joined: set[str]) -> set[str]:
    """Values that the side computes otherwise on purpose: those of its first deviating unit, and all behind it that
    leads to another one. None where the first unit's right values make the outputs better, or where nothing is new."""
    first = deviating[0]
    if set(first.unit.outputs) & set(network.outputs) or not _gets_worse(first, side, other):
        return set()
    behind = _reach(network, first.unit.outputs)
    leading = _reach_back(network, (v for unit in deviating[1:] for v in unit.unit.inputs))
    made = {v for v in behind & leading if v not in network.outputs}
    return ({*first.unit.outputs, *made}) - joined


def _gets_worse(unit: JudgedUnit, side: Asked, other: Asked) -> bool:
    """Whether the outputs differ more where the unit's right values are put in place of the side's own."""
    assert side.observer is not None
    assert other.observer is not None
    truths = unit.references.get(side.name, {})
    if set(truths) != set(unit.unit.outputs):
        return False
    try:
        swapped = side.observer.run_with([], side.observer.network.outputs, dict(truths))
    except EngineFailure:
        return False
    before, after = (measure_apart(a, other.observer.plain) for a in (side.observer.plain, swapped))
    return after > before


def measure_apart(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """How far two sides' outputs are apart, the farthest: relative to the second one's size."""
    pairs = [(a[n], b[n]) for n in a if a[n].shape == b[n].shape and a[n].dtype.name in FORMATS]
    return max((measure_relative(y, x) for x, y in pairs), default=0.0)


def _judge_joined(outcome: Outcome, judge: ModelJudge, side: Asked, joined: set[str]) -> Outcome:
    """The side alone, these values not looked at."""
    assert side.observer is not None
    network = outcome.network
    shown = set(list_ends(network, judge.divisions[side.name]))
    hidden = {v for v in network.producers if v not in shown} | joined
    division = divide_network(network, judge.folded, hidden)
    own = ModelJudge(network, judge.folded, {side.name: division}, {side.name: side.observer}, judge.progress)
    return Outcome(network, [side], list(own.judge()), own)


def _list_nodes(network: Network, unit: JudgedUnit, joined: Iterable[str]) -> list[str]:
    """The nodes of a unit that holds such a part."""
    makers = {network.producers[v] for v in joined if v in network.producers}
    places = unit.unit.places
    return [network.nodes[p].name for p in places] if makers & set(places) else []


def _reach(network: Network, values: Iterable[str]) -> set[str]:
    """All values that are computed from these."""
    asked, found = list(values), set[str]()
    while asked:
        for reader in network.consumers.get(asked.pop(), ()):
            new = [v for v in network.nodes[reader].outputs if v and v not in found]
            found.update(new)
            asked += new
    return found


def _reach_back(network: Network, values: Iterable[str]) -> set[str]:
    """These values, and all that they are computed from."""
    asked = [v for v in values if v]
    found = set(asked)
    while asked:
        place = network.producers.get(asked.pop())
        new = [] if place is None else [v for v in network.nodes[place].inputs if v and v not in found]
        found.update(new)
        asked += new
    return found
