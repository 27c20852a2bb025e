"""A network as steps that need no engine: found by watching the engine, then executed where it is absent."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineFailure, ModelError, SamebitsError
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
from samebits.numbers.format import FORMATS
from samebits.progress import Progress

# Sets of random values on which manners are compared.
_DRAWS = 8


@dataclass(frozen=True)
class UnitStep:
    """A unit, how it is computed, and of its outputs how many there are and the share that were the engine's bits.

    `alternatives` are other manners that gave as many, and give other bits on other values: which it is, is open.
    """

    unit: Unit
    step: Step
    elements: int
    matched: float
    alternatives: int = 0


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
                step, others = _find_step(network, folded, shared.unit, seen, replayer)
                elements = sum(values[v].size for v in shared.unit.outputs for values in seen)
                found.append(UnitStep(shared.unit, step.step, elements, step.matched, others))
    return found


def _find_step(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    seen: Sequence[Mapping[str, np.ndarray]],
    replayer: UnitReplayer | None,
) -> tuple[FoundStep, int]:
    """What gives most of a unit's outputs, and how many other manners give as many of them but not of others."""
    best: FoundStep | None = None
    if replayer is not None and unit.products:
        with contextlib.suppress(EngineFailure):
            best = replayer.find_step(unit, seen[0], seen[1:])
    if best is not None and best.matched == 1.0:
        return best, 0
    for text, _ in compute_codes(network, folded, unit, seen[0]):
        own = _try(network, folded, unit, Step(CODES, rescales=text), seen)
        if own.matched == 1.0:
            return own, 0
        best = _choose(best, own)
    whole: list[Step] = []
    for manner in list_manners(network.nodes[p] for p in unit.places):
        own = _try(network, folded, unit, Step(NODES, manner=manner), seen)
        best = _choose(best, own)
        if own.matched == 1.0:
            whole.append(own.step)
    return best or FoundStep(Step(NODES), 0.0), _count_others(network, folded, unit, seen[0], whole)


def _try(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    step: Step,
    seen: Sequence[Mapping[str, np.ndarray]],
) -> FoundStep:
    """A step with the least share of outputs that it gives of any set; the sets behind one that it misses are left."""
    matched = 1.0
    for values in seen:
        matched = min(matched, measure_step(network, folded, unit, step, values))
        if matched < 1.0:
            break
    return FoundStep(step, matched)


def _choose(best: FoundStep | None, own: FoundStep) -> FoundStep:
    return own if best is None or own.matched > best.matched else best


def _count_others(
    network: Network, folded: Mapping[str, np.ndarray], unit: Unit, seen: Mapping[str, np.ndarray], steps: list[Step]
) -> int:
    """How many of these steps but the first give other bits than it on random values in place of what was fed."""
    if len(steps) < 2:
        return 0
    first, *others = steps
    rng = np.random.default_rng(0)
    differing: set[int] = set()
    for _ in range(_DRAWS):
        fed = {v: _draw_like(rng, seen[v]) for v in unit.inputs}
        try:
            made = compute_unit(network, folded, unit, fed, first)
        except SamebitsError:
            return len(others)
        differing |= {i for i, o in enumerate(others) if measure_step(network, folded, unit, o, {**fed, **made}) < 1.0}
    return len(differing)


def _draw_like(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Floats of the same size, in another sequence and none as it was; all else as it is."""
    if array.dtype.name not in FORMATS or not array.size:
        return array
    size = float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) or 1.0
    return (rng.standard_normal(array.shape) * min(size, 10.0)).astype(array.dtype)


def run_steps(
    network: Network, fed: Mapping[str, np.ndarray], steps: Sequence[tuple[Unit, Step]], progress: Progress
) -> dict[str, np.ndarray]:
    """The network's outputs by steps, each fed what those before it made.

    Values are kept as long as a later step reads them. Raises SamebitsError where a step cannot be computed.
    """
    folded = fold_constants(network)
    known = {*fed, *folded}
    for unit, _ in steps:
        if missing := [v for v in unit.inputs if v not in known]:
            raise ModelError(f"no step before {unit.name[:60]} makes {missing[0][:60]!r}, which it reads")
        known.update(unit.outputs)
    if missing := [v for v in network.outputs if v not in known]:
        raise ModelError(f"no step makes the output {missing[0][:60]!r}")
    last = {v: i for i, (unit, _) in enumerate(steps) for v in unit.inputs}
    values = dict(fed)
    for i, (unit, step) in enumerate(steps):
        progress(f"computing {unit.name[:60]}", i / len(steps))
        values |= compute_unit(network, folded, unit, {v: values[v] for v in unit.inputs}, step)
        for value in [v for v in values if last.get(v, len(steps)) <= i and v not in network.outputs]:
            del values[value]
    return {v: values[v] if v in values else folded[v] for v in network.outputs}


def digest_nodes(network: Network) -> str:
    """The SHA-256 of all nodes: of a network without control flow, that of the branches and rounds that were taken."""
    digest = hashlib.sha256()
    for node in network.nodes:
        text = node.stored.SerializeToString(deterministic=True)
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def settle(network: Network, fed: Mapping[str, np.ndarray]) -> Network:
    """The network without control flow, as these inputs decide it."""
    return settle_control_flow(network, fed, make_network)
