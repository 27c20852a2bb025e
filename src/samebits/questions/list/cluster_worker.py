"""What runs on the nodes of a Ray cluster: a worker that asks subjects, and an engine that workers elsewhere use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from samebits.engines.registry.known_engines import list_installed
from samebits.engines.runner import Identity
from samebits.errors import (
    EngineCrashed,
    EngineFailure,
    EngineMissingError,
    EngineOutOfMemory,
    EngineRaised,
    EngineTimedOut,
    EngineUnsupported,
    SamebitsError,
)
from samebits.problems.any_problem import AnyProblem, format_any_problem
from samebits.problems.problem_text import parse_problem_text
from samebits.questions.list.list_reading import Subject, make_plain
from samebits.questions.list.row import Row
from samebits.questions.list.subject_running import Asking, SharedEngine, SubjectRunner

# A value, or the kind of an engine's failure and what it said: failures do not travel as what they are.
Answer = tuple[Any, tuple[str, str] | None]
_FAILURES = {
    one.kind: one for one in (EngineUnsupported, EngineCrashed, EngineTimedOut, EngineOutOfMemory, EngineRaised)
}
_MISSING = "missing"


class EngineHost:
    """An actor that holds one engine for workers of other nodes."""

    def __init__(self, text: str, time_limit_s: float, threads: str | None) -> None:
        _set_threads(threads)
        self._engine = SharedEngine(text, time_limit_s)

    def identify(self) -> Answer:
        """What the engine says of itself."""
        return _answer(self._engine.identify)

    def run(self, problem: str, operands: dict[str, np.ndarray]) -> Answer:
        """The engine's result."""
        return _answer(lambda: self._engine.run(parse_problem_text(problem), operands))


def _answer(ask: Callable[[], Any]) -> Answer:
    try:
        return ask(), None
    except EngineFailure as error:
        return None, (error.kind, str(error))
    except SamebitsError as error:
        return None, (_MISSING, str(error))


def _set_threads(threads: str | None) -> None:
    """Gives engines as many threads as where the list was asked for: a cluster's own number would change their bits."""
    if threads is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    else:
        os.environ["OMP_NUM_THREADS"] = threads


class HostedEngine:
    """An engine that an actor of another node holds. `is_lost` is set once that is gone: later answers are void."""

    def __init__(self, text: str, host: Any) -> None:
        self.text = text
        self.is_lost = False
        self._host = host

    def identify(self) -> Identity:
        """What the engine says of itself. May raise an EngineFailure."""
        return self._call(lambda: self._host.identify.remote())

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result. Raises an EngineFailure where there is none."""
        return self._call(lambda: self._host.run.remote(format_any_problem(problem), dict(operands)))

    def _call(self, ask: Callable[[], Any]) -> Any:
        import ray
        import ray.exceptions

        try:
            value, failure = ray.get(ask())
        except ray.exceptions.RayError as error:
            self.is_lost = True
            raise EngineCrashed(f"its node is lost: {type(error).__name__}") from None
        if failure is not None:
            kind, says = failure
            raise _FAILURES.get(kind, EngineMissingError)(says)
        return value

    def close(self) -> None:
        """Nothing: its actor ends with the list."""


class SubjectWorker:
    """An actor that asks subjects, one at a time, of its node's engines and of hosted ones."""

    def __init__(self, asking: Asking, threads: str | None) -> None:
        _set_threads(threads)
        self._runner = SubjectRunner(asking)

    def list_installed(self) -> list[str]:
        """The engines of this node."""
        return list_installed()

    def ask(self, subject: Subject, files: dict[str, bytes], hosts: dict[str, Any]) -> tuple[bytes | None, list[str]]:
        """The rows as JSON; or None, and the hosted engines that were lost.

        `files` are the subject's own, by name: the first is what its text names; `hosts` actors by an engine's text.
        """
        engines = {text: HostedEngine(text, host) for text, host in hosts.items()}
        with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
            there = put_files(subject, files, Path(folder))
            rows = self._runner.ask(there, engines)
        lost = [text for text, engine in engines.items() if engine.is_lost]
        if lost:
            return None, lost
        return msgspec.json.encode([_name_original(row, there.text, subject.text) for row in rows]), []


def put_files(subject: Subject, files: dict[str, bytes], folder: Path) -> Subject:
    """The subject, with its files in a folder of this node."""
    if not files:
        return subject
    for name, content in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return Subject(subject.name, str(folder / next(iter(files))), subject.kind, subject.trouble)


def _name_original(row: Row, there: str, original: str) -> Row:
    """The row with the original file's name in place of its copy's."""
    if there == original:
        return row
    there, original = make_plain(there), make_plain(original)
    said = {name: text.replace(there, original) for name in ("says", "problem") if (text := getattr(row, name))}
    return msgspec.structs.replace(row, **said)
