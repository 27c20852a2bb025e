"""Opening runners: engines in worker processes; the truth and emulators, which need none."""

from __future__ import annotations

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.own_runners import Emulator, TruthRunner
from samebits.engines.registry.runner_text import TRUTH, parse_runner_text
from samebits.engines.runner import Runner
from samebits.engines.workers.process import DEFAULT_TIME_LIMIT_S, WorkerRunner
from samebits.errors import EngineMissingError, RunnerTextError


def open_runner(text: str, *, time_limit_s: float = DEFAULT_TIME_LIMIT_S) -> Runner:
    """The runner a text names; an engine's process begins to load at once, in the background.

    Raises RunnerTextError for a text that names nothing, EngineMissingError for an engine that is not installed.
    """
    runner = parse_runner_text(text)
    if runner.recipe:
        return Emulator(runner.recipe, text)
    if runner.name == TRUTH:
        if runner.environment:
            raise RunnerTextError("truth runs in this process and takes no settings")
        return TruthRunner()
    spec = ENGINES[runner.name]
    if runner.place.is_here and spec.find_version() is None:
        raise EngineMissingError(f"engine {spec.name} is not installed; {spec.install}")
    return WorkerRunner(
        text,
        spec.name,
        spec.module,
        spec.class_name,
        runner.settings,
        runner.environment,
        time_limit_s,
        runner.place,
    )
