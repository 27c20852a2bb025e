"""Another Python environment that runs our worker with its own version of an engine."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from samebits.errors import EngineMissingError
from samebits.temporary_folders import open_folder

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
        (self._folder / "samebits").symlink_to(Path(__file__).resolve().parent.parent, target_is_directory=True)

    def adapt(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables for the worker there: it finds samebits, and writes nothing beside it."""
        kept = {name: value for name, value in environment.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
        return {**kept, "PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def close(self) -> None:
        """Removes the folder."""
        self._stack.close()
