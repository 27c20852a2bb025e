"""The recipes of a network's units, executed on what each unit was really fed: is every bit of it explained?

The sums of products are the emulator's; what follows them in a unit is computed by the engine itself, alone. Where
every unit with a product is reproduced so, the chain of them reproduces the network: each is fed what the ones before
returned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.engines.adapters.engine import Setting
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.known_engines import find_class
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Runner
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import EngineUnsupported, SamebitsError
from samebits.findings import Evidence
from samebits.findings.comparison_schema import Replay
from samebits.judging.fixes.setting_changes import Change
from samebits.networks.fused_forms import Candidate, list_candidates
from samebits.networks.library_operators import PLAIN, Manner, list_manners
from samebits.networks.model_judging import JudgedUnit, ModelJudge
from samebits.networks.model_runners import find_problem_runner, run_by_reference
from samebits.networks.model_sentences import say_unit_replayed
from samebits.networks.network import Network, ValueType
from samebits.networks.observing import Observer
from samebits.networks.turned_units import TurnedUnit, turn_unit
from samebits.networks.unit_steps import Step, finish_candidate, measure_step, sum_candidate
from samebits.networks.units import Unit
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import format_problem
from samebits.problems.lowering import lower_problem
from samebits.progress import Progress
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe

_MOST_CALLS, _MOST_TIME_S = 1000, 20.0


@dataclass(frozen=True)
class FoundStep:
    """How a unit is computed, and the share of its outputs that are the engine's to the last bit."""

    step: Step
    matched: float


