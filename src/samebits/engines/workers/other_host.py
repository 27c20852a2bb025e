"""Another machine that runs our worker with its own engines, reached over ssh."""

from __future__ import annotations

import re

from samebits.engines.workers.travelling_worker import TravellingWorker, write_command

_HOST = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:\[\]-]*")


def check_host(host: str) -> bool:
    """Whether a text names a host, and is no option of the program that reaches it."""
    return _HOST.fullmatch(host) is not None


def reach_host(host: str, python: str | None = None) -> TravellingWorker:
    """A worker on a host as ssh knows it, and the Python there (`python3` unless named)."""
    words = ("-T", "-o", "BatchMode=yes", "--", host, write_command(python))
    return TravellingWorker(f"ssh={host}", "SAMEBITS_SSH_COMMAND", "ssh", words)
