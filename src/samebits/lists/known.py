"""Deviations that are known, with reasons: which rows they are."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import msgspec

from samebits.errors import ArgumentError
from samebits.lists.row import Row


class KnownDeviation(msgspec.Struct, frozen=True):
    """Which engine (a shell pattern) gives which verdict on which subjects (patterns), why, and where that is said."""

    engine: str
    problems: list[str]
    verdict: str
    reason: str
    link: str

    def fits(self, row: Row) -> bool:
        """Whether a row is this deviation."""
        return (
            row.side is not None
            and (row.verdict or row.failure) == self.verdict
            and fnmatch.fnmatch(row.side, self.engine)
            and any(fnmatch.fnmatch(row.subject, pattern) for pattern in self.problems)
        )


class _File(msgspec.Struct):
    deviation: list[KnownDeviation] = []


def load_known(path: str | Path) -> list[KnownDeviation]:
    """The entries of a TOML file (`[[deviation]]`); raises ArgumentError in one line for what is none."""
    try:
        with Path(path).open("rb") as file:
            return msgspec.convert(tomllib.load(file), _File).deviation
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ArgumentError(f"{path}: no file of known deviations: {error}") from None


def mark_known(row: Row, known: list[KnownDeviation]) -> Row:
    """The row, with the link of the deviation that it is."""
    match = next((one for one in known if one.fits(row)), None)
    return msgspec.structs.replace(row, known=match.link) if match else row
