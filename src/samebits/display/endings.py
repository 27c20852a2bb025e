"""One line about what ended a command: an error of ours, of the system, an interrupt."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from typer.exceptions import TyperException

from samebits.display.other_options import find_instead
from samebits.display.streams import discard
from samebits.errors import ArgumentError, SamebitsError

# Set, an error that nobody foresaw ends in Python's own words about it.
TRACEBACK_VARIABLE = "SAMEBITS_TRACEBACK"
# As many as an engine may be given.
_THREADS, _MOST_THREADS = "NUMBA_NUM_THREADS", 1024
_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)


def say_system_error(error: SystemExit | OSError) -> str:
    """One line about what the system refused; where it is our output, nothing more is written to it."""
    if isinstance(error, OSError) and error.errno not in _OUTPUT_ERRORS:
        gone = error.errno == errno.ENOENT and not error.filename
        named = "the current folder" if gone else error.filename
        return f"{named}: {error.strerror}" if named else str(error.strerror or error)
    discard(sys.stdout)
    # Where whoever read our output has gone, rich ends the program.
    why = error.strerror if isinstance(error, OSError) else os.strerror(errno.EPIPE)
    return f"output could not be written: {why}"


def check_environment() -> None:
    """Raises ArgumentError for variables that a library would take for a fault of ours."""
    threads = os.environ.get(_THREADS)
    if threads is None:
        return
    if not (threads.isascii() and threads.isdigit() and len(threads) < 9 and 0 < int(threads) <= _MOST_THREADS):
        raise ArgumentError(f"{_THREADS} must be a whole number from 1 to {_MOST_THREADS}, not {threads[:40]!r}")


def say_unforeseen(error: Exception) -> str:
    """One line about an error that nobody foresaw: where it was raised, and what to do with it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    says = " ".join(str(error).split())[:200]
    return (
        f"a fault of samebits, or of its surroundings: {type(error).__name__}{place}: {says}; please report it with"
        f" what {TRACEBACK_VARIABLE}=1 prints"
    )


def say_error(error: BaseException) -> str:
    """One line about what else ended a command."""
    if isinstance(error, TyperException):
        # typer shows no class of its own for an option that there is not.
        name = str(getattr(error, "option_name", ""))
        command = str(getattr(getattr(error, "ctx", None), "info_name", ""))
        instead = find_instead(name, command) if type(error).__name__ == "NoSuchOption" else None
        return error.format_message() if instead is None else f"No such option: {name}; {instead}"
    if isinstance(error, MemoryError):
        return "memory ran out; make the batch or the spatial size smaller"
    return str(error) if isinstance(error, SamebitsError) else "interrupted"
