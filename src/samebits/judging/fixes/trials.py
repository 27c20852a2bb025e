"""What a search for fixes needs of its subject: one engine's text tried, its bits remembered, its verdict known."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.runner import Identity
from samebits.errors import SamebitsError
from samebits.findings import Fix, Verdict, is_agreement
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import Change
from samebits.judging.side_running import Ran, ReferenceT, judge_ran
from samebits.numbers.ulps import digest_bits

_TIMED_RUNS = 5


@dataclass(frozen=True)
class Trial:
    """What came of one text. `digests` stand for the bits on exact, own and other data; None where it failed."""

    text: str
    changes: tuple[Change, ...]
    verdict: Verdict
    digests: tuple[str, str, str] | None
    identity: Identity | None = None
    result: np.ndarray | None = None

    @property
    def agrees(self) -> bool:
        """Whether it ran and nothing is wrong with its results on any data."""
        return self.digests is not None and is_agreement(self.verdict)


class Trials(Protocol):
    """Where texts are tried: one problem on some operands, or one network on some inputs."""

    def list_changes(self, text: str, cause: CauseCode | None, in_force: Mapping[str, str]) -> list[Change]:
        """The changes of a text that are worth trying, those for the cause first."""
        ...

    def try_text(self, text: str, changes: tuple[Change, ...]) -> Trial:
        """A text with changes, in a worker of its own. Whatever the engine does is an answer."""
        ...

    def time_in_turns(self, texts: tuple[str, str]) -> tuple[float, float] | None:
        """Median seconds of a run of each of two texts, run in turns; None where one of them fails."""
        ...

    def still_loses(self, trial: Trial) -> bool:
        """Whether a result inside its bounds is nevertheless known to lose precision."""
        ...

    def name_change_of_code(self) -> Fix | None:
        """The change of code that always helps; None where there is none."""
        ...


def judge_trial(
    trial: Trial,
    ran: Ran,
    other: np.ndarray,
    references: tuple[ReferenceT, ReferenceT],
    exact: ReferenceT | None,
) -> Trial:
    """The trial that ran: its bits on all three sets of operands, and the worse verdict of the two random ones.

    `other` is the result on the second of these; `references` are what both are judged by, `exact` the integers.
    """
    result = ran.recorded.result
    assert result is not None
    assert ran.on_exact is not None
    on_other = Ran(replace(ran.recorded, result=other), ran.on_exact)
    verdicts: list[Verdict] = [
        judge_ran(of, exact, one).verdict for of, one in zip(references, (ran, on_other), strict=True)
    ]
    worst = next((v for v in verdicts if not is_agreement(v)), verdicts[0])
    digests = (digest_bits(ran.on_exact), digest_bits(result), digest_bits(other))
    return replace(trial, verdict=worst, digests=digests, identity=ran.recorded.identity, result=result)


def name_truth(call: str) -> Fix:
    """The change of code that always helps: this call of ours in place of every side."""
    return Fix(
        engine="any",
        setting=f"{call} in place of every side",
        why="correctly rounded, so that there is one result only",
        verified=True,
        verdict_after="identical",
        source="docs/truth.md",
        same_bits=True,
        also="a change of code; slower",
    )


def time_in_turns(
    open_run: Callable[[str], tuple[Callable[[], object], Callable[[], None]]], texts: tuple[str, str]
) -> tuple[float, float] | None:
    """Median seconds of the runs of two texts in turns; None where one fails, or is emulated: that takes other times.

    `open_run` gives a run and its end.
    """
    opened: list[tuple[Callable[[], object], Callable[[], None]]] = []
    try:
        if any(parse_runner_text(text).place.cpu is not None for text in texts):
            return None
        for text in texts:
            # One by one: what is open already is closed where the next cannot be opened.
            opened.append(open_run(text))
        times: list[list[float]] = [[], []]
        for _ in range(_TIMED_RUNS + 1):
            for (run, _), taken in zip(opened, times, strict=True):
                started = time.perf_counter()
                run()
                taken.append(time.perf_counter() - started)
        # The first run of each loads the engine.
        before, after = (statistics.median(taken[1:]) for taken in times)
        return before, after
    except SamebitsError:
        return None
    finally:
        for _, close in opened:
            close()
