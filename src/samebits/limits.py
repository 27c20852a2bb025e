"""How much a file may become: counted before anything is expanded, said when it is too much, settable by a variable."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from samebits.errors import ArgumentError, ResourceLimitError


@dataclass(frozen=True)
class Limit:
    """The most of something that a file may come to; `variable` is the environment variable that sets another one."""

    variable: str
    usual: int
    counts: str
    in_bytes: bool = False

    def read(self) -> int:
        """The limit that holds now. Raises ArgumentError where the variable holds no whole number above 0."""
        text = os.environ.get(self.variable)
        if text is None:
            return self.usual
        if not (text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text) > 0):
            raise ArgumentError(f"{self.variable} must be a whole number above 0, not {text[:40]!r}")
        return int(text)

    def check(self, amount: int, of: str) -> None:
        """Raises ResourceLimitError where `of`, a file or a part of it, would come to more than the limit."""
        most = self.read()
        if amount > most:
            raise ResourceLimitError(
                f"{of} would become {self._write(amount)} {self.counts}; the limit is {self._write(most)}"
                f" ({self.variable}=N sets another)"
            )

    def _write(self, amount: int) -> str:
        """The number; of one beyond any that is written out, how long it is."""
        if amount >= 10**18:
            return f"about 10^{len(str(amount)) - 1}"
        return f"{amount / 2**30:,.1f} GiB" if self.in_bytes and amount >= 2**27 else f"{amount:,}"


class Deadline:
    """The time that reading a file may take; asked between its steps."""

    def __init__(self, seconds: float, of: str):
        self._seconds, self._of = seconds, of
        self._end = time.monotonic() + seconds

    def find_left_s(self) -> float:
        """The seconds that are left. Raises ResourceLimitError where there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise ResourceLimitError(f"{self._of}: reading it takes more than {self._seconds:g} s (--time-limit)")
        return left


# The largest published ONNX networks have some ten thousand nodes; a 15-layer transformer has 1,411.
NODES = Limit("SAMEBITS_MOST_NODES", 20_000, "nodes")
# Every value of a network counts once. Judging holds them for each side: 24 GiB of memory hold six times this.
VALUE_BYTES = Limit("SAMEBITS_MOST_VALUE_BYTES", 4 * 2**30, "of values", in_bytes=True)
# One value: computing and judging it takes several copies.
RESULT_BYTES = Limit("SAMEBITS_MOST_RESULT_BYTES", 2**30, "of one value", in_bytes=True)
# Elements that the windows of a pool look at, one by one: seconds.
STEPS = Limit("SAMEBITS_MOST_STEPS", 2**34, "steps")
# A hundred thousand rows are what a table of a list is measured with.
SUBJECTS = Limit("SAMEBITS_MOST_SUBJECTS", 100_000, "subjects")
INCLUDED_FILES = Limit("SAMEBITS_MOST_INCLUDED_FILES", 1_000, "included files")
