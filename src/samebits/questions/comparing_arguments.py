"""What every comparison of one problem takes: the kinds of operands that are drawn, and what is refused."""

from __future__ import annotations

from typing import Literal, get_args

from samebits.errors import ArgumentError

LONGEST_TIME_LIMIT_S = 1e6
Data = Literal["normal", "uniform", "exact"]


def check_arguments(data: str, seed: int, time_limit_s: float, calls: int | None) -> None:
    """Raises ArgumentError for what a comparison does not take."""
    kinds = get_args(Data)
    if data not in kinds:
        raise ArgumentError(f"data must be one of {', '.join(kinds)}, not {data!r}")
    if not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed must be a whole number from 0, not {seed!r}")
    if calls is not None and (not isinstance(calls, int) or calls < 1):
        raise ArgumentError(f"calls must be a whole number from 1, not {calls!r}")
    if not isinstance(time_limit_s, (int, float)) or not 0 < time_limit_s <= LONGEST_TIME_LIMIT_S:
        raise ArgumentError(f"time_limit_s must be above 0 and at most {LONGEST_TIME_LIMIT_S:g}, not {time_limit_s!r}")
