"""How a recorded process reports to the process that started the recording that something went wrong.

Its streams are the script's own, and the disk may be full: one datagram to a socket harms nothing and waits for nobody.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from pathlib import Path

_VARIABLE = "SAMEBITS_TRACE_EAR"
_LONGEST = 1000


class Ear:
    """A socket that hears what processes tell; `variables` is the environment in which they find it."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self._socket: socket.socket | None = None
        self._folder: str | None = None
        with contextlib.suppress(OSError):
            ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            ear.setblocking(False)
            self._socket = ear
            name = f"samebits-{secrets.token_hex(8)}"
            if sys.platform == "linux":
                # A name that takes no place on any disk.
                ear.bind(f"\0{name}")
            else:
                self._folder = tempfile.mkdtemp(prefix="samebits-")
                name = str(Path(self._folder) / "ear")
                ear.bind(name)
            self.variables = {_VARIABLE: name}

    def close(self) -> list[str]:
        """Closes the socket; returns the messages that were received, each once."""
        heard: dict[str, None] = {}
        if self._socket is not None:
            with contextlib.suppress(OSError):
                while True:
                    heard[self._socket.recv(2 * _LONGEST).decode("utf-8", "replace")] = None
            self._socket.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return list(heard)


def tell(says: str) -> None:
    """Sends a message to the process that started the recording, if there is one and it still listens."""
    name = os.environ.get(_VARIABLE)
    if not name:
        return
    address = f"\0{name}" if sys.platform == "linux" else name
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.setblocking(False)
        mouth.sendto(says.encode("utf-8", "backslashreplace")[:_LONGEST], address)
