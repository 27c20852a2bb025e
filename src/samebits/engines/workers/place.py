"""Where an engine is: here, in another Python environment, on another host, or in a container."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from samebits.engines.workers.travelling_worker import TravellingWorker, write_command
from samebits.errors import EngineMissingError
from samebits.regular_files import OWN_FOLDER, open_folder

_ASKS = "import sys; assert sys.version_info >= (3, 11), sys.version.split()[0]; import numpy"
_SLOWEST_START_S = 60


class OtherPython:
    """A Python's program, and a folder that shows it samebits and nothing else of ours.

    Raises EngineMissingError where the program is none, is older than 3.11, or lacks NumPy.
    """

    def __init__(self, program: str) -> None:
        self.program = os.path.expanduser(program)
        try:
            done = subprocess.run(
                [self.program, "-P", "-c", _ASKS], capture_output=True, text=True, timeout=_SLOWEST_START_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            says = error.strerror if isinstance(error, OSError) else "it does not answer"
            raise EngineMissingError(f"python={program}: no Python that can be run ({says})") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it ends at once"])[-1]
            raise EngineMissingError(
                f"python={program}: Python 3.11 or later with numpy is needed there ({last[:120]});"
                f" {program} -m pip install numpy"
            )
        # Our own folder of packages would bring our NumPy along, and whatever else lies there.
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(open_folder())
        (self._folder / "samebits").symlink_to(OWN_FOLDER, target_is_directory=True)

    def adapt(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Environment variables with which the worker there finds samebits and writes no files next to it."""
        kept = {name: value for name, value in environment.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
        return {**kept, "PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def close(self) -> None:
        """Removes the folder."""
        self._stack.close()


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
    """A program of Python, and a host as ssh knows it or an image of a container; without any of them: here."""

    python: str | None = None
    host: str | None = None
    image: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is the environment that samebits runs in."""
        return self == HERE

    @property
    def shares_files(self) -> bool:
        """Whether the engine sees the files that are here."""
        return self.host is None and self.image is None

    def find(self) -> OtherPython | TravellingWorker | None:
        """What starts a worker there; None: here. Raises EngineMissingError where no worker can run."""
        if self.host is not None:
            return reach_host(self.host, self.python)
        if self.image is not None:
            return open_container(self.image, self.python)
        return None if self.python is None else OtherPython(self.python)


HERE = Place()
