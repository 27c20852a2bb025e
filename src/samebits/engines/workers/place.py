"""Where an engine is: here, in another Python environment, on another processor, on another host, in a container."""

from __future__ import annotations

import re
from dataclasses import dataclass

from samebits.engines.workers.emulated_cpu import SLOWER, EmulatedPython
from samebits.engines.workers.other_python import OtherPython
from samebits.engines.workers.releases import Release, ReleasePython, find_environment, find_program
from samebits.engines.workers.travelling_worker import TravellingWorker, write_command

_HOST = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:\[\]-]*")


def check_host(host: str) -> bool:
    """Whether a text names a host, and is no option of the program that reaches it."""
    return _HOST.fullmatch(host) is not None


def reach_host(host: str, python: str | None = None) -> TravellingWorker:
    """A worker on a host as ssh knows it, and the Python there (`python3` unless named)."""
    words = ("-T", "-o", "BatchMode=yes", "--", host, write_command(python))
    return TravellingWorker(f"ssh={host}", "SAMEBITS_SSH_COMMAND", "ssh", words)


_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]*")
# Images can be gigabytes: the person fetches them, samebits does not.
_OPTIONS = ("--rm", "--interactive", "--pull=never", "--network=none", "--entrypoint=sh")


def check_image(image: str) -> bool:
    """Whether a text names an image, and is no option of the program that runs it."""
    return _IMAGE.fullmatch(image) is not None


def open_container(image: str, python: str | None = None) -> TravellingWorker:
    """A worker in a container of an image that is here, and the Python in it (`python3` unless named)."""
    # A shell comes first: the first process of a container cannot be killed from inside, and the worker must be.
    words = (*_OPTIONS, image, "-c", f"{write_command(python)}; exit $?")
    return TravellingWorker(f"docker={image}", "SAMEBITS_DOCKER_COMMAND", "docker run", words)


@dataclass(frozen=True)
class Place:
    """A program of Python or a release, and a host as ssh knows it, an image of a container, or another processor.

    Without any of them: here.
    """

    python: str | None = None
    host: str | None = None
    image: str | None = None
    cpu: str | None = None
    release: Release | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is the environment that samebits runs in."""
        return self == HERE

    @property
    def shares_files(self) -> bool:
        """Whether the engine sees the files that are here."""
        return self.host is None and self.image is None

    @property
    def has_our_packages(self) -> bool:
        """Whether the engine's package is that of the environment that samebits runs in."""
        return self.python is None and self.release is None and self.shares_files

    @property
    def program(self) -> str | None:
        """The program of the Python whose engine it is, for a script to be run with; None: ours."""
        if self.release is not None and (folder := find_environment(self.release)) is not None:
            return str(find_program(folder))
        return self.python

    @property
    def slowness(self) -> int:
        """How many times as long a run may take there."""
        return 1 if self.cpu is None else SLOWER

    def find(self) -> OtherPython | EmulatedPython | TravellingWorker | None:
        """What starts a worker there; None: here. Raises EngineMissingError where no worker can run."""
        if self.host is not None:
            return reach_host(self.host, self.python)
        if self.image is not None:
            return open_container(self.image, self.python)
        own = self._find_python()
        return own if self.cpu is None else EmulatedPython(self.cpu, own)

    def _find_python(self) -> OtherPython | None:
        if self.release is not None:
            return ReleasePython(self.release)
        return None if self.python is None else OtherPython(self.python)


HERE = Place()
