"""Opening runners: engines in worker processes; the truth and emulators, which need none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np

from samebits.engines.adapters.given_engine import SOURCE, GivenEngine
from samebits.engines.registry.known_engines import (
    ENGINES,
    ONNX_BACKEND,
    EngineSpec,
    find_plugin,
    is_backend,
    is_file_engine,
)
from samebits.engines.registry.runner_text import TRUTH, parse_runner_text
from samebits.engines.runner import Identity, Kernel, Runner
from samebits.engines.runner.guarded_runner import guard_runner
from samebits.engines.workers.process import DEFAULT_TIME_LIMIT_S, WorkerRunner
from samebits.errors import EngineMissingError, EngineUnsupported, RecipeError, RunnerTextError, SamebitsError
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction
from samebits.sums.recipes import Recipe, format_recipe
from samebits.version import VERSION

_GIVEN = EngineSpec("given", GivenEngine.__module__, GivenEngine.__name__, (), "")
# Workers that were started before anybody opened their runners, by the text.
_started: dict[str, WorkerRunner] = {}


class TruthRunner:
    """The correctly rounded result as a runner."""

    text = TRUTH

    def identify(self) -> Identity:
        return Identity(self.text, "truth", VERSION, "CPU")

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        # Loading what computes takes longer than starting workers, which load beside it.
        if isinstance(problem, Attention):
            from samebits.sums.truth.attention import compute_attention

            return compute_attention(problem, operands).values
        if isinstance(problem, RowFunction):
            from samebits.sums.truth.row_functions import compute_row_function

            return compute_row_function(problem, operands).values
        from samebits.sums.truth import compute_truth

        return compute_truth(problem, operands).values

    def close(self) -> None:
        return


class Emulator:
    """A recipe as a runner; `run` raises EngineUnsupported where the recipe does not fit the problem."""

    def __init__(self, recipe: Recipe, text: str = ""):
        self.recipe = recipe
        self.text = text or f"emulate:{format_recipe(recipe)}"

    def identify(self) -> Identity:
        return Identity(self.text, "emulate", VERSION, "CPU", {"recipe": format_recipe(self.recipe)})

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        if not isinstance(problem, Problem):
            raise EngineUnsupported("recipes are those of sums of products, not of attention or functions of rows")
        from samebits.sums.emulators import emulate

        try:
            return emulate(problem, self.recipe, operands)
        except RecipeError as error:
            raise EngineUnsupported(str(error)) from None

    def close(self) -> None:
        return


def open_runner(text: str, *, time_limit_s: float = DEFAULT_TIME_LIMIT_S) -> Runner:
    """The runner a text names; an engine's process begins to load at once, in the background.

    Raises RunnerTextError for a text that names nothing, EngineMissingError for an engine that is not installed.
    """
    if (started := _started.pop(text, None)) is not None:
        started.set_time_limit(time_limit_s)
        return started
    runner = parse_runner_text(text)
    if runner.recipe:
        return Emulator(runner.recipe, text)
    if runner.name == TRUTH:
        if runner.environment:
            raise RunnerTextError("truth runs in this process and takes no settings")
        return TruthRunner()
    settings = runner.settings
    if is_backend(runner.name):
        spec, settings = ONNX_BACKEND, {**settings, SOURCE: runner.name.partition(":")[2]}
    elif runner.name in ENGINES:
        spec = ENGINES[runner.name]
    else:
        spec, settings = _GIVEN, {**settings, SOURCE: _find_source(runner.name)}
    if runner.place.has_our_packages and spec.distributions and spec.find_version() is None:
        raise EngineMissingError(f"engine {runner.name} is not installed; {spec.install}")
    return WorkerRunner(
        text, runner.name, spec.module, spec.class_name, settings, runner.environment, time_limit_s, runner.place
    )


@contextmanager
def start_early(texts: Sequence[str]) -> Iterator[None]:
    """Starts workers for runners that will be opened inside: frameworks load while the rest of a command is imported.

    Only those of this environment. An engine that is missing is left for its opening to complain about; raises
    RunnerTextError for a text that names none, before anything else takes time.
    """
    places = {text: parse_runner_text(text).place for text in texts}
    try:
        for text, place in places.items():
            with suppress(SamebitsError, OSError):
                if place.is_here and text not in _started and isinstance(runner := open_runner(text), WorkerRunner):
                    _started[text] = runner
        yield
    finally:
        for text in texts:
            if (left := _started.pop(text, None)) is not None:
                left.close()


def enter_runner(runner: str | Runner | Kernel, opened: ExitStack, time_limit_s: float) -> Runner:
    """A caller's runner or function, guarded; or one opened from its text, which is closed when `opened` is."""
    if not isinstance(runner, str):
        return guard_runner(runner)
    return opened.enter_context(closing(open_runner(runner, time_limit_s=time_limit_s)))


def _find_source(name: str) -> str:
    """What a worker loads: of a file by its whole path, which has to be there; of a package by its module."""
    if not is_file_engine(name):
        return find_plugin(name).source
    file, _, found = name.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise EngineMissingError(f"engine {name}: {file} is not there")
    return f"{path}:{found}"
