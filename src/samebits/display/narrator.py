"""What is being done, on standard error, once it has taken a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence

from rich.console import Console
from rich.status import Status
from rich.text import Text

from samebits.display.streams import say
from samebits.display.visible_text import show_controls
from samebits.progress import Announcement
from samebits.sums.tiles.compile_notices import hear_of_compiling

QUIET_S = 1.0
_LINE_EVERY_S = 10.0


class Narrator:
    """Shows the latest report: a line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._what = "starting"
        self._said = ""
        self._said_at = 0.0
        self._lock = threading.Lock()
        self._timer = threading.Timer(QUIET_S, self._begin)
        self._timer.daemon = True
        self._begun = self._ended = False

    def __enter__(self) -> Narrator:
        self._timer.start()
        hear_of_compiling(lambda what: self.hear(what, 0.0))
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        hear_of_compiling(None)
        with self._lock:
            self._begun, self._ended = False, True
            if self._status:
                self._status.stop()

    def hear(self, what: str, share: float) -> None:
        """Something is being done, and this share of it is done."""
        if isinstance(what, Announcement):
            say(what)
            return
        what = show_controls(what)
        with self._lock:
            self._what = f"{what}, {share:.0%}" if 0 < share < 1 else what
            if self._begun:
                self._show()

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

    def _begin(self) -> None:
        with self._lock:
            # The timer may have fired just before it was cancelled.
            if self._ended:
                return
            self._begun = True
            if self._console.is_terminal:
                self._status = self._console.status(Text(self._what))
                self._status.start()
            else:
                self._show()

    def _show(self) -> None:
        if self._status:
            self._status.update(Text(self._what))
            return
        headline = self._what.partition(",")[0]
        now = time.monotonic()
        if headline != self._said or now - self._said_at > _LINE_EVERY_S:
            self._said, self._said_at = headline, now
            say(f"{self._what} ...")
