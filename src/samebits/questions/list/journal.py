"""The journal next to a table: one line per finished subject, so that an interruption loses and repeats nothing.

A line is a checksum (xxh3, 16 hex digits), a space, and JSON. A line whose checksum does not fit was damaged: its
subject is asked again, and the others stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import xxhash

from samebits.errors import ArgumentError, FindingError
from samebits.questions.list.row import COLUMNS, Row

_SUFFIX = ".partial"
ContentT = TypeVar("ContentT")


class Heading(msgspec.Struct, frozen=True):
    """What a journal belongs to: it is continued only for the same subjects, engines and options."""

    journal: str
    subjects: str
    engines: list[str]
    options: dict[str, str]


class _Entry(msgspec.Struct, frozen=True):
    number: int
    rows: list[Row]


class Journal:
    """An open journal. Each entry reaches the disk before the next subject begins."""

    def __init__(self, table: Path, heading: Heading, *, resumes: bool) -> None:
        self.path = table.with_name(table.name + _SUFFIX)
        self.rows: dict[int, list[Row]] = {}
        # Lines that were damaged, by their number in the file.
        self.damaged: list[int] = []
        if self.path.exists() and not self.path.is_file():
            raise ArgumentError(f"{self.path} could not be written: it is no regular file")
        if self.path.exists() and not resumes:
            raise ArgumentError(f"{self.path} is there, of a sweep that was not finished: --resume goes on with it")
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise ArgumentError(f"{self.path} could not be written: {error.strerror}") from None
        try:
            # Locked first: nothing is read or cut off that another sweep may be writing.
            self._lock()
            whole = self._read(heading)
            # A subject whose line an interruption cut off is done again.
            self._file.truncate(whole)
            if not whole:
                self._write(heading)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArgumentError(f"{self.path}: another sweep is writing it") from None

    def _read(self, heading: Heading) -> int:
        """Takes over the entries that are intact; returns the length of the file up to its last whole line."""
        whole = 0
        for number, (line, end) in enumerate(_list_lines(self.path), start=1):
            whole = end
            if number == 1:
                found = _decode(line, Heading)
                if found is None:
                    raise ArgumentError(f"{self.path} is no journal of a sweep, or a damaged one; remove it")
                if found != heading:
                    raise ArgumentError(
                        f"{self.path} is of other subjects, engines or options; remove it, or name another -o"
                    )
                continue
            entry = _decode(line, _Entry)
            if entry is None:
                self.damaged.append(number)
            else:
                self.rows[entry.number] = entry.rows
        return whole

    def add(self, number: int, rows: list[Row]) -> None:
        """A subject is done."""
        self.rows[number] = rows
        self._write(_Entry(number, rows))

    def _write(self, content: Heading | _Entry) -> None:
        encoded = msgspec.json.encode(content)
        self._file.write(_digest(encoded) + b" " + encoded + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file, which stays."""
        self._file.close()

    def remove(self) -> None:
        """The table is there: the journal is not needed."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def _digest(encoded: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(encoded).encode()


def _decode(line: bytes, kind: type[ContentT]) -> ContentT | None:
    """What stands in a line; None where its checksum does not fit, or where it is none of ours."""
    digest, _, encoded = line.partition(b" ")
    if digest != _digest(encoded):
        return None
    try:
        return msgspec.json.decode(encoded, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _list_lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Every line that ends, and where."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield line[:-1], end


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
