"""Logs that print pairs of values (XLA's autotuner): operands are rebuilt, narrow sums simulated, ratios compared."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from samebits.explanation.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.explanation.rebuilt_data import Stage, rebuild
from samebits.findings import Comparison, Evidence
from samebits.findings.causes import CauseCode
from samebits.formats.format import find_format
from samebits.hypotheses import Hypothesis, list_recipe_hypotheses
from samebits.hypotheses.observation import Floats
from samebits.judging import thresholds
from samebits.logs import Mismatch
from samebits.progress import Progress

# What XLA's autotuner fills its buffers with: uniform from 0 to this, or to 1.
_XLA_HIGH = {"float16": 0.1}
_MOST_TIME_S = 30.0
_NARROW = (CauseCode.LOW_PRECISION_ACCUMULATOR, CauseCode.WINOGRAD, CauseCode.FFT)
_MOST_ALTERNATIVES = 2


@dataclass(frozen=True)
class _Logged:
    """Pairs of values, both finite and not zero, and the sums that their operands give."""

    mismatch: Mismatch
    stage: Stage
    first: Floats
    second: Floats
    data: str

    @property
    def expected(self) -> float:
        return float(self.stage.truth.mean())

    @property
    def right(self) -> int:
        """Which side is nearer to the expected sum."""
        return int(abs(self.second.mean() - self.expected) < abs(self.first.mean() - self.expected))

    @property
    def sides(self) -> tuple[Floats, Floats]:
        return self.first, self.second

    @property
    def ratios(self) -> Floats:
        """The other side's values in shares of the right one's."""
        return self.sides[1 - self.right] / self.sides[self.right]


@dataclass(frozen=True)
class _Simulated:
    """The ratio to the truth that a hypothesis gives, with its standard error."""

    ratio: float
    error: float
    hypothesis: Hypothesis


def explain_values(mismatch: Mismatch, progress: Progress) -> Comparison:
    """Logged pairs of values of an autotuner."""
    first, second = (np.array([p[i] for p in mismatch.pairs]) for i in (1, 2))
    problem, stage = mismatch.problem, None
    high = _XLA_HIGH.get(problem.dtype, 1.0) if problem else 1.0
    if problem is not None:
        progress("rebuilding the operands", 0.0)
        stage = rebuild(problem, uniform=high)
    # A sum that leaves the result's format is infinite by right.
    overflows = stage is not None and stage.truth.max() > float(find_format(stage.observation.problem.out).largest)
    both = zip(mismatch.names, (first, second), strict=True)
    lost = [(n, v) for n, v in both if _is_impossible(v, overflows=overflows)]
    if len(lost) == 1:
        return _explain_impossible(mismatch, *lost[0])
    usable = np.isfinite(first) & np.isfinite(second) & (first != 0) & (second != 0)
    if not usable.any():
        sides = [describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)]) for n in mismatch.names]
        summary = "No logged pair holds two finite values other than zero: cannot tell which side is right."
        return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")
    first, second = first[usable], second[usable]
    if stage is None:
        return _explain_ratio_only(mismatch, first, second)
    data = f"rebuilt: uniform in 0 ... {high:g}, as XLA fills its autotuning buffers"
    return _explain_pairs(_Logged(mismatch, stage, first, second, data), progress)


def _is_impossible(values: Floats, *, overflows: bool) -> bool:
    """Mostly zero, NaN or infinite, where a sum of positive products stands on the other side."""
    odd = np.isnan(values) if overflows else ~np.isfinite(values)
    return bool((odd | (values == 0)).mean() > thresholds.MAJORITY)


def _explain_pairs(logged: _Logged, progress: Progress) -> Comparison:
    """Which side is near the sum of rebuilt operands, and which narrow sum gives the other's ratio to it."""
    mismatch, expected = logged.mismatch, logged.expected
    off = abs(float(logged.sides[logged.right].mean()) - expected)
    products = logged.stage.observation.problem.reduction_length
    if not off <= thresholds.SIGMAS * max(float(logged.stage.truth.std()), 1e-30):
        summary = f"Neither side is near {expected:.4g}, what {products:,} such products add up to."
        sides = [
            describe_logged_side(
                n, "undecided", [Evidence("statistic", f"logged {m:.4g} on average, expected {expected:.4g}")]
            )
            for n, m in zip(mismatch.names, (float(v.mean()) for v in logged.sides), strict=True)
        ]
        return describe_mismatch(mismatch, "undecided", summary, sides, logged.data)
    ratio, error = float(logged.ratios.mean()), float(logged.ratios.std() / math.sqrt(len(logged.ratios)))
    if abs(ratio - 1.0) <= thresholds.SIGMAS * error:
        return _describe_equal(logged, ratio)
    tried, fitting = _simulate_ratios(logged.stage, ratio, error, progress, thorough=False)
    if not fitting:
        tried, fitting = _simulate_ratios(logged.stage, ratio, error, progress, thorough=True)
    if not fitting:
        return _describe_open(logged, ratio)
    return _describe_accepted(logged, ratio, tried, fitting)


