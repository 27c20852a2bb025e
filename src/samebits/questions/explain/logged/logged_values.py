"""Logs that print pairs of values (XLA's autotuner): operands are rebuilt, narrow sums simulated, ratios compared."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from samebits import thresholds
from samebits.findings import Comparison, Evidence
from samebits.mechanisms.facts.observation import Floats
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.progress import Progress
from samebits.questions.explain.log_sentences import say_one_signed_loss, say_ratio, say_share
from samebits.questions.explain.logged.autotuner_buffers import find_upper_bound
from samebits.questions.explain.logged.logged_replay import explain_replayed, replay_values
from samebits.questions.explain.logged.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.questions.explain.logged.logged_simulation import (
    Simulated,
    Simulations,
    average,
    find_comparable,
    measure_spread,
)
from samebits.questions.explain.logs import PROBLEM_LINE, Mismatch

_MOST_ALTERNATIVES = 2


@dataclass(frozen=True)
class _Logged:
    """Pairs of values whose ratio is a number, and the sums that their operands give."""

    mismatch: Mismatch
    problem: Problem
    first: Floats
    second: Floats
    truth: Floats
    high: float

    @property
    def data(self) -> str:
        return f"rebuilt: uniform in 0 ... {self.high:g}, as XLA fills its autotuning buffers"

    @functools.cached_property
    def expected(self) -> float:
        return average(self.truth)

    @functools.cached_property
    def means(self) -> tuple[float, float]:
        return average(self.first), average(self.second)

    @property
    def right(self) -> int:
        """Which side is nearer to the expected sum."""
        return int(abs(self.means[1] - self.expected) < abs(self.means[0] - self.expected))

    @property
    def ratios(self) -> Floats:
        """The other side's values in shares of the right one's."""
        sides = self.first, self.second
        return sides[1 - self.right] / sides[self.right]


def explain_values(mismatch: Mismatch, simulations: Simulations, progress: Progress) -> Comparison:
    """Explains an autotuner's logged pairs of values."""
    first, second = (np.array([p[i] for p in mismatch.pairs]) for i in (1, 2))
    problem, stage = mismatch.problem, None
    usable = find_comparable(first, second)
    # Sums of positive products that are finite on one side are finite on the other, whatever they are rounded to.
    broken = [
        s for s, (v, w) in enumerate(((first, second), (second, first))) if (np.isfinite(w) & ~np.isfinite(v)).any()
    ]
    if problem is not None:
        progress("rebuilding the operands", 0.0)
    if usable.mean() > thresholds.MAJORITY and len(broken) != 1:
        # Before anything is drawn at random, which the largest problems are too large for.
        indices = [pair[0] for pair, is_usable in zip(mismatch.pairs, usable, strict=True) if is_usable]
        replayed = replay_values(mismatch, first[usable], second[usable], indices)
        if replayed is not None:
            return explain_replayed(replayed, progress)
    if mismatch.memory is not None and mismatch.memory.filled_as == "int8":
        # Those that are drawn below are not of this kind.
        problem = None
    high = find_upper_bound(problem.dtype) if problem else 1.0
    if problem is not None:
        stage = simulations.rebuild(problem, high)
    # A sum that leaves the result's format is infinite by right.
    overflows = stage is not None and stage.truth.max() > float(find_format(stage.observation.problem.out).largest)
    lost = [side for side, v in enumerate((first, second)) if _is_impossible(v, overflows=overflows)]
    # Unless the sums themselves are zero: where windows lie in the padding, or a clip makes them so.
    if len(lost) == 1 and not (stage and _is_impossible(stage.truth, overflows=overflows)):
        return _explain_impossible(mismatch, lost[0], (first, second)[lost[0]])
    if not usable.any():
        says = "No logged pair holds two finite values, other than zero, of a finite ratio"
        return _describe_unknown(mismatch, says)
    first, second = first[usable], second[usable]
    if problem is None or stage is None:
        return _explain_ratio_only(mismatch, first, second)
    truth = stage.truth[np.isfinite(stage.truth) & (stage.truth != 0)]
    if not truth.size:
        return _describe_unknown(mismatch, "The sums of rebuilt operands are all zero or infinite in this problem")
    return _explain_pairs(_Logged(mismatch, problem, first, second, truth, high), simulations, progress)


