"""Standard output and error as they are found: closed, full, or read by nobody any more."""

from __future__ import annotations

import io
import os
import sys
import warnings
from pathlib import Path
from typing import TextIO

from samebits.errors import CodeNotKeptWarning, LogReaderWarning

_LONGEST_LINE = 2000


def prepare_streams() -> bool:
    """Makes both streams take any text; whether there is a standard output. A closed standard error loses its lines."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for as long as the program runs)
    for stream in (sys.stdout, sys.stderr):
        # What a terminal cannot show must not end the answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    return sys.stdout is not None


def say(text: str) -> None:
    """One line on standard error; where it cannot be written it is lost, and so is all that follows."""
    from samebits.display.visible_text import show_controls

    line = f"samebits: {' '.join(show_controls(text).split())[:_LONGEST_LINE]}\n"
    try:
        # With its end in one write: an unbuffered stream writes both at once, and an interrupt comes before or after.
        print(line, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Sends a stream to nowhere, with what the interpreter would still flush to it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One line for a person; of a library's warning, which may go on for pages, the first."""
    if issubclass(category, (CodeNotKeptWarning, LogReaderWarning)):
        say(str(message))
    else:
        first = next((line for line in str(message).splitlines() if line.strip()), "")
        say(f"{category.__name__} of {Path(filename).name}: {first}")
