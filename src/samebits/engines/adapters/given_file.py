"""A class or function that a person's own file defines, loaded by the file's path in the process that is to run it."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.errors import EngineUnsupported

# A name of its own: a file may be called as a library is.
_MODULE = "samebits_given_file"


def find_file(source: str) -> tuple[Path, str]:
    """The file and the name of `path.py:name`; raises ValueError where there is no such file."""
    file, _, name = source.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{file} is not there")
    return path, name


def load_object(source: str) -> Any:
    """The class or function that `path.py:name` names; raises ValueError, which says what is missing, or RuntimeError
    with the line where the file raised."""
    path, name = find_file(source)
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = loaded
    call_there(source, spec.loader.exec_module, loaded)
    found = getattr(loaded, name, None)
    if found is None:
        raise ValueError(f"{path.name} defines no {name}")
    if not callable(found):
        raise ValueError(f"{path.name}: {name} is neither a class nor a function")
    return found


def call_there(source: str, call: Callable[..., Any], *given: Any) -> Any:
    """What a call into the file returns; an error of its own becomes a RuntimeError that names the line there."""
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
