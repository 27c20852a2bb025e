"""A network run on every side, and each of its units judged on what it was really fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from samebits.errors import EngineFailure
from samebits.findings import Failure
from samebits.networks.model_conclusion import Asked, Outcome
from samebits.networks.model_judging import ModelJudge
from samebits.networks.network import Network
from samebits.networks.observing import Observer, divide_observably
from samebits.networks.units import fold_constants
from samebits.progress import Progress


def judge_network(
    network: Network,
    inputs: Mapping[str, np.ndarray],
    asked: list[Asked],
    progress: Progress,
    *,
    keeps: bool = False,
    known: Sequence[str] = (),
    calls: int | None = None,
) -> Outcome:
    """Runs all sides and judges all units; a side that fails keeps its failure. Causes are not looked for yet.

    Every side runs the network `calls` times, at least twice, to see whether its bits repeat. `keeps` holds on to
    deviating cases; `known` are sides of which no causes are to be looked for.
    """
    for i, side in enumerate(asked):
        progress(f"running {side.name[:60]}", i / len(asked))
        observer = Observer(side.runner, network, inputs, max(calls or 0, 2))
        try:
            side.identity = side.runner.identify()
            observer.begin()
        except EngineFailure as error:
            # Failure lists the kinds that EngineFailure and its classes declare as plain text.
            side.failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
            continue
        side.observer = observer
    return judge_observed(network, asked, progress, keeps=keeps, known=known)


def judge_observed(
    network: Network, asked: list[Asked], progress: Progress, *, keeps: bool = False, known: Sequence[str] = ()
) -> Outcome:
    """Judges all units of sides that ran, as `judge_network` does."""
    ran = [a for a in asked if a.observer]
    observers = {a.name: a.observer for a in ran if a.observer}
    if not observers:
        return Outcome(network, asked, [])
    folded = fold_constants(network)
    units = divide_observably(network, folded, observers, progress)
    judge = ModelJudge(network, folded, units, observers, progress, keeps, known)
    return Outcome(network, asked, list(judge.judge()), judge)
