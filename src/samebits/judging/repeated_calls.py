"""The same call again and again: does it return the same bits, and if not, how often does it return which?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from samebits.numbers.ulps import has_same_bits, mark_differing_bits

# Where nobody says how often, a call is made twice, and up to so often while that takes no longer than so many seconds.
USUAL = (20, 0.05)
# Different results are kept, and judged one by one: so many of them, or so many numbers.
_MOST_RESULTS, _MOST_NUMBERS = 16, 2**24


@dataclass(frozen=True)
class RepeatedCalls:
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


def call_again(
    call: Callable[[], np.ndarray], first: np.ndarray, calls: int | None, usual: tuple[int, float] = USUAL
) -> RepeatedCalls:
    """Makes a call that returned `first` until there were `calls` of them in all; None: twice, more where it is cheap.

    What is cheap, `usual` says: how many calls at most, in how many seconds. Ends early once there are more different
    results than can be kept.
    """
    most, most_s = usual
    results, counts = [first], [1]
    most_results = max(2, min(_MOST_RESULTS, _MOST_NUMBERS // max(first.size, 1)))
    ends = time.monotonic() + most_s
    while sum(counts) < (calls or most) and len(results) < most_results:
        if calls is None and sum(counts) > 1 and time.monotonic() > ends:
            break
        result = call()
        known = next((i for i, one in enumerate(results) if has_same_bits(one, result)), None)
        if known is None:
            results.append(result)
            counts.append(1)
        else:
            counts[known] += 1
    return RepeatedCalls(tuple(results), tuple(counts))
