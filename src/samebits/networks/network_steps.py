"""A network as steps that need no engine: found by watching the engine, then executed where it is absent."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineFailure, SamebitsError
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.library_operators import list_manners
from samebits.networks.model_judging import ModelJudge
from samebits.networks.model_runners import ModelRunner, find_problem_runner
from samebits.networks.network import Network
from samebits.networks.network_replay import FoundStep, UnitReplayer
from samebits.networks.observing import Observer, divide_observably
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_steps import NODES, Step, compute_unit
from samebits.networks.units import Unit, fold_constants
from samebits.numbers.format import FORMATS
from samebits.numbers.ulps import mark_differing_bits
from samebits.progress import Progress


@dataclass(frozen=True)
class UnitStep:
    """A unit, how it is computed, and of its outputs how many there are and the share that were the engine's bits."""

    unit: Unit
    step: Step
    elements: int
    matched: float


def find_steps(
    network: Network, fed: Mapping[str, np.ndarray], runner: ModelRunner, progress: Progress
) -> list[UnitStep]:
    """How an engine computes every unit of a network, as seen on these inputs.

    `network` has no control flow left (`settle`). Values between units are observed as far as that changes no bit; a
    unit of which nothing gives the engine's bits keeps what comes closest. Raises an EngineFailure where the network
    does not run.
    """
    folded, side = fold_constants(network), runner.text
    observer = Observer(runner, network, fed)
    observer.begin()
    units = divide_observably(network, folded, {side: observer}, progress)
    judge = ModelJudge(network, folded, units, {side: observer}, progress)
    asked = find_problem_runner(runner)
    found: list[UnitStep] = []
    with contextlib.ExitStack() as opened:
        replayer = asked and UnitReplayer(network, folded, side, observer, asked, progress, opened, alone=True)
        for batch in judge.divide_batches():
            seen = judge.observe(side, batch)
            for shared in batch:
                progress(f"finding the step of {shared.unit.name[:60]}", len(found) / len(judge.shared))
                step = _find_step(network, folded, shared.unit, seen, replayer or None)
                elements = sum(seen[v].size for v in shared.unit.outputs)
                found.append(UnitStep(shared.unit, step.step, elements, step.matched))
    return found


def _find_step(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Mapping[str, np.ndarray],
    replayer: UnitReplayer | None,
) -> FoundStep:
    best: FoundStep | None = None
    if replayer is not None and unit.products:
        with contextlib.suppress(EngineFailure):
            best = replayer.find_step(unit, seen)
    if best is not None and best.matched == 1.0:
        return best
    for manner in list_manners(network.nodes[p] for p in unit.places):
        step = Step(NODES, manner=manner)
        try:
            made = compute_unit(network, folded, unit, {v: seen[v] for v in unit.inputs}, step)
        except SamebitsError:
            break
        matched = measure_same(made, {v: seen[v] for v in unit.outputs})
        if best is None or matched > best.matched:
            best = FoundStep(step, matched)
        if matched == 1.0:
            break
    return best or FoundStep(Step(NODES), 0.0)


def measure_same(made: Mapping[str, np.ndarray], seen: Mapping[str, np.ndarray]) -> float:
    """The share of elements that have the same bits; of all values together."""
    same = 0
    for name, array in seen.items():
        if made[name].shape != array.shape or made[name].dtype != array.dtype:
            continue
        is_float = array.dtype.name in FORMATS
        differs = mark_differing_bits(made[name], array) if is_float else made[name] != array
        same += int(array.size - np.count_nonzero(differs))
    return same / max(1, sum(array.size for array in seen.values()))


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
