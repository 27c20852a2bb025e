"""A network as steps that need no engine: found by watching the engine, then executed where it is absent."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineFailure
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.library_operators import list_manners
from samebits.networks.model_judging import ModelJudge
from samebits.networks.model_runners import ModelRunner, find_problem_runner
from samebits.networks.network import Network
from samebits.networks.network_replay import FoundStep, UnitReplayer
from samebits.networks.observing import Observer, divide_observably
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_codes import compute_codes
from samebits.networks.unit_steps import CODES, NODES, Step, compute_unit, measure_step
from samebits.networks.units import Unit, fold_constants
from samebits.progress import Progress


@dataclass(frozen=True)
class UnitStep:
    """A unit, how it is computed, and of its outputs how many there are and the share that were the engine's bits."""

    unit: Unit
    step: Step
    elements: int
    matched: float


def find_steps(
    network: Network, inputs: Sequence[Mapping[str, np.ndarray]], runner: ModelRunner, progress: Progress
) -> list[UnitStep]:
    """How an engine computes every unit of a network, as seen on these sets of inputs.

    `network` has no control flow left (`settle`). Values between units are observed as far as that changes no bit. A
    step has to give every output on all the inputs: on one set two orders of a short sum may look alike. A unit of
    which nothing does keeps what comes closest. Raises an EngineFailure where the network does not run.
    """
    folded, side = fold_constants(network), runner.text
    observers = [Observer(runner, network, fed) for fed in inputs]
    for observer in observers:
        observer.begin()
    units = divide_observably(network, folded, {side: observers[0]}, progress)
    judges = [ModelJudge(network, folded, units, {side: observer}, progress) for observer in observers]
    asked = find_problem_runner(runner)
    found: list[UnitStep] = []
    with contextlib.ExitStack() as opened:
        replayer = (
            None
            if asked is None
            else UnitReplayer(network, folded, side, observers[0], asked, progress, opened, alone=True)
        )
        for batch in judges[0].divide_batches():
            seen = [judge.observe(side, batch) for judge in judges]
            for shared in batch:
                progress(f"finding the step of {shared.unit.name[:60]}", len(found) / len(judges[0].shared))
                step = _find_step(network, folded, shared.unit, seen, replayer)
                elements = sum(values[v].size for v in shared.unit.outputs for values in seen)
                found.append(UnitStep(shared.unit, step.step, elements, step.matched))
    return found


def _find_step(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Sequence[Mapping[str, np.ndarray]],
    replayer: UnitReplayer | None,
) -> FoundStep:
    best: FoundStep | None = None
    if replayer is not None and unit.products:
        with contextlib.suppress(EngineFailure):
            best = replayer.find_step(unit, seen[0], seen[1:])
    if best is not None and best.matched == 1.0:
        return best
    for text, _ in compute_codes(network, folded, unit, seen[0]):
        step = Step(CODES, rescales=text)
        matched = min(measure_step(network, folded, unit, step, values) for values in seen)
        if best is None or matched > best.matched:
            best = FoundStep(step, matched)
        if matched == 1.0:
            return best
    for manner in list_manners(network.nodes[p] for p in unit.places):
        step = Step(NODES, manner=manner)
        matched = 1.0
        for values in seen:
            matched = min(matched, measure_step(network, folded, unit, step, values))
            if matched < 1.0:
                break
        if best is None or matched > best.matched:
            best = FoundStep(step, matched)
        if matched == 1.0:
            break
    return best or FoundStep(Step(NODES), 0.0)


def run_steps(
    network: Network, fed: Mapping[str, np.ndarray], steps: Sequence[tuple[Unit, Step]], progress: Progress
) -> dict[str, np.ndarray]:
    """The network's outputs by steps, each fed what those before it made.

    Values are kept as long as a later step reads them. Raises SamebitsError where a step cannot be computed.
    """
    folded = fold_constants(network)
    last = {v: i for i, (unit, _) in enumerate(steps) for v in unit.inputs}
    values = dict(fed)
    for i, (unit, step) in enumerate(steps):
        progress(f"computing {unit.name[:60]}", i / len(steps))
        values |= compute_unit(network, folded, unit, {v: values[v] for v in unit.inputs}, step)
        for value in [v for v in values if last.get(v, len(steps)) <= i and v not in network.outputs]:
            del values[value]
    return {v: values[v] if v in values else folded[v] for v in network.outputs}


def settle(network: Network, fed: Mapping[str, np.ndarray]) -> Network:
    """The network without control flow, as these inputs decide it."""
    return settle_control_flow(network, fed, make_network)
