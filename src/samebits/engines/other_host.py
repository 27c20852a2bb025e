"""Another machine that runs our worker with its own engines, reached over ssh; samebits travels along."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import IO, BinaryIO

from samebits.engines.travelling_worker import BEGINS, quote_program, start_through

_COMMAND = "SAMEBITS_SSH_COMMAND"
_HOST = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:\[\]-]*")


def check_host(host: str) -> bool:
    """Whether a text names a host, and is no option of the program that reaches it."""
    return _HOST.fullmatch(host) is not None


class OtherHost:
    """A host as ssh knows it, and the Python there (`python3` unless named). Nothing stays on it."""

    def __init__(self, host: str, python: str | None = None) -> None:
        self._host = host
        self._python = python or "python3"

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """The connection, and the stream of the worker's answers. Raises EngineMissingError."""
        command = f"{quote_program(self._python)} -c {shlex.quote(BEGINS)}"
        words = ["-T", "-o", "BatchMode=yes", "--", self._host, command]
        return start_through(f"ssh={self._host}", _COMMAND, "ssh", words, log)

    def close(self) -> None:
        """Nothing: the folder there goes with the connection."""
