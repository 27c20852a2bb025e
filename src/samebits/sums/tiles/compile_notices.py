"""Telling whoever waits that our functions are being compiled, which happens once and takes longer than any answer."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable

_QUIET_S = 1.0
COMPILING = "compiling for this processor, once for each number format (samebits doctor --compile does all of it)"


def _say_on_standard_error(what: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"samebits: {what} ...", file=sys.stderr, flush=True)


class _Notices:
    """Which functions are being compiled now, and who hears of it once that has taken a second."""

    def __init__(self) -> None:
        self.listener: Callable[[str], None] = _say_on_standard_error
        self._compiling: list[str] = []
        self._said = False
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def begin(self, name: str) -> None:
        with self._lock:
            self._compiling.append(name)
            if self._timer is None and not self._said:
                self._timer = threading.Timer(_QUIET_S, self._say)
                self._timer.daemon = True
                self._timer.start()

    def end(self, name: str) -> None:
        with self._lock:
            if name in self._compiling:
                # What was begun later and did not end was given up.
                del self._compiling[self._compiling.index(name) :]
            if not self._compiling and self._timer:
                self._timer.cancel()
                self._timer = None

    def _say(self) -> None:
        with self._lock:
            if not self._compiling or self._said:
                return
            self._said = True
        self.listener(COMPILING)


_notices = _Notices()


def hear_of_compiling(listener: Callable[[str], None] | None) -> None:
    """From now on `listener` is told what is being compiled; without one a line goes to standard error."""
    _notices.listener = listener or _say_on_standard_error


def note_compiling(name: str) -> None:
    """A function of that name is about to be compiled."""
    _notices.begin(name)


def note_compiled(name: str) -> None:
    """It has been compiled."""
    _notices.end(name)
