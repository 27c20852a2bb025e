"""An engine of somebody else's: a class or a function of a file or a package, loaded in its worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.engines.adapters.given_code import call_there, load_object
from samebits.problems import Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

# The key that tells `GivenEngine` what to load, passed with the engine's own settings. No text can name it.
SOURCE = "=source"


class GivenEngine(Engine):
    """What stands behind `./mine.py:MyEngine`, `./mine.py:function` and the engines that packages bring.

    A class is made without arguments and used as the engines of samebits are; a function `kernel(problem, operands)`
    computes by itself. An error in their code names its line there.
    """

    name: ClassVar[str] = "given"
    computes_attention = True
    computes_functions = True
    settings: ClassVar[dict[str, Setting]] = {}
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        self._source, own = settings[SOURCE], {k: v for k, v in settings.items() if k != SOURCE}
        given = load_object(self._source)
        # What the class made; of a function, nothing.
        self._engine: Any = self._call(given) if isinstance(given, type) else None
        compute = getattr(self._engine, "run", None) if isinstance(given, type) else given
        if not callable(compute):
            raise ValueError(f"{self._source}: a class that computes has a method run(problem, operands)")
        self._compute: Callable[..., Any] = compute
        _check_settings(self._source, own, getattr(self._engine, "settings", {}))
        load = getattr(self._engine, "load", None)
        if load is not None:
            self._call(load, own)

    def report(self) -> InForce:
        report = getattr(self._engine, "report", None)
        return self._call(report) if report is not None else InForce("", "CPU", {})

    def explain_unsupported(self, problem: Problem) -> str | None:
        explain = getattr(self._engine, "explain_unsupported", None)
        return self._call(explain, problem) if explain is not None else None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        if not isinstance(self._engine, Engine):
            return super().prepare(problem, operands)
        prepared = self._call(self._engine.prepare, problem, operands)
        return Prepared(lambda: self._call(prepared.call), lambda found: self._call(prepared.read, found))

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        try:
            made = self._call(self._compute, problem, operands)
        except RuntimeError as error:
            if self._engine is None:
                raise RuntimeError(f"{error} (a function is called as kernel(problem, operands))") from error
            raise
        if np.asarray(made).dtype == object:
            raise TypeError(f"{self._source} returned {type(made).__name__} where an array is needed")
        return made

    def explain_no_attention(self, problem: Attention) -> str | None:
        if self._engine is None:
            return None
        if getattr(self._engine, "attend", None) is None:
            return "a class that computes attention has a method attend(problem, operands)"
        explain = getattr(self._engine, "explain_no_attention", None)
        return self._call(explain, problem) if explain is not None else None

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        compute = self._compute if self._engine is None else self._engine.attend
        return self._call(compute, problem, operands)

    def explain_no_function(self, problem: RowFunction) -> str | None:
        if self._engine is None:
            return None
        if getattr(self._engine, "map_rows", None) is None:
            return f"a class that computes a {problem.kind} has a method map_rows(problem, operands)"
        explain = getattr(self._engine, "explain_no_function", None)
        return self._call(explain, problem) if explain is not None else None

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        compute = self._compute if self._engine is None else self._engine.map_rows
        return self._call(compute, problem, operands)

    def _call(self, call: Callable[..., Any], *given: Any) -> Any:
        return call_there(self._source, call, *given)


def _check_settings(source: str, given: Mapping[str, str], declared: Mapping[str, Setting]) -> None:
    for key, value in given.items():
        if key not in declared:
            raise ValueError(f"{source} has no setting {key!r}; it has: {', '.join(declared) or 'none'}")
        declared[key].check(key, value)
