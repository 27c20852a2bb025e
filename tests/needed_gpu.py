"""Whether an NVIDIA GPU is here, for tests that need one."""

from __future__ import annotations

import functools
import shutil
import subprocess

import pytest


@functools.cache
def has_gpu() -> bool:
    """Whether NVIDIA's own program lists one."""
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True, check=False).returncode == 0


def skip_without_gpu() -> None:
    """Skips the test, and says why."""
    if not has_gpu():
        pytest.skip("there is no NVIDIA GPU here")
