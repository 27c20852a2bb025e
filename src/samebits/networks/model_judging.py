"""All units of all sides, judged in batches that memory holds, in the sequence they run in."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from samebits.errors import EngineFailure, ModelError
from samebits.findings import Evidence, Verdict, is_agreement
from samebits.findings.model_schema import InheritedError, UnitFinding, UnitSide
from samebits.judging.measuring import measure_norm
from samebits.mechanisms.search.recalled import Recalled
from samebits.networks.inner_values import InnerValues, list_inner
from samebits.networks.model_sentences import say_equal
from samebits.networks.network import Network
from samebits.networks.observing import Observer, list_ends
from samebits.networks.recurrent_operations import returns_states
from samebits.networks.side_threads import do_at_once
from samebits.networks.turned_units import state_problem
from samebits.networks.unit_causes import ProductCase, UnitCauses
from samebits.networks.unit_judging import UnitJudgement, judge_unit
from samebits.networks.unit_reference import OutputReference, refer_unit
from samebits.networks.units import SharedUnit, Unit, merge_divisions
from samebits.numbers.format import FORMATS
from samebits.numbers.ulps import mark_differing_bits
from samebits.progress import Progress, ignore_progress, prefix_progress

# So many bytes of observed values are held at once, for each side.
_BATCH_BYTES = 2**29
# Values inside units that are observed in one run come to so many at most.
_INNER_BYTES = 2**28
# So many units of a side are looked into: where more deviate they do so alike, or the first of them tells.
_MOST_LOOKED_INTO = 4
# Verdicts that say something against a side.
PROVED: tuple[Verdict, ...] = ("downgrade", "wrong")


@dataclass
class JudgedUnit:
    """A unit with what was found of it on each side; `cases` are the products of sides that deviate, by side."""

    unit: Unit
    problem: str | None
    elements: int
    differing: int
    sides: dict[str, UnitJudgement]
    inherited: dict[str, float]
    references: dict[str, dict[str, np.ndarray]] = field(default_factory=dict[str, dict[str, np.ndarray]])
    cases: dict[str, ProductCase] = field(default_factory=dict[str, ProductCase])
    # How far the sides are apart here, relative to the first side's size.
    relative_difference: float = 0.0
    # Pairs of sides whose outputs are as close as their bounds allow, where some side deviates.
    close: frozenset[frozenset[str]] = frozenset()
    # Where the module that the network came from computes another function than its graph: a sentence.
    meaning: str = ""

    @property
    def deviates(self) -> bool:
        """Whether some side is neither right nor within rounding here."""
        return any(j.is_judged and not is_agreement(j.verdict) for j in self.sides.values())

    @property
    def is_proved(self) -> bool:
        """Whether some side is wrong or less precise here, which undecided units before it do not hide."""
        return any(j.verdict in PROVED for j in self.sides.values())

    @property
    def is_judged(self) -> bool:
        """Whether any side could be judged here."""
        return any(j.is_judged for j in self.sides.values())

    def are_alike(self, sides: Sequence[str]) -> bool:
        """Whether these sides returned the same but for rounding."""
        return all(frozenset(pair) in self.close for pair in itertools.combinations(sides, 2))

    def as_finding(self) -> UnitFinding:
        """The unit as a finding."""
        sides = [_state_side(name, judged, self.inherited.get(name)) for name, judged in self.sides.items()]
        return UnitFinding(
            name=self.unit.name,
            operators=list(self.unit.operators),
            problem=self.problem,
            inputs=list(self.unit.inputs),
            outputs=list(self.unit.outputs),
            elements=self.elements,
            differing=self.differing,
            sides=sides,
        )


def _state_side(name: str, judged: UnitJudgement, inherited: float | None) -> UnitSide:
    return UnitSide(
        name=name,
        verdict=judged.verdict,
        certainty=judged.certainty,
        cause=judged.cause,
        cause_certainty=judged.cause_certainty,
        says=judged.says,
        own=judged.own,
        inherited=None if inherited is None else InheritedError(inherited),
        recipe=judged.recipe,
        replay=judged.replay,
        is_judged=judged.is_judged,
        share=judged.share,
        evidence=list(judged.evidence),
    )


@dataclass(frozen=True)
class ModelJudge:
    """A network divided into units, and the observers whose runs are judged."""

    network: Network
    folded: Mapping[str, np.ndarray]
    # By side, as are the observers: what is one unit on one side may be several on another.
    divisions: Mapping[str, Sequence[Unit]]
    observers: Mapping[str, Observer]
    progress: Progress = ignore_progress
    keeps: bool = False
    # Sides of which no cause is searched for: what they do is known.
    known: Collection[str] = ()
    # By side, what was proved of it in units whose causes were found.
    recalled: dict[str, Recalled] = field(default_factory=dict[str, Recalled])
    # By side, how many of its units were looked into.
    looked_into: Counter[str] = field(default_factory=Counter[str])

    def judge(self) -> Iterator[JudgedUnit]:
        """Every unit, judged on every side, in sequence; no causes yet."""
        done = 0
        for batch in self.divide_batches():
            values = {name: self.observe(name, batch) for name in self.observers}
            for shared in batch:
                self.progress(f"judging unit {done + 1} of {len(self.shared)}", done / len(self.shared))
                yield self._judge_unit(shared, values)
                done += 1

    def list_due(self, judged: Sequence[JudgedUnit]) -> list[tuple[JudgedUnit, str]]:
        """Of which units, on which sides, a cause is to be looked for."""
        asked = [(unit, name, own) for unit in judged for name, own in unit.sides.items() if name not in self.known]
        return [(unit, name) for unit, name, own in asked if own.beyond or own.is_unusual]

    def find_causes(self, judged: Sequence[JudgedUnit], ends_at: float = math.inf) -> int:
        """Looks for causes, as long as there is time, of what deviates first; how many units were not looked at."""
        due = self.list_due(judged)
        numbers = {shared.unit.places: i for i, batch in enumerate(self.divide_batches()) for shared in batch}

        def find_group(one: tuple[JudgedUnit, str]) -> tuple[bool, int, str]:
            unit, name = one
            return not unit.sides[name].beyond, numbers[unit.unit.places], name

        done = 0
        # What one side shows of a batch is observed once.
        for (_, _, name), group in itertools.groupby(sorted(due, key=find_group), key=find_group):
            units = [unit for unit, _ in group]
            inner: InnerValues | None = None
            for unit in units:
                if time.monotonic() > ends_at:
                    return len(due) - done
                try:
                    inner = inner or self._look_inside(name, [u.unit for u in units])
                except EngineFailure:
                    # What ran before does not run any more: these units' causes stay open.
                    break
                self._find_cause(unit, name, inner)
                done += 1
        return 0

    @cached_property
    def shared(self) -> list[SharedUnit]:
        """The units of all sides in one sequence."""
        return merge_divisions(self.network, self.divisions)

    @cached_property
    def _ends(self) -> dict[str, list[str]]:
        return {name: list_ends(self.network, units) for name, units in self.divisions.items()}

    def divide_batches(self) -> Iterator[list[SharedUnit]]:
        """The units in sequence, as many at a time as memory is to hold."""
        batch: list[SharedUnit] = []
        size = 0
        for shared in self.shared:
            needed = sum(self._count_bytes(v) for v in (*shared.unit.inputs, *shared.unit.outputs))
            if batch and size + needed > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(shared)
            size += needed
        if batch:
            yield batch

    def _count_bytes(self, value: str) -> int:
        type_ = self.network.types.get(value)
        return 4 * math.prod(size or 1 for size in type_.shape) if type_ else 2**20

    def observe(self, side: str, batch: Sequence[SharedUnit]) -> dict[str, np.ndarray]:
        """The inputs and outputs of one side's units, from a run in which the ends of all its units are observed.

        Outputs of others' units are among them where this side shows them too.
        """
        ends = self._ends[side]
        wanted = dict.fromkeys(v for s in batch if side in s.sides for v in (*s.unit.inputs, *s.unit.outputs))
        shown = set(ends)
        wanted |= dict.fromkeys(v for s in batch for v in s.unit.outputs if v in shown)
        return self.observers[side].observe(ends, list(wanted))

    def _judge_unit(self, shared: SharedUnit, seen_by_all: Mapping[str, Mapping[str, np.ndarray]]) -> JudgedUnit:
        unit = shared.unit
        values = {name: seen_by_all[name] for name in shared.sides}
        references = self._refer_all(unit, values)
        judged = do_at_once(
            {n: partial(judge_unit, self.network, self.folded, unit, s, references[n]) for n, s in values.items()}
        )
        # What a side inherited is measured against the first one, if that has this unit.
        first = next(iter(seen_by_all))
        inherited = {
            n: 0.0 if self._are_fed_alike(unit, n, first, values) else _measure_inherited(r, references[first])
            for n, r in references.items()
            if first in values
        }
        showing = {n: seen for n, seen in seen_by_all.items() if all(v in seen for v in unit.outputs)}
        differing, apart = _count_differing(unit, showing)
        if len(values) > 1 and not differing and not any(inherited.values()):
            judged = {name: _take_equal(own) for name, own in judged.items()}
        any_seen = next(iter(values.values()))
        problem = state_problem(self.network, self.folded, unit, any_seen)
        elements = sum(any_seen[v].size for v in unit.outputs)
        found = JudgedUnit(unit, problem, elements, differing, judged, inherited, relative_difference=apart)
        if found.deviates:
            found.references = {n: {v: o.truth for v, o in r.items()} for n, r in references.items()}
            pairs = map(frozenset, itertools.combinations(values, 2))
            found.close = frozenset(p for p in pairs if _are_close(unit, *((values[n], references[n]) for n in p)))
        return found

    def _refer_all(
        self, unit: Unit, values: Mapping[str, Mapping[str, np.ndarray]]
    ) -> dict[str, dict[str, OutputReference]]:
        """What each side should have returned; sides that were fed the same share it."""
        # Where steps go on from a side's own results, each has a truth of its own.
        goes_on = any(returns_states(self.network.nodes[p]) for p in unit.places)
        sources: dict[str, str] = {}
        for name in values:
            alike = (s for s in sources.values() if not goes_on and self._are_fed_alike(unit, name, s, values))
            sources[name] = next(alike, name)
        found = do_at_once(
            {n: partial(refer_unit, self.network, self.folded, unit, values[n]) for n in sources.values()}
        )
        for name in values:
            if self.observers[name].is_recorded:
                _check_sizes(name, values[name], found[sources[name]])
        return {name: found[source] for name, source in sources.items()}

    def _are_fed_alike(self, unit: Unit, a: str, b: str, values: Mapping[str, Mapping[str, np.ndarray]]) -> bool:
        """Whether two sides were fed the same bits."""
        pairs = [(values[a][v], values[b][v]) for v in unit.inputs]
        return all(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)

    def _look_inside(self, name: str, units: Sequence[Unit]) -> InnerValues:
        seen = self.observe(name, [SharedUnit(unit, (name,)) for unit in units])
        together: list[Unit] = []
        size = 0
        for unit in units:
            inner = list_inner(self.network, self.folded, unit, seen)
            size += sum(map(self._count_bytes, inner))
            # Memory is to hold them, and whoever answers is to end.
            if size <= _INNER_BYTES and all(self.network.types.get(v) for v in inner):
                together.append(unit)
        return InnerValues(self.network, self.folded, together, self.observers[name], self._ends[name], seen)

    def _may_look_inside(self, name: str) -> bool:
        """Whether one more unit of a side is looked into: each is a run of its own."""
        self.looked_into[name] += 1
        return self.looked_into[name] <= _MOST_LOOKED_INTO

    def _find_cause(self, judged: JudgedUnit, name: str, inner: InnerValues) -> None:
        """Puts the cause into a unit's judgement on one side, and keeps the case that shows it."""
        unit, seen = judged.unit, inner.seen
        references = refer_unit(self.network, self.folded, unit, seen)
        observe = partial(inner.find, unit)
        heard = prefix_progress(self.progress, f"{name[:40]}, {unit.name[:40]}: ")
        recalled = self.recalled.setdefault(name, Recalled())
        causes = UnitCauses(
            self.network, self.folded, unit, name, seen, references, observe, heard, recalled,
            may_look_inside=partial(self._may_look_inside, name),
        )  # fmt: skip
        judged.sides[name], shown = causes.find(judged.sides[name])
        if shown and self.keeps:
            judged.cases[name] = shown
        if judged.deviates:
            judged.references[name] = {v: o.truth for v, o in references.items()}


