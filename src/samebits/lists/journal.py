"""What is done so far, beside the table: one line per subject, so that nothing is lost or done twice after an end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from samebits.errors import ArgumentError
from samebits.lists.row import Row

_SUFFIX = ".partial"


class Heading(msgspec.Struct, frozen=True):
    """What a journal is of: it is gone on with for the same subjects, engines and options only."""

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
        if self.path.exists() and not resumes:
            raise ArgumentError(f"{self.path} is there, of a sweep that was not finished: --resume goes on with it")
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise ArgumentError(f"{self.path} could not be written: {error.strerror}") from None
        try:
            # Nothing is read, and nothing cut off, that another sweep may be writing.
            self._lock()
            whole = self._read(heading)
            # What an end cut off in the middle of a line is done again.
            self._file.truncate(whole)
            if not whole:
                self._write(msgspec.json.encode(heading))
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArgumentError(f"{self.path}: another sweep is writing it") from None

    def _read(self, heading: Heading) -> int:
        """Takes over the entries that are whole; the length of the file up to there."""
        whole = 0
        for line, end in _list_lines(self.path):
            try:
                if whole == 0:
                    if msgspec.json.decode(line, type=Heading) != heading:
                        raise ArgumentError(
                            f"{self.path} is of other subjects, engines or options; remove it, or name another -o"
                        )
                else:
                    entry = msgspec.json.decode(line, type=_Entry)
                    self.rows[entry.number] = entry.rows
            except msgspec.MsgspecError:
                if whole == 0:
                    raise ArgumentError(f"{self.path} is no journal of a sweep; remove it") from None
                break
            whole = end
        return whole

    def add(self, number: int, rows: list[Row]) -> None:
        """A subject is done."""
        self.rows[number] = rows
        self._write(msgspec.json.encode(_Entry(number, rows)))

    def _write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file, which stays."""
        self._file.close()

    def remove(self) -> None:
        """The table is there: the journal is not needed."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def _list_lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Every line that ends, and where."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield line[:-1], end
