"""An engine of a person's own: a class or a function in a Python file, loaded in its worker by the file's path."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

# How `FileEngine` is told what to load, beside the settings of the engine there: `/a/mine.py:MyEngine`.
SOURCE = "source"
_MODULE = "samebits_given_engine"


class FileEngine(Engine):
    """What stands behind `./mine.py:MyEngine` and `./mine.py:function`.

    A class is made without arguments and used as the engines of samebits are; a function `kernel(problem, operands)`
    computes by itself. An error in the file names its line there.
    """

    name: ClassVar[str] = "file"
    settings: ClassVar[dict[str, Setting]] = {}
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        source, own = settings[SOURCE], {k: v for k, v in settings.items() if k != SOURCE}
        given = load_object(source)
        self._source = source
        self._kernel: Callable[..., Any] | None = None
        if isinstance(given, type):
            self._engine = _call_there(source, given)
            declared = getattr(self._engine, "settings", {})
            _check_settings(source, own, declared)
            if hasattr(self._engine, "load"):
                _call_there(source, self._engine.load, own)
        else:
            _check_settings(source, own, {})
            self._engine, self._kernel = None, given

    def report(self) -> InForce:
        if self._engine is not None and hasattr(self._engine, "report"):
            return self._engine.report()
        return InForce("", "CPU", {})

    def explain_unsupported(self, problem: Problem) -> str | None:
        explain = getattr(self._engine, "explain_unsupported", None)
        return explain(problem) if explain is not None else None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        if isinstance(self._engine, Engine):
            return self._engine.prepare(problem, operands)
        return super().prepare(problem, operands)

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        compute = self._kernel or self._engine.run  # type: ignore[union-attr]
        return _call_there(self._source, compute, problem, operands)

    def load_onnx(self, model: bytes, observed: Any) -> None:
        if not isinstance(self._engine, Engine):
            return super().load_onnx(model, observed)
        return self._engine.load_onnx(model, observed)

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Any) -> dict[str, np.ndarray]:
        if not isinstance(self._engine, Engine):
            return super().run_onnx(inputs, wanted)
        return self._engine.run_onnx(inputs, wanted)


def load_object(source: str) -> Any:
    """The class or function that `path.py:name` names; raises ValueError, which says what is missing, or RuntimeError
    with the line where the file raised."""
    file, _, name = source.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{file} is not there")
    sys.path.append(str(path.parent))
    # A name of its own: a file may be called as a library is.
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = loaded
    _call_there(source, spec.loader.exec_module, loaded)
    found = getattr(loaded, name, None)
    if found is None:
        raise ValueError(f"{file} defines no {name}")
    if not callable(found):
        raise ValueError(f"{file}: {name} is neither a class nor a function")
    return found


def _call_there(source: str, call: Callable[..., Any], *given: Any) -> Any:
    try:
        return call(*given)
    except EngineUnsupported:
        raise
    except Exception as error:
        raise RuntimeError(_say_where(source, error)) from error


def _say_where(source: str, error: Exception) -> str:
    """An error with the innermost line of the file that it came through: "mine.py:7: ZeroDivisionError: ..."."""
    path = Path(source.rpartition(":")[0]).resolve()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    name, line = path.name, frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename:
        name, line = Path(error.filename).name, error.lineno
    return f"{name}{f':{line}' if line else ''}: {type(error).__name__}: {error}"


def _check_settings(source: str, given: Mapping[str, str], declared: Mapping[str, Setting]) -> None:
    for key, value in given.items():
        if key not in declared:
            raise ValueError(f"{source} has no setting {key!r}; it has: {', '.join(declared) or 'none'}")
        declared[key].check(key, value)
