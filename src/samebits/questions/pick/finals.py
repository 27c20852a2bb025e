"""Candidates timed against each other: interleaved, so that background load affects all of them equally."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.engines.runner.timed_runs import time_runs
from samebits.errors import EngineFailure
from samebits.problems import Problem
from samebits.sums.tiles.memory import count_available_bytes

# Candidates slower than this at first sight are not timed again, and at most so many are.
_WORTH_TIMING, _MOST_FINALISTS = 1.6, 6
_FEWEST_ROUNDS, _MOST_ROUNDS, _TAKES_S = 7, 41, 3.0
# Threads of the one before still spin when a turn begins; that must be less than half of it.
_TURN_TAKES_S, _MOST_CALLS = 0.03, 1000
# Memory may lie well in one process and badly in another: contenders are timed in a second one, too.
_CONTENDS, _MOST_CONTENDERS = 1.3, 3
# Medians this near to each other are a tie, which the sequence of candidates breaks.
TIED_WITHIN = 0.02
# One candidate is called slower where its turns would be so by chance this seldom.
_TELLING = 0.05


def list_finalists(times: Mapping[str, float]) -> list[str]:
    """The candidates worth timing in turns, by the seconds of their fastest first runs; in the sequence given."""
    if not times:
        return []
    best = min(times.values())
    near = [text for text in list_by_time(times) if times[text] <= _WORTH_TIMING * best][:_MOST_FINALISTS]
    return [text for text in times if text in near]


@dataclass(frozen=True)
class Finals:
    """Median seconds of a call, digests of all results, messages of the runners that failed, and what turns took."""

    times: dict[str, float]
    digests: dict[str, set[str]]
    failures: dict[str, str]
    # The median of each turn but the first; those of all runners were taken in the same rounds.
    rounds: dict[str, list[float]]


def time_finalists(
    runners: Sequence[Runner], problem: Problem, operands: Mapping[str, np.ndarray], expected_s: Mapping[str, float]
) -> Finals:
    """Times all runners in rounds, in each of which every one has a turn."""
    rounds: dict[str, list[float]] = {runner.text: [] for runner in runners}
    digests: dict[str, set[str]] = {runner.text: set() for runner in runners}
    failures: dict[str, str] = {}
    given, started = dict(operands), time.perf_counter()
    remaining = list(runners)
    for turn in range(_MOST_ROUNDS):
        # Each round begins with another one, so that none always comes after the same neighbour.
        shift = turn % max(len(remaining), 1)
        for runner in remaining[shift:] + remaining[:shift]:
            calls = max(1, int(_TURN_TAKES_S / max(expected_s[runner.text], 1e-9)))
            try:
                timed = time_runs(runner, problem, given, min(calls, _MOST_CALLS))
            except EngineFailure as error:
                failures[runner.text] = str(error)
                remaining = [r for r in remaining if r is not runner]
                rounds.pop(runner.text)
                continue
            rounds[runner.text].append(statistics.median(timed.seconds))
            digests[runner.text] |= {*timed.digests}
        if turn + 1 >= _FEWEST_ROUNDS and time.perf_counter() - started > _TAKES_S:
            break
    # The first round loads caches.
    kept = {text: taken[1:] for text, taken in rounds.items() if len(taken) > 1}
    return Finals({text: statistics.median(taken) for text, taken in kept.items()}, digests, failures, kept)


def is_as_fast(ours: Sequence[float], other: Sequence[float]) -> bool:
    """Whether turns taken in the same rounds do not tell which of two is faster: a sign test of their differences.

    >>> is_as_fast([1.0, 1.2, 0.9, 1.1], [1.1, 1.0, 1.0, 1.0]), is_as_fast([1.0] * 9, [1.1] * 9)
    (True, False)
    """
    wins = [a < b for a, b in zip(ours, other, strict=False) if a != b]
    fewer = min(wins.count(True), wins.count(False))
    by_chance = 2 * sum(math.comb(len(wins), k) for k in range(fewer + 1)) / 2 ** len(wins)
    return bool(ours) and bool(other) and by_chance > _TELLING


def list_contenders(times: Mapping[str, float]) -> list[str]:
    """The candidates that may be the fastest, by their median seconds in one process; in the sequence given."""
    near = [text for text in list_by_time(times) if times[text] <= _CONTENDS * min(times.values())]
    return [text for text in times if text in near[:_MOST_CONTENDERS]] if len(near) > 1 else []


def list_by_time(times: Mapping[str, float]) -> list[str]:
    """The fastest first."""
    return sorted(times, key=lambda text: times[text])


def order_by_time(times: Mapping[str, float]) -> list[str]:
    """The fastest first; of those that tie with the fastest the one that was named first."""
    if not times:
        return []
    best = min(times.values())
    tied = [text for text in times if times[text] <= (1 + TIED_WITHIN) * best]
    return [*tied, *(text for text in list_by_time(times) if text not in tied)]


_FEWEST, _MOST, _EACH_BYTES = 6, 16, 2**30


class OpenRunners:
    """Opens runners and closes those it opened; runner objects that were given are left to their owner."""

    def __init__(self, given: Sequence[Runner], time_limit_s: float):
        self._given = {runner.text: runner for runner in given}
        self._time_limit_s = time_limit_s
        self._open: dict[tuple[str, int], Runner] = {}
        self._most = int(min(max(count_available_bytes() / 2 // _EACH_BYTES, _FEWEST), _MOST))

    def find(self, text: str) -> Runner:
        """The runner of a text. Raises SamebitsError where none can be opened."""
        return self._given.get(text) or self._find(text, 1)

    def find_second(self, text: str) -> Runner | None:
        """Another process of the same text; None of an object that was given. Raises SamebitsError."""
        return None if text in self._given else self._find(text, 2)

    def _find(self, text: str, number: int) -> Runner:
        runner = self._open.pop((text, number), None)
        if runner is None:
            while len(self._open) >= self._most:
                self._open.pop(next(iter(self._open))).close()
            runner = open_runner(text, time_limit_s=self._time_limit_s)
        self._open[text, number] = runner
        return runner

    def is_open(self, text: str) -> bool:
        """Whether a text's process has begun; an object that was given always has."""
        return text in self._given or (text, 1) in self._open

    def identify_given(self, text: str) -> Identity | None:
        """What an object that was given says of itself; None for a text. Raises EngineFailure."""
        return self._given[text].identify() if text in self._given else None

    def drop(self, text: str) -> None:
        """Closes the runners of a text that are open."""
        for number in (1, 2):
            runner = self._open.pop((text, number), None)
            if runner is not None:
                runner.close()

    def close(self) -> None:
        """Closes all."""
        for text, _ in list(self._open):
            self.drop(text)
