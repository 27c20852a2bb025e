"""What one process records: texts, operations, settings; appended to the trace's file in blocks.

Runs in the script's own process and must never harm it: whatever goes wrong in recording ends the recording of this
process, not the script, and is reported once, to the process that started the recording.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing.util
import os
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import xxhash

from samebits.questions.runs.settings import list_settings
from samebits.questions.runs.telling import tell
from samebits.questions.runs.trace_file import append_block, write_word

_MOST_RECORDS = 2000
_LONGEST_WAIT_S = 1.0
# Names the operation that a repeated run is to save, as JSON.
CAPTURE_VARIABLE = "SAMEBITS_CAPTURE"
# Files whose lines are not the script's: the standard library, and installed packages.
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FOREIGN = (sysconfig.get_path("stdlib"), "site-packages", "dist-packages", _OWN, "<frozen")
ResultT = TypeVar("ResultT")


class Recorder:
    """Collects what a process does and appends it. After a fork the child starts its own recorder."""

    def __init__(self, path: str, name: str, started: Mapping[str, Any] | None = None):
        self.path = path
        # The command that the run was started with, and where, from whichever of its processes.
        self.root = list(started["command"]) if started else list(sys.orig_argv)
        self.folder = str(started["folder"]) if started else _find_folder()
        self.name = make_plain(name)
        self.forks = 0
        # Why recording ended before the process did.
        self.trouble: str | None = None
        # What else a child starts again.
        self.on_fork: Callable[[], None] = lambda: None
        # Until its file is open there is nothing to record into.
        self.is_closed = True
        self._begin()
        atexit.register(self.close)
        os.register_at_fork(after_in_parent=self._count_fork, after_in_child=self._begin_child)
        # Processes of multiprocessing leave without atexit, and forget before they begin what was to be done then.
        multiprocessing.util.register_after_fork(self, Recorder._close_at_end)

    def _begin(self) -> None:
        self._open()
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

    def _open(self) -> None:
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.identity = _identify_file(self.descriptor)

    def _has_its_file(self) -> bool:
        """Whether the descriptor is still ours: a script may close all descriptors, and then open files of its own."""
        with contextlib.suppress(OSError):
            return _identify_file(self.descriptor) == self.identity
        return False

    def _close_descriptor(self) -> None:
        if self._has_its_file():
            os.close(self.descriptor)

    def _close_at_end(self) -> None:
        multiprocessing.util.Finalize(None, self.close, exitpriority=0)

    def _count_fork(self) -> None:
        self.forks += 1

    def _begin_child(self) -> None:
        if self.is_closed:
            return
        # The descriptor is shared and appends; what the parent has not appended yet is its own.
        with contextlib.suppress(OSError):
            self._close_descriptor()
        self.descriptor = -1
        self.name = f"{self.name}/{self.forks}"
        self.forks = 0
        self.attempt(self._begin_again)

    def _begin_again(self) -> None:
        self._begin()
        self.on_fork()

    def attempt(self, note: Callable[..., ResultT], *given: Any) -> ResultT | None:
        """Records something; where that fails the recording of this process ends, and the script goes on.

        What a signal's handler of the script raises meanwhile is the script's own, and passes through.
        """
        if self.is_closed:
            return None
        try:
            return note(*given)
        except Exception as error:
            if is_raised_by_script(error):
                raise
            self._give_up(error)
            return None

    def _give_up(self, error: Exception) -> None:
        self.is_closed = True
        says = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        self.trouble = f"{self.name}: recording ended after {self.added:,} operations ({says[:200]}); the run went on"
        tell(self.trouble)
        with contextlib.suppress(OSError):
            self._close_descriptor()

    def number_text(self, text: str) -> int:
        """The number of a text in this process's table."""
        found = self.texts.get(text)
        if found is None:
            found = self.texts[text] = len(self.texts)
            self.new_texts.append(make_plain(text))
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
        settings = {name: make_plain(value) for name, value in list_settings().items()}
        content: dict[str, Any] = {
            "process": self.name, "number": self.number, "texts": self.new_texts, "records": self.records,
            "rows": self.rows, "states": self.states, "is_last": is_last,
        }  # fmt: skip
        if settings != self.settings:
            content["settings"] = self.settings = settings
        if self.number == 0:
            content |= {
                "command": [write_word(word) for word in sys.orig_argv],
                "folder": write_word(self.folder),
                "root": [write_word(word) for word in self.root],
            }
        if not self._has_its_file():
            self._open()
        append_block(self.descriptor, content)
        self.number += 1
        self.new_texts, self.records, self.rows, self.states = [], [], {}, []

    def close(self) -> None:
        """Appends the rest; later records are dropped."""
        if not self.is_closed:
            self.attempt(self._append_rest)

    def _append_rest(self) -> None:
        self.flush(is_last=True)
        self.is_closed = True
        self._close_descriptor()

    def note_rows(self, found: Mapping[bytes, list[int]]) -> None:
        """The rows of tensors from outside, by their fingerprint."""
        self.rows |= {key.hex(): rows for key, rows in found.items() if rows}


def _identify_file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def make_plain(text: str) -> str:
    """A text that UTF-8 can hold: file names and variables may have bytes that are none."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def is_raised_by_script(error: BaseException) -> bool:
    """Whether an exception comes out of the script's own code, as from the handler of a signal."""
    found = error.__traceback__
    while found is not None:
        if name_file(found.tb_frame.f_code.co_filename) is not None:
            return True
        found = found.tb_next
    return False


def name_file(path: str) -> str | None:
    """The recorded name of a file; None for a file that is not the script's own."""
    if any(part in path for part in _FOREIGN):
        return None
    return path.rpartition("/")[2]


def _find_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # It may be gone.
        return ""
