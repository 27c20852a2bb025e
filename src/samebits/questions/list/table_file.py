"""The table as a Parquet file, typed and documented."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from samebits.errors import ArgumentError, FindingError
from samebits.questions.list.row import COLUMNS, Row

_REAL = ("replayed", "max_abs", "max_ulp", "rel_l2", "max_over_bound")
_WHOLE = ("exact_differing", "calls")


def import_or_refuse(name: str) -> Any:
    """A package that tables need; raises FindingError with the command that brings it."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise FindingError(f"tables need more packages: pip install 'samebits[lists]' ({name} is missing)") from None


def name_type(column: str) -> str:
    """A column's type, as Arrow names it."""
    return "double" if column in _REAL else "int64" if column in _WHOLE else "string"


def refuse_bad_target(path: Path, files: Sequence[Path], lists: str | Sequence[str]) -> None:
    """Raises ArgumentError for a table that could not be written, read again, or that is what is asked about."""
    if path.suffix != ".parquet":
        raise ArgumentError(f"{path}: a table's name ends in .parquet")
    if path.is_dir() or not path.parent.is_dir():
        raise ArgumentError(f"{path} could not be written: {'a folder' if path.is_dir() else 'no such folder'}")
    asked = [*files, *(Path(text) for text in ([lists] if isinstance(lists, str) else lists))]
    if any(one.exists() and path.exists() and one.samefile(path) for one in asked):
        raise ArgumentError(f"{path} is asked about, and would be replaced")


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Writes all rows, or nothing: the file is complete when it has its name. The same rows make the same bytes."""
    arrow, parquet = import_or_refuse("pyarrow"), import_or_refuse("pyarrow.parquet")
    kinds = {
        name: {"double": arrow.float64, "int64": arrow.int64}.get(name_type(name), arrow.string) for name in COLUMNS
    }
    schema = arrow.schema(
        [arrow.field(name, kinds[name](), metadata={"description": says}) for name, says in COLUMNS.items()],
        metadata={"schema": "samebits.rows/1"},
    )
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, values in columns.items():
            values.append(getattr(row, name))
    table = arrow.table(columns, schema=schema)
    begun = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        parquet.write_table(table, begun, compression="zstd")
        with begun.open("rb") as file:
            os.fsync(file.fileno())
        begun.replace(path)
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            begun.unlink(missing_ok=True)