def _describe_unknown(mismatch: Mismatch, says: str) -> Comparison:
    sides = [describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)]) for n in mismatch.names]
    summary = f"{says}: cannot tell which side is right."
    return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")


def _is_impossible(values: Floats, *, overflows: bool) -> bool:
    """Whether values that should be sums of positive products are NaN or infinite anywhere, or mostly zero."""
    odd = np.isnan(values) if overflows else ~np.isfinite(values)
    return bool(odd.any() or (values == 0).mean() > thresholds.MAJORITY)


def _explain_pairs(logged: _Logged, simulations: Simulations, progress: Progress) -> Comparison:
    """Finds the side near the sum of rebuilt operands, and the narrow sum that gives the other side's ratio to it."""
    mismatch, expected = logged.mismatch, logged.expected
    off = abs(logged.means[logged.right] - expected)
    if not off <= thresholds.SIGMAS * max(measure_spread(logged.truth), 1e-30):
        products = logged.problem.reduction_length
        summary = f"Neither side is near {expected:.4g}, what {products:,} such products add up to."
        sides = [
            describe_logged_side(
                n, "undecided", [Evidence("statistic", f"logged {m:.4g} on average, expected {expected:.4g}")]
            )
            for n, m in zip(mismatch.names, logged.means, strict=True)
        ]
        return describe_mismatch(mismatch, "undecided", summary, sides, logged.data)
    ratios = logged.ratios
    ratio, error = average(ratios), measure_spread(ratios) / math.sqrt(len(ratios))
    if abs(ratio - 1.0) <= thresholds.SIGMAS * error:
        return _describe_equal(logged, ratio)
    for thorough in (False, True):
        tried = simulations.list_ratios(logged.problem, logged.high, progress, thorough=thorough)
        fitting = [t for t in tried if abs(t.ratio - ratio) <= thresholds.SIGMAS * (error + t.error)]
        if fitting:
            return _describe_accepted(logged, ratio, len(tried), fitting)
    return _describe_open(logged, ratio)


def _say_expected(logged: _Logged) -> Evidence:
    names, right = logged.mismatch.names, logged.right
    values = logged.means
    line = logged.mismatch.facts.get(PROBLEM_LINE)
    whose = f" (the problem stands in line {line})" if line else ""
    products = logged.problem.reduction_length
    return Evidence(
        "statistic",
        f"{products:,} products of such operands add up to about {logged.expected:.4g}: {names[right]} has"
        f" {values[right]:.4g}, {names[1 - right]} {values[1 - right]:.4g}{whose}",
    )


def _describe_open(logged: _Logged, ratio: float) -> Comparison:
    names, right = logged.mismatch.names, logged.right
    expects = _say_expected(logged)
    summary = (
        f"{names[right]} is right; {names[1 - right]} has {say_ratio(ratio)} of it, and no hypothesis simulates that."
    )
    good = describe_logged_side(names[right], "rounding", [expects], says="keeps its sums wide enough")
    other = describe_logged_side(names[1 - right], "undecided", [expects])
    sides = [good, other] if right == 0 else [other, good]
    return describe_mismatch(logged.mismatch, "undecided", summary, sides, logged.data)


def _describe_equal(logged: _Logged, ratio: float) -> Comparison:
    """The finding where the means differ by no more than single elements vary, and nothing says why these differ."""
    names = logged.mismatch.names
    sides = [
        describe_logged_side(n, "undecided", [_say_expected(logged), Evidence("statistic", RECORD)]) for n in names
    ]
    summary = (
        f"{names[0]} and {names[1]} differ in single elements: the ratio of their means, {say_ratio(ratio)}, is no"
        " farther from 1 than these vary, so that nothing says either loses anything throughout."
    )
    return describe_mismatch(logged.mismatch, "undecided", summary, sides, logged.data)


