"""Workers that outlive their runners: the next test that asks for the same engine need not load it again.

A worker is kept where it never failed, and given only to a runner of the same engine, settings and environment.
"""

import json
import os
from dataclasses import replace

import pytest

from samebits.engines.workers.process import WorkerRunner

_MOST_KEPT = 6
_spawn, _begin, _close = WorkerRunner._spawn, WorkerRunner._begin_loading, WorkerRunner.close


class WarmWorkers:
    """Kept processes, with the streams and the report of each, by what they were started with."""

    def __init__(self):
        self.kept = {}

    def spawn(self, runner, variables):
        """A kept worker, or a new one."""
        if runner._elsewhere is not None:
            return _spawn(runner, variables)
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        runner.warm_key = json.dumps([runner._start_header, variables, environment, os.getcwd()], sort_keys=True)
        kept = self.kept.pop(runner.warm_key, None)
        if kept is not None and kept[0].poll() is not None:
            # It ended meanwhile: its streams are closed here, not by the collector in some other test.
            self.end(kept)
            kept = None
        if kept is None:
            return _spawn(runner, variables)
        process, replies, identity, log = kept
        runner._log.close()
        runner._log = log
        runner._identity = replace(identity, text=runner.text, name=runner.name)
        return process, replies

    def close(self, runner):
        """Keeps the worker, unless it failed or one like it is kept."""
        key = getattr(runner, "warm_key", None)
        is_sound = runner._identity is not None and runner._failure is None and runner._process.poll() is None
        if key is None or key in self.kept or not is_sound:
            _close(runner)
            return
        if runner._scratch is not None:
            runner._scratch.cleanup()
        self.kept[key] = (runner._process, runner._replies, runner._identity, runner._log)
        runner.warm_key = None
        while len(self.kept) > _MOST_KEPT:
            self.end(self.kept.pop(next(iter(self.kept))))

    def end(self, kept):
        """Ends one kept worker."""
        process, replies, _, log = kept
        process.kill()
        process.wait()
        for stream in (process.stdin, replies, log):
            stream.close()


@pytest.fixture(scope="session")
def kept_workers():
    """The workers of this process's tests."""
    warm = WarmWorkers()
    yield warm
    for kept in warm.kept.values():
        warm.end(kept)


@pytest.fixture(scope="module")
def warm_workers(kept_workers):
    """Used by modules whose tests run many comparisons of few engines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerRunner, "_spawn", lambda runner, variables: kept_workers.spawn(runner, variables))
        # A kept worker has loaded its engine.
        patch.setattr(WorkerRunner, "_begin_loading", lambda runner: runner._identity is not None or _begin(runner))
        patch.setattr(WorkerRunner, "close", lambda runner: kept_workers.close(runner))
        yield
