"""A container that runs our worker with its own engines, started for it from an image."""

from __future__ import annotations

import re

from samebits.engines.workers.travelling_worker import TravellingWorker, write_command

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]*")
# Images of gigabytes are fetched by who wants them, not by the way.
_OPTIONS = ("--rm", "--interactive", "--pull=never", "--network=none", "--entrypoint=sh")


def check_image(image: str) -> bool:
    """Whether a text names an image, and is no option of the program that runs it."""
    return _IMAGE.fullmatch(image) is not None


def open_container(image: str, python: str | None = None) -> TravellingWorker:
    """A worker in a container of an image that is here, and the Python in it (`python3` unless named)."""
    # A shell comes first: the first process of a container cannot be killed from inside, and the worker must be.
    words = (*_OPTIONS, image, "-c", f"{write_command(python)}; exit $?")
    return TravellingWorker(f"docker={image}", "SAMEBITS_DOCKER_COMMAND", "docker run", words)
