"""Another Python environment of this machine: its program, shown samebits and nothing else of ours."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from samebits.errors import EngineMissingError
from samebits.regular_files import OWN_FOLDER, open_folder

# What a worker's Python has to have.
NEEDS = "import sys; assert sys.version_info >= (3, 11), sys.version.split()[0]; import numpy"
_SLOWEST_START_S = 60


def run_briefly(words: Sequence[str], trouble: str) -> subprocess.CompletedProcess[str]:
    """What a program says; raises EngineMissingError, with these words and why, where it cannot be run or hangs."""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=_SLOWEST_START_S, check=False)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        says = error.strerror if isinstance(error, OSError) else "it does not answer"
        raise EngineMissingError(f"{trouble} ({says})") from None


class OtherPython:
    """A Python's program, and a folder that shows it samebits and nothing else of ours.

    Raises EngineMissingError where the program is none, is older than 3.11, or lacks NumPy.
    """

    def __init__(self, program: str) -> None:
        path = os.path.expanduser(program)
        self.words = (path,)
        done = run_briefly((path, "-P", "-c", NEEDS), f"python={program}: no Python that can be run")
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
