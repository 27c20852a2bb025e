"""What all tests share: hypothesis without deadlines (compiled code's first call is slow); tests of missing engines.

With `--quick` a test that would start a process (an engine, a browser, a cluster, a command) is skipped where it does.
"""

import contextlib
import os
import subprocess
from pathlib import Path

# A test process a core: threads of OpenBLAS would wait for each other (one test took 48 s of a processor, now 14).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from needed_engines import skip_without_engines
from samebits.display.endings import TRACEBACK_VARIABLE
from samebits.engines.workers.process import WorkerRunner
from warm_workers import kept_workers, warm_workers  # noqa: F401  (fixtures)

settings.register_profile("samebits", deadline=None, derandomize=True)
settings.load_profile("samebits")
# An error that nobody foresaw is seen whole.
os.environ.setdefault(TRACEBACK_VARIABLE, "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip what starts a process, and what is marked `slow`")


@pytest.fixture(autouse=True, scope="session")
def no_process_where_quick(request: pytest.FixtureRequest):
    """Under `--quick`, whatever starts a process ends its test there."""
    if not request.config.getoption("--quick"):
        yield
        return

    def skip(*given: object, **named: object) -> None:
        pytest.skip("starts a process")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", skip)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `--quick` a module that is `slow` as a whole is not even imported."""
    if not config.getoption("--quick") or collection_path.suffix != ".py":
        return None
    return True if "\npytestmark = pytest.mark.slow" in collection_path.read_text() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        for item in items:
            # What drives a browser does not take its start for an end.
            if item.get_closest_marker("slow") or "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="slow"))


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
