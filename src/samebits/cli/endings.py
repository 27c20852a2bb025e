"""One line about what ended a command: an error of ours, of the system, an interrupt."""

from __future__ import annotations

import errno
import os
import sys

from typer.exceptions import TyperException

from samebits.cli.streams import discard
from samebits.errors import SamebitsError

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


def say_error(error: BaseException) -> str:
    """One line about what else ended a command."""
    if isinstance(error, TyperException):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "memory ran out; make the batch or the spatial size smaller"
    return str(error) if isinstance(error, SamebitsError) else "interrupted"