def _simulate_ratios(
    stage: Stage, ratio: float, error: float, progress: Progress, *, thorough: bool
) -> tuple[int, list[_Simulated]]:
    """How many narrow sums were simulated; and those whose ratio to the truth fits the logged one."""
    listed = list_recipe_hypotheses(stage.observation.problem, thorough=thorough)
    hypotheses = [h for h in listed if h.cause in _NARROW]
    deadline = time.perf_counter() + _MOST_TIME_S
    tried: list[_Simulated] = []
    for number, hypothesis in enumerate(hypotheses):
        if time.perf_counter() > deadline:
            break
        progress("simulating hypotheses", number / len(hypotheses))
        predicted = hypothesis.predict(stage.observation, stage.sample)
        if predicted is not None and np.isfinite(predicted).all():
            own = predicted / stage.truth
            tried.append(_Simulated(float(own.mean()), float(own.std() / math.sqrt(own.size)), hypothesis))
    return len(tried), [t for t in tried if abs(t.ratio - ratio) <= thresholds.SIGMAS * (error + t.error)]


def _say_expected(logged: _Logged) -> Evidence:
    names, right = logged.mismatch.names, logged.right
    values = [float(v.mean()) for v in logged.sides]
    line = logged.mismatch.facts.get("problem from line")
    whose = f" (the problem stands in line {line})" if line else ""
    products = logged.stage.observation.problem.reduction_length
    return Evidence(
        "statistic",
        f"{products:,} products of such operands add up to about {logged.expected:.4g}: {names[right]} has"
        f" {values[right]:.4g}, {names[1 - right]} {values[1 - right]:.4g}{whose}",
    )


def _describe_open(logged: _Logged, ratio: float) -> Comparison:
    names, right = logged.mismatch.names, logged.right
    expects = _say_expected(logged)
    summary = f"{names[right]} is right; {names[1 - right]} has {ratio:.3f} of it, and no hypothesis simulates that."
    good = describe_logged_side(names[right], "rounding", [expects], says="keeps its sums wide enough")
    other = describe_logged_side(names[1 - right], "undecided", [expects])
    sides = [good, other] if right == 0 else [other, good]
    return describe_mismatch(logged.mismatch, "undecided", summary, sides, logged.data)


def _describe_equal(logged: _Logged, ratio: float) -> Comparison:
    """Both sides have the expected sum on average: single elements differ, and nothing says why."""
    names = logged.mismatch.names
    sides = [
        describe_logged_side(n, "undecided", [_say_expected(logged), Evidence("statistic", RECORD)]) for n in names
    ]
    summary = (
        f"{names[0]} and {names[1]} both have the expected sum on average (ratio {ratio:.3f}): neither loses anything"
        " throughout. What differs in single elements the log does not show."
    )
    return describe_mismatch(logged.mismatch, "undecided", summary, sides, logged.data)


