"""The same call again and again: does it return the same bits, and if not, how often does it return which?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from samebits.engines.runner import Runner, check_result
from samebits.numbers.ulps import has_same_bits, mark_differing_bits
from samebits.problems.any_problem import AnyProblem


@dataclass(frozen=True)
class Usual:
    """Where nobody says how often: a call is made twice, and up to `calls` times while that takes no longer."""

    calls: int
    seconds: float


USUAL = Usual(200, 0.05)
# Different results are kept, and judged one by one: so many of them, or so many numbers.
_MOST_RESULTS, _MOST_NUMBERS = 16, 2**24
# A runner that calls by itself answers after so many seconds at the latest, one call excepted.
_AT_A_TIME_S = 1.0


@dataclass(frozen=True)
class RepeatedRuns:
    """What calls on the same operands returned: each different result once, that of the first call first, how often."""

    results: tuple[np.ndarray, ...]
    counts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many calls there were."""
        return sum(self.counts)

    @property
    def other(self) -> int:
        """How many of them returned something else than the most frequent result."""
        return self.count - max(self.counts)

    @property
    def is_same(self) -> bool:
        """Whether all of them returned the same bits."""
        return len(self.results) == 1

    def mark_varying(self) -> np.ndarray:
        """Which outputs do not have the same bits in all calls."""
        first = self.results[0]
        return np.any([mark_differing_bits(first, other) for other in self.results], axis=0)


@runtime_checkable
class RepeatingRunner(Protocol):
    """A runner that calls again where it has the operands, so that these and most results do not travel."""

    def run_again(
        self, problem: AnyProblem, operands: Mapping[str, np.ndarray], calls: int, most_s: float, most_results: int
    ) -> RepeatedRuns:
        """At least one and at most so many calls, see `repeat_call`. Raises an EngineFailure."""
        ...


def repeat_call(call: Callable[[], np.ndarray], calls: int, most_s: float, most_results: int) -> RepeatedRuns:
    """So many calls, fewer where they take longer than `most_s` or return more different results than that."""
    results, counts = list[np.ndarray](), list[int]()
    ends = time.monotonic() + most_s
    while sum(counts) < calls and len(results) < most_results:
        _count(call(), 1, results, counts)
        if time.monotonic() > ends:
            break
    return RepeatedRuns(tuple(results), tuple(counts))


def run_again(
    runner: Runner,
    problem: AnyProblem,
    operands: Mapping[str, np.ndarray],
    first: np.ndarray,
    calls: int | None,
    usual: Usual = USUAL,
) -> RepeatedRuns:
    """Runs what returned `first` until there were `calls` of them in all; None: twice, more where it is cheap.

    What is cheap, `usual` says. Ends early once there are more different results than can be kept. Raises an
    EngineFailure.
    """
    results, counts = [first], [1]
    most_results = max(2, min(_MOST_RESULTS, _MOST_NUMBERS // max(first.size, 1)))
    ends = time.monotonic() + usual.seconds
    while sum(counts) < (calls or usual.calls) and len(results) < most_results:
        left_s = ends - time.monotonic()
        if calls is None and sum(counts) > 1 and left_s < 0:
            break
        more = (calls or usual.calls) - sum(counts)
        most_s = _AT_A_TIME_S if calls is not None else max(left_s, 0.0)
        if isinstance(runner, RepeatingRunner):
            again = runner.run_again(problem, operands, more, most_s, most_results)
        else:
            again = repeat_call(
                lambda: check_result(problem, runner.run(problem, operands)), more, most_s, most_results
            )
        for result, count in zip(again.results, again.counts, strict=True):
            _count(result, count, results, counts)
    return RepeatedRuns(tuple(results), tuple(counts))


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and has_same_bits(a, b)


def _count(result: np.ndarray, count: int, results: list[np.ndarray], counts: list[int]) -> None:
    """Adds so many calls that returned this to those that are known."""
    known = next((i for i, one in enumerate(results) if _is_same(one, result)), None)
    if known is None:
        results.append(result)
        counts.append(count)
    else:
        counts[known] += count
