"""What all tests share: hypothesis without deadlines (compiled code's first call is slow); tests of missing engines."""

import contextlib
import os
import subprocess

# A test process a core: threads of OpenBLAS would wait for each other (one test took 48 s of a processor, now 14).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from needed_engines import skip_without_engines
from samebits.display.endings import TRACEBACK_VARIABLE
from samebits.engines.workers.process import WorkerRunner

settings.register_profile("samebits", deadline=None, derandomize=True)
settings.load_profile("samebits")
# An error that nobody foresaw is seen whole.
os.environ.setdefault(TRACEBACK_VARIABLE, "1")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Before any fixture is made: one of them may open the engine.
    for mark in item.iter_markers("needs"):
        skip_without_engines(mark.args)


def _close_gently(runner: WorkerRunner, kill=WorkerRunner.close) -> None:
    """A worker writes what it covered when it ends by itself, which it does at the end of its input."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        runner._process.stdin.close()
        runner._process.wait(timeout=10)
    kill(runner)


if "COVERAGE_PROCESS_CONFIG" in os.environ:
    WorkerRunner.close = _close_gently
