"""Timing inside the worker: one problem prepared once, then run as often as it is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from samebits.engines.adapters.engine import Engine, Prepared
from samebits.engines.runner.timed_runs import TimedRuns, time_calls
from samebits.problems import Problem

# The kernel's account of a process, and what resets its highest mark (Linux).
_STATUS, _MARKS, _RESET = "/proc/self/status", "/proc/self/clear_refs", "5"


class RunTiming:
    """Keeps the problem that was prepared last."""

    def __init__(self) -> None:
        self._prepared: Prepared | None = None

    def prepare(self, engine: Engine, problem: Problem, operands: Mapping[str, np.ndarray]) -> TimedRuns:
        """Prepares a problem and times its first run, with the memory taken beyond operands already there."""
        self._prepared = None
        before = _reset_peak()
        self._prepared = engine.prepare(problem, operands)
        first = self.run(1)
        peak = _read_memory("VmHWM")
        grown = None if before is None or peak is None else max(peak - before, 0)
        return replace(first, peak_bytes=grown)

    def run(self, runs: int) -> TimedRuns:
        """More runs of the same problem."""
        if self._prepared is None:
            raise ValueError("no problem was prepared")
        return time_calls(self._prepared.call, self._prepared.read, runs)


def _reset_peak() -> int | None:
    """Resets the peak and returns the memory in use, its starting point; None where the system does not say."""
    with contextlib.suppress(OSError), open(_MARKS, "w") as marks:
        marks.write(_RESET)
        marks.flush()
        return _read_memory("VmRSS")
    return None


def _read_memory(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(_STATUS) as status:
        for line in status:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None
