"""One subject asked of engines that stay open: its rows, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.errors import (
    ArgumentError,
    EngineCrashed,
    EngineFailure,
    EngineTimedOut,
    EngineUnsupported,
    SamebitsError,
)
from samebits.findings.model_schema import ModelComparison
from samebits.networks.model_runners import is_onnx_engine
from samebits.networks.model_subject import list_engines_for
from samebits.problems import Problem
from samebits.problems.case_file import load_case
from samebits.problems.integer_problem import is_integer_problem
from samebits.questions.compare.front_door import compare
from samebits.questions.explain.explaining import explain
from samebits.questions.list.list_reading import Subject, make_plain
from samebits.questions.list.row import UNREADABLE, Row, list_comparison_rows, list_model_rows, make_profile_row
from samebits.questions.profile.profiling import profile

Doing = Literal["compare", "profile", "recipe", "explain"]
DOINGS: tuple[Doing, ...] = ("compare", "profile", "recipe", "explain")
_NONSENSE = "answered nonsense"
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class Asking:
    """What is asked of every subject: on which engines, what, with which seed and limits."""

    engines: tuple[str, ...]
    doing: Doing
    recipes: bool
    seed: int
    time_limit_s: float


class SharedEngine:
    """A runner that many subjects share: comparisons close what they are given, and this stays open."""

    def __init__(self, text: str, time_limit_s: float) -> None:
        self.text = text
        self._time_limit_s = time_limit_s
        self._runner: Runner | None = None

    def _find(self) -> Runner:
        self._runner = self._runner or open_runner(self.text, time_limit_s=self._time_limit_s)
        return self._runner

    def identify(self) -> Identity:
        """What the engine says of itself. May raise an EngineFailure."""
        return self._call(lambda runner: runner.identify())

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result. Raises an EngineFailure where there is none."""
        return self._call(lambda runner: runner.run(problem, operands))

    def _call(self, ask: Callable[[Runner], AnswerT]) -> AnswerT:
        try:
            return ask(self._find())
        except EngineFailure as error:
            # The process is gone, or speaks nonsense: the next subject has one of its own.
            if isinstance(error, (EngineCrashed, EngineTimedOut)) or _NONSENSE in str(error):
                self.end()
            raise

    def close(self) -> None:
        """Nothing: it stays open."""

    def end(self) -> None:
        """Closes the engine; the next call opens it again."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None


class SubjectRunner:
    """Asks subjects, one after the other, of engines that stay open."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._own = {text: SharedEngine(text, asking.time_limit_s) for text in asking.engines}

    def close(self) -> None:
        """Closes the engines that were opened here."""
        for own in self._own.values():
            own.end()

    def ask(self, subject: Subject, elsewhere: Mapping[str, Runner] | None = None) -> list[Row]:
        """The rows of one subject; at least one, whatever happens. `elsewhere`: engines that others hold, by text."""
        try:
            open_now = {**self._own, **(elsewhere or {})}
            return list(self._ask(subject, [open_now[text] for text in self._asking.engines]))
        except SamebitsError as error:
            text = make_plain(subject.text) or None
            return [Row(subject=subject.name, problem=text, failure=UNREADABLE, says=make_plain(str(error)))]

    def _ask(self, subject: Subject, engines: Sequence[Runner]) -> Iterator[Row]:
        asking = self._asking
        if subject.trouble:
            yield Row(subject=subject.name, failure=UNREADABLE, says=subject.trouble)
        elif is_integer_problem(subject.text):
            yield from self._ask_integers(subject)
        elif subject.kind == "network":
            takes = list_engines_for(subject.text)
            chosen = [text for text in asking.engines if parse_runner_text(text).name in takes]
            if asking.doing != "compare" or not chosen:
                raise ArgumentError("a network is compared, on engines that run networks")
            found: Any = compare(subject.text, chosen, seed=asking.seed, time_limit_s=asking.time_limit_s)
            yield from list_model_rows(subject.name, found)
        elif asking.doing in ("profile", "recipe"):
            for engine in engines:
                found = profile(engine, subject.text, recipe_only=asking.doing == "recipe")
                yield make_profile_row(subject.name, found)
        elif asking.doing == "explain":
            if subject.kind != "case":
                raise ArgumentError("only recorded results (.npz) can be explained")
            yield from list_comparison_rows(subject.name, explain(subject.text))
        else:
            given = load_case(subject.text) if subject.kind == "case" else subject.text
            found = compare(given, engines, seed=asking.seed, attributes=asking.recipes)
            yield from list_comparison_rows(subject.name, found)

    def _ask_integers(self, subject: Subject) -> Iterator[Row]:
        """A problem on integers, which engines of ONNX or of codes compute as one operator; others do not take it."""
        asking = self._asking
        takes = [text for text in asking.engines if is_onnx_engine(text, codes=True)]
        for text in asking.engines:
            if text not in takes:
                kind, says = EngineUnsupported.kind, "takes no problems on integers"
                yield Row(subject=subject.name, problem=subject.text, side=text, failure=kind, says=says)
        if asking.doing == "explain":
            raise ArgumentError("only recorded results (.npz) can be explained")
        if asking.doing != "compare":
            for text in takes:
                yield make_profile_row(subject.name, profile(text, subject.text, time_limit_s=asking.time_limit_s))
        elif takes:
            found = compare(subject.text, takes, seed=asking.seed, time_limit_s=asking.time_limit_s)
            assert isinstance(found, ModelComparison)
            yield from list_model_rows(subject.name, found)