@dataclass
class UnitReplayer:
    """The units of a network being replayed as one engine computes them. `asked` is the engine as a runner of problems.

    With `alone` nothing is computed by the engine itself, what follows a product neither.
    """

    network: Network
    folded: Mapping[str, np.ndarray]
    name: str
    observer: Observer
    asked: Runner
    progress: Progress
    opened: contextlib.ExitStack
    alone: bool = False
    recipes: dict[object, Recipe | None] = field(default_factory=dict[object, "Recipe | None"])
    others: dict[tuple[str, str], Runner] = field(default_factory=dict[tuple[str, str], "Runner"])
    last: tuple[dict[str, np.ndarray], Recipe, np.ndarray] | None = None

    def find_step(
        self, unit: Unit, seen: Mapping[str, np.ndarray], others: Sequence[Mapping[str, np.ndarray]] = ()
    ) -> FoundStep | None:
        """The form and the recipe that give most of a unit's outputs; None where no recipe was found.

        `others` are the unit's values on other inputs: what gives every output of the first has to give theirs, too.
        """
        best: FoundStep | None = None
        turned = turn_unit(self.network, self.folded, unit, seen)
        result = turned.turn(seen[unit.outputs[0]])
        declared = self._list_settings()
        runtime = ("weights", "runtime") if "weights" in declared else None
        for candidate in list_candidates(turned, runtime, has_layouts="layout" in declared):
            recipe = self._find_recipe(candidate)
            if recipe is None:
                continue
            for manner, made in self._compute(candidate, recipe, turned, unit):
                if made.shape != result.shape or made.dtype != result.dtype:
                    continue
                step = Step(candidate.form, recipe, manner)
                matched = 1.0 - float(mark_differing_bits(made, result).mean())
                if matched == 1.0:
                    matched = min((measure_step(self.network, self.folded, unit, step, o) for o in others), default=1.0)
                if best is None or matched > best.matched:
                    best = FoundStep(step, matched)
                if matched == 1.0:
                    return best
        return best

    def _find_recipe(self, candidate: Candidate) -> Recipe | None:
        key = (format_problem(candidate.problem), candidate.setting)
        if key not in self.recipes:
            self.progress(f"probing {self.name[:40]} on {key[0][:70]}", 0.5)
            lowering = lower_problem(candidate.problem)
            runner = lower_runner(self._find_runner(candidate.setting), lowering)
            session = ProbeSession(runner, lowering.convolution, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
            self.recipes[key] = search_recipe(session).recipe
        return self.recipes[key]

    def _list_settings(self) -> dict[str, Setting]:
        name = parse_runner_text(self.asked.text).name
        known = find_class(name)
        return known.settings if known else {}

    def _find_runner(self, setting: tuple[str, str] | None) -> Runner:
        """The engine, with a setting under which it computes as in the network."""
        if setting is None:
            return self.asked
        if setting not in self.others:
            changed = Change("", *setting, "", "", None).apply(self.asked.text)
            self.others[setting] = open_runner(changed)
            self.opened.callback(self.others[setting].close)
        return self.others[setting]

    def _compute(
        self, candidate: Candidate, recipe: Recipe, turned: TurnedUnit, unit: Unit
    ) -> Iterator[tuple[Manner, np.ndarray]]:
        """The unit's output by one form, in every manner of its other nodes; nothing where it has no such form."""
        try:
            made = sum_candidate(candidate, recipe, self._emulate(candidate, recipe))
            if not candidate.rest or self.alone:
                for manner in list_manners(candidate.rest):
                    yield manner, finish_candidate(candidate, turned, made, manner)
            else:
                yield PLAIN, self._finish_there(candidate, turned, unit, made)
        except SamebitsError:
            return

    def _finish_there(self, candidate: Candidate, turned: TurnedUnit, unit: Unit, made: np.ndarray) -> np.ndarray:
        """What the engine itself makes of a candidate's sums."""
        seen = {**turned.seen, candidate.makes: made}
        small = _cut_out(turned, candidate, seen)
        fed = {v: seen[v] for v in small.inputs}
        try:
            return self.observer.runner.run_network(small, fed, [], small.outputs, {})[small.outputs[0]]
        except EngineUnsupported:
            # An engine that reads no ONNX runs the rest in place, from the value that was made.
            find = getattr(self.observer.runner, "list_observable", None)
            if find is not None and find([candidate.makes]):
                results = self.observer.run_with([], unit.outputs, {candidate.makes: made})
                return turned.turn(results[unit.outputs[0]])
            # Sums and maxima have one result, functions may have others.
            return run_by_reference(small, fed)[small.outputs[0]]

    def _emulate(self, candidate: Candidate, recipe: Recipe) -> np.ndarray | None:
        """Forms of one product share its sums; none of one that is added to what comes next."""
        if candidate.addend is not None:
            return None
        if self.last is None or self.last[0] is not candidate.operands or self.last[1] is not recipe:
            made = emulate(candidate.problem, recipe, candidate.operands)
            self.last = candidate.operands, recipe, made
        return self.last[2]


def _replay_unit(replayer: UnitReplayer, judged: JudgedUnit, side: str, seen: Mapping[str, np.ndarray]) -> None:
    """Puts the recipe of a unit's product, and how much of the unit it reproduces, into its judgement."""
    known = judged.sides[side].replay
    elements = seen[judged.unit.outputs[0]].size
    if known is not None and known.is_whole and known.elements == elements:
        # What explained the unit reproduced all of it.
        return
    found = replayer.find_step(judged.unit, seen)
    if found is None or found.step.recipe is None:
        return
    replayed = Replay(found.matched, elements)
    own = judged.sides[side]
    said = Evidence("replay", say_unit_replayed(replayed.count, replayed.elements))
    judged.sides[side] = replace(
        own, recipe=format_recipe(found.step.recipe), replay=replayed, evidence=(*own.evidence, said)
    )


def replay_side(
    judge: ModelJudge, judged: list[JudgedUnit], side: str, observer: Observer, progress: Progress
) -> int | None:
    """How many units with one product are reproduced bit for bit; None where the side cannot be probed."""
    asked = find_problem_runner(observer.runner)
    if asked is None:
        return None
    with contextlib.ExitStack() as opened:
        replayer = UnitReplayer(judge.network, judge.folded, side, observer, asked, progress, opened)
        by_unit = {id(j.unit): j for j in judged}
        count = 0
        for batch in judge.divide_batches():
            seen = judge.observe(side, batch)
            for shared in batch:
                own = by_unit[id(shared.unit)]
                if shared.unit.products and side in shared.sides:
                    _replay_unit(replayer, own, side, seen)
                    found = own.sides[side].replay
                    count += bool(found and found.is_whole)
        return count


def _cut_out(turned: TurnedUnit, candidate: Candidate, seen: Mapping[str, np.ndarray]) -> Network:
    """The nodes behind a product as a network of their own, fed what the unit was fed."""
    import onnx

    network, unit, nodes = turned.network, turned.unit, candidate.rest
    made = {v for node in nodes for v in node.outputs}
    needed = dict.fromkeys(v for node in nodes for v in node.stored.input if v and v not in made)
    known = {**turned.folded, **candidate.constants}
    constants = {v: known[v] for v in needed if v in known}
    inputs = {v: ValueType(seen[v].dtype.name, seen[v].shape) for v in needed if v not in constants}
    helper = onnx.helper
    declared = [
        helper.make_tensor_value_info(v, helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)), t.shape)
        for v, t in inputs.items()
    ]
    (output,) = unit.outputs
    element = helper.np_dtype_to_tensor_dtype(seen[output].dtype)
    graph = helper.make_graph(
        [node.stored for node in nodes],
        "behind",
        declared,
        [helper.make_tensor_value_info(output, element, seen[output].shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    stored = helper.make_model(
        graph, opset_imports=list(network.stored.opset_import), ir_version=network.stored.ir_version
    )
    return Network(unit.name, nodes, inputs, (output,), constants, dict(inputs), network.opset, stored)
