"""The table as a Parquet file, typed and documented."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from samebits.errors import ArgumentError, FindingError
from samebits.lists.row import COLUMNS, Row

_REAL = ("replayed", "max_abs", "max_ulp", "rel_l2", "max_over_bound")
_WHOLE = ("exact_differing",)


def import_or_refuse(name: str) -> Any:
    """A package that tables need; raises FindingError with the command that brings it."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise FindingError(f"tables need more packages: pip install 'samebits[lists]' ({name} is missing)") from None


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Writes all rows, or nothing: the file is complete when it has its name. The same rows make the same bytes."""
    arrow, parquet = import_or_refuse("pyarrow"), import_or_refuse("pyarrow.parquet")
    kinds = {name: arrow.string() for name in COLUMNS}
    kinds |= {name: arrow.float64() for name in _REAL} | {name: arrow.int64() for name in _WHOLE}
    schema = arrow.schema(
        [arrow.field(name, kinds[name], metadata={"description": says}) for name, says in COLUMNS.items()],
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
        begun.replace(path)
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            begun.unlink(missing_ok=True)
