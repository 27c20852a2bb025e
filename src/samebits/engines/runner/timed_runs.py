"""One problem run again and again: what each run took, and whether its bits stayed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from samebits.engines.runner import Runner, check_result
from samebits.numbers.ulps import digest_bits
from samebits.problems import Problem


@dataclass(frozen=True)
class TimedRuns:
    """Seconds of each run, the names of the bits that the runs returned (each once), and how far memory grew.

    `peak_bytes` is the growth of the process's memory through the first run, result included; None where it cannot be
    seen.
    """

    seconds: tuple[float, ...]
    digests: tuple[str, ...]
    peak_bytes: int | None = None


@runtime_checkable
class TimedRunner(Protocol):
    """A runner that can time its own calls, without the transfer of operands."""

    def time_runs(self, problem: Problem, operands: Mapping[str, np.ndarray], runs: int) -> TimedRuns:
        """Runs the problem so many times. Raises an EngineFailure where it cannot."""
        ...


def time_runs(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray], runs: int) -> TimedRuns:
    """Times so many runs: in the runner if it can time itself, else from here. Raises an EngineFailure."""
    if isinstance(runner, TimedRunner):
        return runner.time_runs(problem, operands, runs)
    return time_calls(lambda: runner.run(problem, operands), lambda result: check_result(problem, result), runs)


def time_calls(call: Callable[[], Any], read: Callable[[Any], np.ndarray], runs: int) -> TimedRuns:
    """Times so many calls; `read` makes arrays of what they return, which does not count."""
    seconds: list[float] = []
    digests: dict[str, None] = {}
    for _ in range(runs):
        started = time.perf_counter()
        returned = call()
        seconds.append(time.perf_counter() - started)
        digests[digest_bits(read(returned))] = None
    return TimedRuns(tuple(seconds), tuple(digests))
