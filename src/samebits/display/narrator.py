"""What is being done, on standard error, once it has taken a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from rich.console import Console
from rich.status import Status
from rich.text import Text

from samebits.display.streams import say
from samebits.display.visible_text import show_controls
from samebits.progress import Announcement, FirstVerdict
from samebits.sums.tiles.compile_notices import hear_of_compiling

QUIET_S = 1.0
LINE_EVERY_S = 10.0


class Narrator:
    """Shows the latest report: on a terminal in a line that is rewritten, elsewhere in one every ten seconds."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._what = "starting"
        self._said = ""
        # A verdict that is to be shown once a second has gone by, and whether it has.
        self._first: FirstVerdict | None = None
        self._is_long = False
        self._lock = threading.Lock()
        self._ended = False
        self._timer = self._make_timer(QUIET_S)

    def _make_timer(self, after_s: float) -> threading.Timer:
        timer = threading.Timer(after_s, self._begin)
        timer.daemon = True
        return timer

    def __enter__(self) -> Narrator:
        self._timer.start()
        hear_of_compiling(lambda what: self.hear(what, 0.0))
        return self

    def __exit__(self, *_: object) -> None:
        hear_of_compiling(None)
        with self._lock:
            self._timer.cancel()
            self._ended = True
            if self._status:
                self._status.stop()

    def hear(self, what: str, share: float) -> None:
        """Something is being done, and this share of it is done."""
        if isinstance(what, FirstVerdict):
            with self._lock:
                self._first = what
                if self._is_long:
                    self._say_first()
            return
        if isinstance(what, Announcement):
            say(what)
            return
        what = show_controls(what)
        with self._lock:
            self._what = f"{what}, {share:.0%}" if 0 < share < 1 else what
            if self._status:
                self._status.update(Text(self._what))

    def ask_to_run(self, commands: Sequence[str]) -> bool:
        """Asks on a terminal whether these commands, announced before, may be run; elsewhere nobody answers: no."""
        if not (sys.stdin is not None and sys.stdin.isatty() and self._console.is_terminal):
            return False
        with self._lock:
            if self._status:
                self._status.stop()
        say("run both? [y/N]")
        answer = sys.stdin.readline().strip().lower()
        with self._lock:
            if self._status:
                self._status.start()
        return answer in ("y", "yes")

    def _say_first(self) -> None:
        if self._first is not None:
            say(self._first)
            self._first = None

    def _begin(self) -> None:
        with self._lock:
            # The timer may have fired just before it was cancelled.
            if self._ended:
                return
            self._is_long = True
            self._say_first()
            if self._console.is_terminal:
                self._status = self._console.status(Text(self._what))
                self._status.start()
                return
            if self._what != self._said:
                self._said = self._what
                say(f"{self._what} ...")
            self._timer = self._make_timer(LINE_EVERY_S)
            self._timer.start()
