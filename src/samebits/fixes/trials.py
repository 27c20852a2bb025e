"""One engine's text tried: run in a fresh worker on all data, judged, its bits remembered."""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import dataclass, replace

import numpy as np

from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Verdict, is_agreement
from samebits.fixes.setting_changes import Change, apply_all
from samebits.judging.references import Reference
from samebits.judging.side_running import Ran, judge_ran, run_on_both
from samebits.problems.lowering import Lowering
from samebits.registry import open_runner
from samebits.runner import Identity, Runner, check_result
from samebits.runner.lowered_runner import lower_runner

_TIMED_RUNS = 5
Operands = dict[str, np.ndarray]


@dataclass(frozen=True)
class TrialData:
    """What every text is run on: exact integers, the operands that were compared, random ones; with what is right."""

    lowering: Lowering
    exact: tuple[Operands, Reference]
    own: tuple[Operands, Reference]
    random: tuple[Operands, Reference]


@dataclass(frozen=True)
class Trial:
    """What came of one text. `digests` stand for the bits on exact, own and random data; None where it failed."""

    text: str
    changes: tuple[Change, ...]
    verdict: Verdict
    digests: tuple[str, str, str] | None
    identity: Identity | None = None
    result: np.ndarray | None = None

    @property
    def agrees(self) -> bool:
        """Whether nothing is to be said against its results, on any data."""
        return self.digests is not None and is_agreement(self.verdict)


def digest(result: np.ndarray) -> str:
    """A name for the bits of a result; every NaN has the same."""
    bits = np.ascontiguousarray(result)
    if np.isnan(bits.astype(np.float64)).any():
        bits = np.where(np.isnan(bits.astype(np.float64)), np.array(np.nan, bits.dtype), bits)
    return hashlib.sha256(bits.tobytes()).hexdigest()


def try_text(text: str, changes: tuple[Change, ...], data: TrialData, time_limit_s: float) -> Trial:
    """A text with changes, in a worker of its own. Whatever the engine does is an answer."""
    changed = apply_all(text, changes)
    try:
        runner = open_runner(changed, time_limit_s=time_limit_s)
    except SamebitsError:
        return Trial(changed, changes, "undecided", None)
    try:
        return _try_runner(Trial(changed, changes, "undecided", None), lower_runner(runner, data.lowering), data)
    finally:
        runner.close()


def _try_runner(trial: Trial, runner: Runner, data: TrialData) -> Trial:
    ran = run_on_both(runner, data.lowering.convolution, data.exact[0], data.own[0])
    result, on_exact = ran.recorded.result, ran.on_exact
    if result is None or on_exact is None:
        return replace(trial, identity=ran.recorded.identity)
    try:
        other = check_result(data.lowering.convolution, runner.run(data.lowering.convolution, data.random[0]))
    except EngineFailure:
        return replace(trial, identity=ran.recorded.identity)
    verdicts: list[Verdict] = [judge_ran(data.own[1], data.exact[1], ran).verdict, _judge_other(data, ran, other)]
    worst = next((v for v in verdicts if not is_agreement(v)), verdicts[0])
    digests = (digest(on_exact), digest(result), digest(other))
    return replace(trial, verdict=worst, digests=digests, identity=ran.recorded.identity, result=result)


def _judge_other(data: TrialData, ran: Ran, other: np.ndarray) -> Verdict:
    """The verdict on the random operands."""
    recorded = replace(ran.recorded, result=other)
    return judge_ran(data.random[1], data.exact[1], Ran(recorded, ran.on_exact)).verdict


def time_in_turns(texts: tuple[str, str], data: TrialData, time_limit_s: float) -> tuple[float, float] | None:
    """Median seconds of a run of each of two texts, run in turns; None where one of them fails.

    What a run takes as a caller sees it: the operands' way to the worker, and the model's building, count.
    """
    runners: list[Runner] = []
    try:
        for text in texts:
            # One by one: what is open already is closed where the next cannot be opened.
            runners.append(open_runner(text, time_limit_s=time_limit_s))
        lowered = [lower_runner(runner, data.lowering) for runner in runners]
        times: list[list[float]] = [[], []]
        for _ in range(_TIMED_RUNS + 1):
            for runner, taken in zip(lowered, times, strict=True):
                started = time.perf_counter()
                runner.run(data.lowering.convolution, data.own[0])
                taken.append(time.perf_counter() - started)
        # The first run of each loads the engine.
        before, after = (statistics.median(taken[1:]) for taken in times)
        return before, after
    except SamebitsError:
        return None
    finally:
        for runner in runners:
            runner.close()