def _describe_accepted(logged: _Logged, ratio: float, tried: int, fitting: list[_Simulated]) -> Comparison:
    """The list of hypotheses runs from likely to far-fetched; of those that fit, the first is named."""
    names, right = logged.mismatch.names, logged.right
    best, hypothesis = fitting[0], fitting[0].hypothesis
    others = [t.hypothesis.says for t in fitting[1:] if t.hypothesis.cause != hypothesis.cause][:_MOST_ALTERNATIVES]
    says = hypothesis.says.partition(" (direct ")[0]
    expects = _say_expected(logged)
    statistic = (
        f"statistics suggest it: ratio {ratio:.3f} logged, {best.ratio:.3f} simulated"
        f" ({best.ratio * logged.expected:.4g} for {logged.expected:.4g});"
        f" {tried - len(fitting)} other hypotheses do not fit"
    )
    statistic += f"; these of other causes do too: {'; '.join(others)}" if others else ""
    loses = "lose" if ratio < 1 else "gain"
    matters = f"operands of one sign {loses} {abs(1 - ratio):.0%} of every sum; data about zero would hide it"
    if ratio < 1 and logged.stage.observation.problem.direction == "grad_weight":
        matters += (
            "; in training every weight gradient of such data is scaled down so, as by a smaller learning rate here"
        )
    evidence = [Evidence("statistic", statistic), Evidence("statistic", matters), expects]
    good = describe_logged_side(names[right], "rounding", [expects], says="keeps its sums wide enough")
    bad = describe_logged_side(
        names[1 - right], hypothesis.verdict, evidence, says=says, cause=hypothesis.cause, hypothesis=hypothesis
    )
    loses = f"{'loses' if ratio < 1 else 'gains'} about {abs(1 - ratio):.0%} of every sum"
    summary = f"{names[1 - right]} {says} and {loses}; {names[right]} is right (both inferred)."
    sides = [good, bad] if right == 0 else [bad, good]
    return describe_mismatch(logged.mismatch, hypothesis.verdict, summary, sides, logged.data, hypothesis.cause)


def _explain_impossible(mismatch: Mismatch, name: str, values: Floats) -> Comparison:
    what = "zero" if (values == 0).mean() > thresholds.MAJORITY else "NaN or infinite"
    evidence = Evidence(
        "statistic",
        f"{name} is {what} in {len(values)} logged elements; the autotuner's operands are positive, so that their sums"
        " are not: whoever returns that did not compute them",
    )
    other = next(n for n in mismatch.names if n != name)
    returns = "zero" if what == "zero" else "NaN or infinity"
    sides = [
        describe_logged_side(n, "wrong", [evidence], says=f"returns {returns}")
        if n == name
        else describe_logged_side(n, "undecided", [evidence])
        for n in mismatch.names
    ]
    summary = (
        f"{name} is wrong: it returns {returns} where positive products are added. Whether {other} is right the log"
        " does not show."
    )
    return describe_mismatch(mismatch, "wrong", summary, sides, "not rebuilt")


def _explain_ratio_only(mismatch: Mismatch, first: Floats, second: Floats) -> Comparison:
    """No problem in the log: what the ratio alone suggests."""
    ratios = first / second
    mean, spread = float(ratios.mean()), float(ratios.std())
    steady = spread < abs(mean - 1) / 2
    suggests = (
        "nearly the same for all elements, as where one side keeps its sums in too few bits"
        if steady
        else "different from element to element, as rounding of operands, or another function, gives"
    )
    missing = mismatch.trouble or "the log names no problem"
    evidence = [
        Evidence("statistic", f"the first is {mean:.3f} of the second, within {spread:.2g}: {suggests}"),
        Evidence(
            "statistic",
            f"cannot tell which side is right: {missing}; to find out, have XLA print the instruction"
            " (TF_CPP_MIN_LOG_LEVEL=0, XLA_FLAGS=--xla_dump_to=DIR) and give samebits explain a log with that line",
        ),
    ]
    sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
    differ = f"{mismatch.names[0]} and {mismatch.names[1]} differ by {abs(mean - 1):.0%} on average"
    summary = f"{differ}; the log does not say of which convolution."
    return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")
