"""The five verdicts, from best to worst."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["identical", "rounding", "downgrade", "wrong", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("identical", "rounding", "downgrade", "wrong", "undecided")
AGREEING: tuple[Verdict, ...] = ("identical", "rounding")
# What several sides come to: a proven fault outweighs an open question, and that a proven loss of precision.
_GRAVITY: tuple[Verdict, ...] = ("identical", "rounding", "downgrade", "undecided", "wrong")


def is_agreement(verdict: Verdict) -> bool:
    """Whether a verdict is one of results that need not differ less: `identical` or `rounding`."""
    return verdict in AGREEING


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of some verdicts; `undecided` where there are none."""
    found = set(verdicts)
    gravest: list[Verdict] = [v for v in _GRAVITY if v in found]
    return gravest[-1] if gravest else "undecided"
