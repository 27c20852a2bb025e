"""What one process records: texts, operations, settings; appended to the trace's file in blocks."""

from __future__ import annotations

import atexit
import math
import multiprocessing.util
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import xxhash

from samebits.runs.settings import list_settings
from samebits.runs.trace_file import append_block

_MOST_RECORDS = 2000
_LONGEST_WAIT_S = 1.0
# Which operation a run that is had again is to save, as JSON.
CAPTURE_VARIABLE = "SAMEBITS_CAPTURE"


class Recorder:
    """Collects what a process does and appends it. After a fork the child's recorder begins anew, with another name."""

    def __init__(self, path: str, name: str, started: Mapping[str, Any] | None = None):
        self.path = path
        # The command that the run was started with, and where, from whichever of its processes.
        self.root = list(started["command"]) if started else list(sys.orig_argv)
        self.folder = str(started["folder"]) if started else _find_folder()
        self.name = name
        self.forks = 0
        # What else a child begins anew.
        self.on_fork: Callable[[], None] = lambda: None
        self._begin()
        atexit.register(self.close)
        os.register_at_fork(after_in_parent=self._count_fork, after_in_child=self._begin_child)
        # Processes of multiprocessing leave without atexit, and forget before they begin what was to be done then.
        multiprocessing.util.register_after_fork(self, Recorder._close_at_end)

    def _begin(self) -> None:
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.texts: dict[str, int] = {}
        self.new_texts: list[str] = []
        self.records: list[tuple[Any, ...]] = []
        self.rows: dict[str, list[int]] = {}
        self.states: list[tuple[int, str, bytes]] = []
        self.settings: dict[str, str] | None = None
        self.number = 0
        self.added = 0
        # The first record is appended at once: what ends early, by a signal, has then left something.
        self.flushed = -math.inf
        self.is_closed = False

    def _close_at_end(self) -> None:
        multiprocessing.util.Finalize(None, self.close, exitpriority=0)

    def _count_fork(self) -> None:
        self.forks += 1

    def _begin_child(self) -> None:
        if self.is_closed:
            return
        # The descriptor is shared and appends; what the parent has not appended yet is its own.
        os.close(self.descriptor)
        self.name = f"{self.name}/{self.forks}"
        self.forks = 0
        self._begin()
        self.on_fork()

    def number_text(self, text: str) -> int:
        """The number of a text in this process's table."""
        found = self.texts.get(text)
        if found is None:
            found = self.texts[text] = len(self.texts)
            self.new_texts.append(text)
        return found

    def add(self, record: tuple[Any, ...]) -> None:
        """Adds one record, in the sequence of `Record`'s fields."""
        self.records.append(record)
        self.added += 1
        if len(self.records) >= _MOST_RECORDS or time.monotonic() - self.flushed > _LONGEST_WAIT_S:
            self.flush()

    def note_states(self, step: int) -> None:
        """The fingerprints of the random states of Python and NumPy."""
        states = {"python": repr(random.getstate())}
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            states["numpy"] = repr([part if isinstance(part, (str, int, float)) else part.tobytes()
                                    for part in numpy.get_state(legacy=True)])  # fmt: skip
        self.states += [(step, name, xxhash.xxh3_64_digest(text.encode())) for name, text in states.items()]

    def flush(self, *, is_last: bool = False) -> None:
        """Appends what has come together."""
        self.flushed = time.monotonic()
        settings = list_settings()
        content: dict[str, Any] = {
            "process": self.name, "number": self.number, "texts": self.new_texts, "records": self.records,
            "rows": self.rows, "states": self.states, "is_last": is_last,
        }  # fmt: skip
        if settings != self.settings:
            content["settings"] = self.settings = settings
        if self.number == 0:
            content |= {"command": list(sys.orig_argv), "folder": self.folder, "root": self.root}
        append_block(self.descriptor, content)
        self.number += 1
        self.new_texts, self.records, self.rows, self.states = [], [], {}, []

    def close(self) -> None:
        """Appends the rest; later records are dropped."""
        if not self.is_closed:
            self.is_closed = True
            self.flush(is_last=True)
            os.close(self.descriptor)

    def note_rows(self, found: Mapping[bytes, list[int]]) -> None:
        """The rows of tensors from outside, by their fingerprint."""
        self.rows |= {key.hex(): rows for key, rows in found.items() if rows}


def _find_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # It may be gone.
        return ""
