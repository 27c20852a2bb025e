"""Deviations that are known, with reasons: which rows they are."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from samebits.errors import ArgumentError
from samebits.questions.list.row import Row
from samebits.regular_files import open_regular


class KnownDeviation(msgspec.Struct, frozen=True):
    """Which engine (a shell pattern) gives which verdict on which subjects (patterns), why, and where that is said."""

    engine: str
    problems: list[str]
    verdict: str
    reason: str
    link: str

    def fits(self, side: str, subject: str, verdict: str | None) -> bool:
        """Whether this verdict (or failure) of a side on a subject is this deviation."""
        return (
            verdict == self.verdict
            and fnmatch.fnmatch(side, self.engine)
            and any(fnmatch.fnmatch(subject, pattern) for pattern in self.problems)
        )


class _File(msgspec.Struct):
    deviation: list[KnownDeviation] = []


def load_known(path: str | Path) -> list[KnownDeviation]:
    """The entries of a TOML file (`[[deviation]]`); raises ArgumentError in one line for what is none."""
    try:
        with open_regular(path) as file:
            return msgspec.convert(tomllib.load(file), _File).deviation
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ArgumentError(f"{path}: no file of known deviations: {error}") from None


def find_known(row: Row, known: Sequence[KnownDeviation]) -> KnownDeviation | None:
    """The deviation that a row is; the first where several fit."""
    side, outcome = row.side, row.verdict or row.failure
    if side is None:
        return None
    return next((one for one in known if one.fits(side, row.subject, outcome)), None)


def mark_known(row: Row, known: Sequence[KnownDeviation]) -> Row:
    """The row, with the link of the deviation that it is."""
    match = find_known(row, known)
    return msgspec.structs.replace(row, known=match.link) if match else row
