"""The recipes of a network's units, executed on what each unit was really fed: is every bit of it explained?

The sums of products are the emulator's; what follows them in a unit is computed by the engine itself, alone. Where
every unit with a product is reproduced so, the chain of them reproduces the network: each is fed what the ones before
returned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
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
from samebits.networks.fused_forms import (
    Candidate,
    apply_affine,
    emulate_onto,
    fold_bias,
    fold_norm,
    fold_scale,
    multiply_instead,
)
from samebits.networks.model_judging import JudgedUnit, ModelJudge
from samebits.networks.model_runners import find_problem_runner, run_by_reference
from samebits.networks.model_sentences import say_unit_replayed
from samebits.networks.network import Network, ValueType
from samebits.networks.observing import Observer
from samebits.networks.product_nodes import find_product
from samebits.networks.turned_units import TurnedUnit, turn_unit
from samebits.networks.unit_causes import state_whole
from samebits.networks.units import Unit
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import format_problem
from samebits.problems.lowering import lower_problem
from samebits.progress import Progress
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe

_MOST_CALLS, _MOST_TIME_S = 1000, 20.0


@dataclass
class NetworkReplay:
    """One side's units being replayed. `asked` is the engine as a runner of problems."""

    judge: ModelJudge
    side: str
    observer: Observer
    asked: Runner
    progress: Progress
    opened: contextlib.ExitStack
    recipes: dict[object, Recipe | None] = field(default_factory=dict[object, "Recipe | None"])
    others: dict[tuple[str, str], Runner] = field(default_factory=dict[tuple[str, str], "Runner"])
    last: tuple[dict[str, np.ndarray], Recipe, np.ndarray] | None = None

    def replay(self, judged: JudgedUnit, seen: Mapping[str, np.ndarray]) -> None:
        """Puts the recipe of a unit's product, and how much of the unit it reproduces, into its judgement."""
        known, result = judged.sides[self.side].replay, seen[judged.unit.outputs[0]]
        if known is not None and known.is_whole and known.elements == result.size:
            # What explained the unit reproduced all of it.
            return
        best: tuple[float, Recipe, int] | None = None
        turned = turn_unit(self.judge.network, self.judge.folded, judged.unit, seen)
        result = turned.turn(result)
        for candidate in self._list_candidates(turned):
            recipe = self._find_recipe(candidate)
            if recipe is None:
                continue
            try:
                made = self._compute(candidate, recipe, turned, judged.unit)
            except SamebitsError:
                continue
            if made is None or made.shape != result.shape or made.dtype != result.dtype:
                continue
            matched = 1.0 - float(mark_differing_bits(made, result).mean())
            if best is None or matched > best[0]:
                best = (matched, recipe, result.size)
            if matched == 1.0:
                break
        if best is None:
            return
        replayed = Replay(best[0], best[2])
        own = judged.sides[self.side]
        said = Evidence("replay", say_unit_replayed(replayed.count, replayed.elements))
        judged.sides[self.side] = replace(
            own, recipe=format_recipe(best[1]), replay=replayed, evidence=(*own.evidence, said)
        )

    def _list_candidates(self, turned: TurnedUnit) -> Iterator[Candidate]:
        """As one problem; the product and the rest; the product added to what comes next; quotients as products."""
        network, folded, unit, seen = turned.network, turned.folded, turned.unit, turned.seen
        if len(unit.products) != 1 or len(unit.outputs) != 1 or unit.places[0] != unit.products[0]:
            return
        node, *rest = [network.nodes[p] for p in unit.places]
        known = {**folded, **seen}
        inputs = [known[v] if v else None for v in node.inputs]
        setting = None if node.inputs[1] in folded else self._say_runtime()
        whole = state_whole(network, folded, unit, seen)
        if whole is not None:
            yield Candidate(whole[0], whole[1], (), unit.outputs[0], setting)
        product = find_product(node, inputs)
        if product.alpha != 1.0 or product.adds_third:
            return
        plain = Candidate(product.problem, product.arrange(inputs), tuple(rest), node.outputs[0], setting)
        bases = [*fold_norm(plain, rest, folded), plain, *fold_bias(plain, rest, folded)]
        if "layout" in self._list_settings() and product.problem.product is None:
            # What a transposition left with its channels last is computed so.
            bases += [replace(base, setting=("layout", "channels_last")) for base in (plain, *bases)]
        for base in bases:
            yield base
            after = base.rest
            if after and after[0].operator in ("Add", "Sum") and base.affine is None:
                others = [v for v in after[0].inputs if v != base.makes]
                if len(others) == 1 and others[0] in known:
                    yield replace(base, rest=after[1:], makes=after[0].outputs[0], addend=known[others[0]])
        multiplied = tuple(multiply_instead(n, folded) for n in rest)
        if multiplied != tuple(rest):
            yield replace(plain, rest=multiplied)
        yield from fold_scale(plain, rest, folded)

    def _find_recipe(self, candidate: Candidate) -> Recipe | None:
        key = (format_problem(candidate.problem), candidate.setting)
        if key not in self.recipes:
            self.progress(f"probing {self.side[:40]} on {key[0][:70]}", 0.5)
            lowering = lower_problem(candidate.problem)
            runner = lower_runner(self._find_runner(candidate.setting), lowering)
            session = ProbeSession(runner, lowering.convolution, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
            self.recipes[key] = search_recipe(session).recipe
        return self.recipes[key]

    def _say_runtime(self) -> tuple[str, str] | None:
        """The setting with which an engine gets weights as computed, not stored in the model; None if it has none."""
        declared = self._list_settings()
        return ("weights", "runtime") if "weights" in declared else None

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

    def _compute(self, candidate: Candidate, recipe: Recipe, turned: TurnedUnit, unit: Unit) -> np.ndarray | None:
        if candidate.addend is None:
            made = self._emulate(candidate, recipe)
        else:
            made = emulate_onto(candidate.problem, recipe, candidate.operands, candidate.addend)
        if made is not None and candidate.affine is not None:
            made = apply_affine(candidate, made)
        if made is None or not candidate.rest:
            return made
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

    def _emulate(self, candidate: Candidate, recipe: Recipe) -> np.ndarray:
        """Forms of one product share its sums."""
        if self.last is None or self.last[0] is not candidate.operands or self.last[1] is not recipe:
            made = emulate(candidate.problem, recipe, candidate.operands)
            self.last = candidate.operands, recipe, made
        return self.last[2]


def replay_side(
    judge: ModelJudge, judged: list[JudgedUnit], side: str, observer: Observer, progress: Progress
) -> int | None:
    """How many units with one product are reproduced bit for bit; None where the side cannot be probed."""
    asked = find_problem_runner(observer.runner)
    if asked is None:
        return None
    with contextlib.ExitStack() as opened:
        replay = NetworkReplay(judge, side, observer, asked, progress, opened)
        by_unit = {id(j.unit): j for j in judged}
        count = 0
        for batch in judge.divide_batches():
            seen = judge.observe(side, batch)
            for shared in batch:
                own = by_unit[id(shared.unit)]
                if shared.unit.products and side in shared.sides:
                    replay.replay(own, seen)
                    found = own.sides[side].replay
                    count += bool(found and found.is_whole)
        return count


def _cut_out(turned: TurnedUnit, candidate: Candidate, seen: Mapping[str, np.ndarray]) -> Network:
    """The nodes behind a product as a network of their own, fed what the unit was fed."""
    import onnx

    network, unit, nodes = turned.network, turned.unit, candidate.rest
    stored_nodes = [s for n in nodes for s in (n.stored if isinstance(n.stored, tuple) else (n.stored,))]
    made = {v for node in stored_nodes for v in node.output}
    needed = dict.fromkeys(v for node in stored_nodes for v in node.input if v and v not in made)
    constants = {v: turned.folded[v] for v in needed if v in turned.folded}
    inputs = {v: ValueType(seen[v].dtype.name, seen[v].shape) for v in needed if v not in constants}
    helper = onnx.helper
    declared = [
        helper.make_tensor_value_info(v, helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)), t.shape)
        for v, t in inputs.items()
    ]
    (output,) = unit.outputs
    element = helper.np_dtype_to_tensor_dtype(seen[output].dtype)
    graph = helper.make_graph(
        stored_nodes,
        "behind",
        declared,
        [helper.make_tensor_value_info(output, element, seen[output].shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    stored = helper.make_model(
        graph, opset_imports=list(network.stored.opset_import), ir_version=network.stored.ir_version
    )
    return Network(unit.name, nodes, inputs, (output,), constants, dict(inputs), network.opset, stored)
