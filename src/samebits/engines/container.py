"""A container that runs our worker with its own engines, started for it from an image; samebits travels along."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import IO, BinaryIO

from samebits.engines.travelling_worker import BEGINS, quote_program, start_through

_COMMAND = "SAMEBITS_DOCKER_COMMAND"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]*")


def check_image(image: str) -> bool:
    """Whether a text names an image, and is no option of the program that runs it."""
    return _IMAGE.fullmatch(image) is not None


class Container:
    """An image that is here, and the Python in it (`python3` unless named). The container goes with the connection."""

    def __init__(self, image: str, python: str | None = None) -> None:
        self._image = image
        self._python = python or "python3"

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """The connection, and the stream of the worker's answers. Raises EngineMissingError."""
        # A shell comes first: the first process of a container cannot be killed from inside, and the worker must be.
        command = f"{quote_program(self._python)} -c {shlex.quote(BEGINS)}; exit $?"
        # Images of gigabytes are fetched by who wants them, not by the way.
        options = ["--rm", "--interactive", "--pull=never", "--network=none", "--entrypoint=sh"]
        return start_through(
            f"docker={self._image}", _COMMAND, "docker run", [*options, self._image, "-c", command], log
        )

    def close(self) -> None:
        """Nothing: the container goes with the connection."""
