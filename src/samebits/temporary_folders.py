"""Folders for as long as something is done: gone afterwards, and where an interrupt ends the program at once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_OPEN: list[str] = []


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """An empty folder; it and what lies in it are removed at the end."""
    name = tempfile.mkdtemp(prefix="samebits-")
    _OPEN.append(name)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
        _OPEN.remove(name)


def remove_folders() -> None:
    """Removes those that are open: the program ends without leaving their blocks."""
    for name in list(_OPEN):
        shutil.rmtree(name, ignore_errors=True)