# A unit's values on one side, and what its outputs should be.
Returned = tuple[Mapping[str, np.ndarray], Mapping[str, OutputReference]]


def _are_close(unit: Unit, one: Returned, other: Returned) -> bool:
    """Whether two sides' outputs are no farther apart than their bounds and what they were fed make them."""
    for v in unit.outputs:
        (a, x), (b, y) = (one[0][v], one[1][v]), (other[0][v], other[1][v])
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if x.bound is None or y.bound is None or x.bound.shape != a.shape or y.bound.shape != a.shape:
            return a.tobytes() == b.tobytes()
        with np.errstate(invalid="ignore"):
            away = np.abs(a.astype(np.float64) - b.astype(np.float64))
            allowed = x.bound + y.bound + np.abs(x.value - y.value)
        if not ((away <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b) if a.dtype.kind == "f" else False)).all():
            return False
    return True


def _take_equal(judged: UnitJudgement) -> UnitJudgement:
    """The judgement on operators that nobody can bound, where all sides made the same bits of the same inputs."""
    if judged.is_judged:
        return judged
    said = Evidence("structure", say_equal())
    return replace(judged, verdict="identical", certainty="bits", evidence=(*judged.evidence, said), is_judged=True)


def _count_differing(unit: Unit, values: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[int, float]:
    """How many outputs do not have the same bits on all sides; the largest relative L2 distance from the first."""
    first, *others = values.values()
    total, farthest = 0, 0.0
    for output in unit.outputs:
        differs = np.zeros(first[output].shape, bool)
        for other in others:
            if other[output].shape != differs.shape or other[output].dtype != first[output].dtype:
                differs[...] = True
                continue
            if first[output].dtype.name in FORMATS:
                differs |= mark_differing_bits(first[output], other[output])
                farthest = max(farthest, measure_relative(first[output], other[output]))
            else:
                differs |= first[output] != other[output]
        total += int(differs.sum())
    return total, farthest


def measure_relative(a: np.ndarray, b: np.ndarray) -> float:
    """The L2 norm of the difference, relative to that of `a`; where both are finite."""
    first, second = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    known = np.isfinite(first) & np.isfinite(second)
    size = measure_norm(first[known])
    away = measure_norm((first - second)[known])
    return away / size if size else (0.0 if away == 0 else math.inf)


def _check_sizes(side: str, seen: Mapping[str, np.ndarray], references: Mapping[str, OutputReference]) -> None:
    """Raises ModelError where values were recorded of other inputs than these: an open size is another one."""
    for name, reference in references.items():
        if name in seen and seen[name].shape != reference.truth.shape:
            raise ModelError(
                f"{side}: {name[:60]!r} was recorded as {seen[name].shape}, but these inputs make"
                f" {reference.truth.shape}; give the inputs of that run"
            )


def _measure_inherited(own: Mapping[str, OutputReference], first: Mapping[str, OutputReference]) -> float:
    largest = 0.0
    for name, reference in own.items():
        a, b = reference.value, first[name].value
        if a.shape == b.shape and a.size:
            with np.errstate(invalid="ignore"):
                largest = max(largest, float(np.nan_to_num(np.abs(a - b), nan=0.0, posinf=np.inf).max()))
    return largest
