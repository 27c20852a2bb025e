"""A class or function of somebody else's code: of a file by its path, of an installed package by its module's name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.errors import EngineUnsupported

# A name of its own: a file may be called as a library is.
_MODULE = "samebits_given_file"
_FILE = ".py"


def find_file(source: str) -> tuple[Path, str]:
    """The file and the name of `path.py:name`; raises ValueError where there is no such file."""
    file, _, name = source.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{file} is not there")
    return path, name


def load_object(source: str) -> Any:
    """The class or function that `path.py:name` or `package.module:name` names.

    Raises ValueError, which says what is missing, or RuntimeError with the line where the code raised.
    """
    where, _, name = source.rpartition(":")
    if where.endswith(_FILE):
        where, loaded = Path(where).name, _load_file(source)
    else:
        loaded = call_there(source, importlib.import_module, where)
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ValueError(f"{where} defines no {name}")
    if not callable(found):
        raise ValueError(f"{where}: {name} is neither a class nor a function")
    return found


def _load_file(source: str) -> ModuleType:
    path, _ = find_file(source)
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = loaded
    call_there(source, spec.loader.exec_module, loaded)
    return loaded


def call_there(source: str, call: Callable[..., Any], *given: Any) -> Any:
    """Calls into the code and returns its result; an error raised there becomes a RuntimeError that names its line.

    NotImplementedError says that the code does not take what it was given: EngineUnsupported.
    """
    try:
        return call(*given)
    except EngineUnsupported:
        raise
    except NotImplementedError as error:
        raise EngineUnsupported(str(error) or "it says that it does not take this problem") from error
    except Exception as error:
        raise RuntimeError(_say_where(source, error)) from error


def _say_where(source: str, error: Exception) -> str:
    """An error with the innermost line of the code that it came through: "mine.py:7: ZeroDivisionError: ..."."""
    where = source.rpartition(":")[0]
    path = Path(where).resolve() if where.endswith(_FILE) else _find_module(where)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    name, line = path.name if path else where, frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename:
        name, line = Path(error.filename).name, error.lineno
    return f"{name}{f':{line}' if line else ''}: {type(error).__name__}: {error}"


def _find_module(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None
