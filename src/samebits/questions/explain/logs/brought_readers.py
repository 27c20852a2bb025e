"""Readers of logs that installed packages bring, by the entry-point group `samebits.logs`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import cast

from samebits.errors import LogError, LogReaderWarning
from samebits.questions.explain.logs.entry import Mismatch

GROUP = "samebits.logs"
Reader = Callable[[list[str]], Iterable[Mismatch]]


@functools.cache
def list_log_readers() -> tuple[metadata.EntryPoint, ...]:
    """The entry points of all readers, by name and package; none of them is imported."""
    found = set(metadata.entry_points(group=GROUP))
    return tuple(sorted(found, key=lambda point: (point.name, name_distribution(point), point.value)))


def name_distribution(point: metadata.EntryPoint) -> str:
    """The package that brings an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "?"


def load_reader(point: metadata.EntryPoint) -> Reader:
    """The reader; raises LogError, in one line, where it cannot be imported or is nothing that can be called."""
    try:
        reader = point.load()
    except Exception as error:
        raise LogError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from None
    if not callable(reader):
        raise LogError(f"{point.value} is no function of a log's lines")
    return cast("Reader", reader)


def read_brought(lines: list[str]) -> list[Mismatch]:
    """The mismatches that readers of other packages find; one that fails is a warning, and the others go on."""
    found: list[Mismatch] = []
    for point in list_log_readers():
        try:
            found += _check(load_reader(point)(list(lines)), len(lines))
        except Exception as error:
            says = str(error) if isinstance(error, LogError) else f"{type(error).__name__}: {error}"
            who = f"the log reader {point.name} of {name_distribution(point)}"
            warnings.warn(f"{who} failed: {' '.join(says.split())[:300]}", LogReaderWarning, stacklevel=2)
    return found


def _check(given: Iterable[Mismatch], count: int) -> list[Mismatch]:
    """What a reader gave, if it is mismatches of these lines; raises LogError otherwise."""
    found = list(given)
    for one in found:
        if not isinstance(one, Mismatch):
            raise LogError(f"it gave a {type(one).__name__}, where samebits.log.Mismatch is asked for")
        if not 1 <= one.line <= max(count, 1):
            raise LogError(f"it names line {one.line} of {count}")
    return found
