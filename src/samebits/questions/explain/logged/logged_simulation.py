"""What mechanisms give on the rebuilt operands of a log's problems: each is computed once, however often asked for."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.arithmetic.arithmetic import (
    list_operand_hypotheses,
    list_order_hypotheses,
    list_recipe_hypotheses,
)
from samebits.mechanisms.facts.observation import Floats, Hypothesis
from samebits.problems import Problem
from samebits.progress import Progress
from samebits.questions.explain.logged.autotuner_buffers import Stage, rebuild

_MOST_TIME_S = 30.0
_NARROW = (CauseCode.LOW_PRECISION_ACCUMULATOR, CauseCode.WINOGRAD, CauseCode.FFT)
_MOST_FINGERPRINTS = 8


@dataclass(frozen=True)
class Simulated:
    """The ratio to the truth that a hypothesis gives, with its standard error."""

    ratio: float
    error: float
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Fingerprint:
    """A mechanism's largest error and root mean square on normal data, in shares of the largest output."""

    says: str
    share: float
    root_mean_square: float
    cause: CauseCode


@dataclass
class Simulations:
    """The simulations of one log: all answers are kept, of the operands, which are large, the last ones."""

    _last: tuple[tuple[Problem, float | None], Stage] | None = None
    _ratios: dict[tuple[Problem, float, bool], list[Simulated]] = field(default_factory=dict)
    _fingerprints: dict[Problem, list[Fingerprint]] = field(default_factory=dict)

    def rebuild(self, problem: Problem, uniform: float | None) -> Stage:
        """Operands of a problem and exact sums of theirs (see `rebuild`); raises ResourceLimitError."""
        key = (problem, uniform)
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = (key, rebuild(problem, uniform=uniform))
        return self._last[1]

    def list_ratios(self, problem: Problem, uniform: float, progress: Progress, *, thorough: bool) -> list[Simulated]:
        """The ratios to the truth that narrow sums give, as many as the time allows."""
        key = (problem, uniform, thorough)
        if key not in self._ratios:
            self._ratios[key] = _simulate_ratios(self.rebuild(problem, uniform), progress, thorough=thorough)
        return self._ratios[key]

    def list_fingerprints(self, problem: Problem) -> list[Fingerprint]:
        """The largest error of each mechanism on normal data."""
        if problem not in self._fingerprints:
            self._fingerprints[problem] = _list_fingerprints(self.rebuild(problem, None))
        return self._fingerprints[problem]


def average(values: Floats) -> float:
    """The mean of finite values, which is finite too: the largest is divided out, so that no sum overflows."""
    largest = float(np.abs(values).max())
    return float((values / largest).mean()) * largest if largest else 0.0


def measure_spread(values: Floats) -> float:
    """The standard deviation of finite values; none of its squares overflows."""
    largest = float(np.abs(values).max())
    return float((values / largest).std()) * largest if largest else 0.0


def find_comparable(first: Floats, second: Floats) -> np.ndarray:
    """Where the quotient of two values, either way, is a finite number other than zero."""
    with np.errstate(all="ignore"):
        ratios = np.array([first / second, second / first])
    return (np.isfinite(ratios) & (ratios != 0)).all(axis=0)


def _simulate_ratios(stage: Stage, progress: Progress, *, thorough: bool) -> list[Simulated]:
    listed = list_recipe_hypotheses(stage.observation.problem, thorough=thorough)
    hypotheses = [h for h in listed if h.cause in _NARROW]
    deadline = time.perf_counter() + _MOST_TIME_S
    simulated: list[Simulated] = []
    for number, hypothesis in enumerate(hypotheses):
        if time.perf_counter() > deadline:
            break
        progress("simulating hypotheses", number / len(hypotheses))
        predicted = hypothesis.predict(stage.observation, stage.sample)
        if predicted is None or not np.isfinite(predicted).all():
            continue
        # An output whose window lies in the padding is zero on both sides.
        with np.errstate(all="ignore"):
            own = predicted / stage.truth
        own = own[np.isfinite(own)]
        if own.size:
            simulated.append(Simulated(average(own), measure_spread(own) / math.sqrt(own.size), hypothesis))
    return simulated


def _list_fingerprints(stage: Stage) -> list[Fingerprint]:
    problem, truth = stage.observation.problem, stage.truth
    largest = float(np.abs(truth).max()) or 1.0
    found: list[Fingerprint] = []
    for hypothesis in [next(list_order_hypotheses(problem)), *list_operand_hypotheses(problem)]:
        predicted = hypothesis.predict(stage.observation, stage.sample)
        if predicted is not None and hypothesis.cause != CauseCode.SUBNORMALS:
            says = "rounding" if hypothesis.cause == CauseCode.SUMMATION_ORDER else hypothesis.says
            with np.errstate(all="ignore"):
                away = np.abs(predicted - truth) / largest
                root_mean_square = float(np.sqrt(np.mean(away**2)))
            found.append(Fingerprint(says, float(away.max()), root_mean_square, hypothesis.cause))
    return [f for f in found if 0 < f.share < math.inf][:_MOST_FINGERPRINTS]