def _describe_accepted(logged: _Logged, ratio: float, tried: int, fitting: list[Simulated]) -> Comparison:
    """The finding that names the first hypothesis that fits; their list runs from likely to far-fetched."""
    names, right = logged.mismatch.names, logged.right
    best, hypothesis = fitting[0], fitting[0].hypothesis
    others = [t.hypothesis.says for t in fitting[1:] if t.hypothesis.cause != hypothesis.cause][:_MOST_ALTERNATIVES]
    says = hypothesis.says.partition(" (direct ")[0]
    expects = _say_expected(logged)
    statistic = (
        f"statistics suggest it: ratio {say_ratio(ratio)} logged, {say_ratio(best.ratio)} simulated"
        f" ({best.ratio * logged.expected:.4g} for {logged.expected:.4g});"
        f" {_say_count(tried - len(fitting))} not fit"
    )
    statistic += f"; these of other causes do too: {'; '.join(others)}" if others else ""
    matters = Evidence("statistic", say_one_signed_loss(1 - ratio, logged.problem))
    evidence = [Evidence("statistic", statistic), matters, expects]
    good = describe_logged_side(names[right], "rounding", [expects], says="keeps its sums wide enough")
    bad = describe_logged_side(
        names[1 - right], hypothesis.verdict, evidence, says=says, cause=hypothesis.cause, hypothesis=hypothesis
    )
    loses = f"{'loses' if ratio < 1 else 'gains'} about {say_share(1 - ratio)} of every sum"
    summary = f"{names[1 - right]} {says} and {loses}; {names[right]} is right (both inferred)."
    sides = [good, bad] if right == 0 else [bad, good]
    return describe_mismatch(logged.mismatch, hypothesis.verdict, summary, sides, logged.data, hypothesis.cause)


def _say_count(others: int) -> str:
    return "1 other hypothesis does" if others == 1 else f"{others} other hypotheses do"


def _explain_impossible(mismatch: Mismatch, side: int, values: Floats) -> Comparison:
    name, other = mismatch.names[side], mismatch.names[1 - side]
    zeros, odd = int((values == 0).sum()), int((~np.isfinite(values)).sum())
    what, count, returns = ("NaN or infinite", odd, "NaN or infinity") if odd else ("zero", zeros, "zero")
    beside = np.array([pair[2 - side] for pair in mismatch.pairs])
    positive = bool((beside[np.isfinite(beside)] > 0).all())
    why = (
        "the autotuner's operands are positive: whoever returns that for their sums did not compute them"
        if positive
        else f"{other} has {'other numbers' if what == 'zero' else 'numbers'} there, of either sign"
    )
    said = f"{name} is {what} in {count} of {len(values)} logged elements; {why}"
    evidence = Evidence("statistic", said)
    sides = [
        describe_logged_side(n, "wrong", [evidence], says=f"returns {returns}")
        if number == side
        else describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)])
        for number, n in enumerate(mismatch.names)
    ]
    where = "where positive products are added" if positive else f"where {other} has numbers"
    summary = f"{name} is wrong: it returns {returns} {where}. Whether {other} is right the log does not show."
    return describe_mismatch(mismatch, "wrong", summary, sides, "not rebuilt")


def _explain_ratio_only(mismatch: Mismatch, first: Floats, second: Floats) -> Comparison:
    """The finding for a log without a problem: what the ratio alone suggests."""
    ratios = first / second
    mean, spread = average(ratios), measure_spread(ratios)
    steady = len(ratios) > 1 and spread < abs(mean - 1) / 2
    suggests = (
        "nearly the same for all elements, as where one side scales its sums or keeps them in too few bits"
        if steady
        else "different from element to element, as rounding of operands, or another function, gives"
    )
    if len(ratios) == 1:
        suggests = "one element only"
    missing = mismatch.trouble or "the log names no problem"
    evidence = [
        Evidence("statistic", f"the first is {say_ratio(mean)} of the second, within {spread:.2g}: {suggests}"),
        Evidence(
            "statistic",
            f"cannot tell which side is right: {missing}; to find out, have XLA print the instruction"
            " (TF_CPP_MIN_LOG_LEVEL=0, XLA_FLAGS=--xla_dump_to=DIR) and give samebits explain a log with that line",
        ),
    ]
    sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
    usual = average(np.abs(ratios - 1))
    differ = f"{mismatch.names[0]} and {mismatch.names[1]} differ by {say_share(usual)} on average"
    summary = f"{differ[0].upper()}{differ[1:]}; the log does not say in which problem."
    return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")
