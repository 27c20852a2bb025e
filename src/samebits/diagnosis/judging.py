"""From what was measured to verdicts: the rules, and the sentences that say why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.bounds import accumulator_format
from samebits.diagnosis.measuring import Distances
from samebits.diagnosis.places import describe_places
from samebits.findings import Evidence, ExactData, Verdict, is_agreement, worst_verdict
from samebits.findings.comparison import Difference
from samebits.problems import Problem


@dataclass(frozen=True)
class Measured:
    """What is known of one side before it is judged; any part may be missing.

    `exact_beyond_rounding` tells that a difference on exact integers is larger than rounding could make one;
    `beyond_narrowest` marks outputs farther from the truth than bfloat16 arithmetic could take them.
    """

    exact: ExactData | None = None
    exact_beyond_rounding: bool = False
    distances: Distances | None = None
    differs_in_bits: bool = True
    beyond_narrowest: npt.NDArray[np.bool_] | None = None


def judge_side(problem: Problem, measured: Measured) -> tuple[Verdict, list[Evidence]]:
    """The verdict of one side and its evidence.

    Exact integers come first: there no rounding can occur, so a difference beyond what rounding could make is another
    function (`wrong`), and a smaller one means an algorithm that is not a sum of products (`undecided`). On other data
    a result inside the bound of the declared formats is `rounding`; one beyond the bound of all arithmetic in bfloat16
    is another function (`wrong`); between the two it is `undecided`.
    """
    exact, distances = measured.exact, measured.distances
    if exact and exact.differing:
        if measured.exact_beyond_rounding:
            return "wrong", [Evidence("structure", _say_wrong(exact))]
        return "undecided", [Evidence("structure", _say_inexact(exact))]
    evidence = []
    if exact:
        evidence.append(Evidence("structure", f"all {exact.elements:,} outputs are right on exact integers"))
    if distances is None:
        return "undecided", evidence
    if not measured.differs_in_bits:
        return "identical", [*evidence, Evidence("statistic", "every output is correctly rounded")]
    if distances.within_bound:
        return "rounding", [*evidence, Evidence("statistic", _say_within(problem, distances))]
    if measured.beyond_narrowest is not None and measured.beyond_narrowest.any():
        return "wrong", [*evidence, Evidence("statistic", _say_another_function(problem, measured.beyond_narrowest))]
    return "undecided", [*evidence, Evidence("statistic", _say_beyond(problem, distances))]


def judge_all(verdicts: list[Verdict], differences: list[Difference]) -> Verdict:
    """The verdict on all sides that have results: `identical` only if they agree with each other bit for bit."""
    verdict = worst_verdict(verdicts)
    if not is_agreement(verdict) or not differences:
        return verdict
    return "rounding" if any(d.differing for d in differences) else "identical"


def _say_wrong(exact: ExactData) -> str:
    return (
        f"{exact.differing:,} of {exact.elements:,} outputs differ on exact integers, {exact.where};"
        f" the first at {exact.first_index}: {exact.first_value:g} instead of {exact.first_truth:g}"
    )


def _say_inexact(exact: ExactData) -> str:
    return (
        f"{exact.differing:,} of {exact.elements:,} outputs differ on exact integers, but by no more than rounding"
        " could: a transform (Winograd, FFT) rounds where a sum of products cannot"
    )


def _say_within(problem: Problem, distances: Distances) -> str:
    return (
        f"every output is within its bound for {problem.reduction_length:,} products added in"
        f" {accumulator_format(problem).name} in any order; the largest error is"
        f" {distances.over_bound.max():.2g} of its bound"
    )


def _say_another_function(problem: Problem, beyond: npt.NDArray[np.bool_]) -> str:
    return (
        f"{int(beyond.sum()):,} of {beyond.size:,} outputs are farther from the truth than rounding everything to"
        f" bfloat16 could take them, {describe_places(problem, beyond)}"
    )


def _say_beyond(problem: Problem, distances: Distances) -> str:
    beyond = distances.over_bound > 1.0
    times = distances.over_bound.max()
    return (
        f"{int(beyond.sum()):,} of {beyond.size:,} outputs are beyond the bound for {problem.reduction_length:,}"
        f" products added in {accumulator_format(problem).name} in any order, by up to {times:.3g} times,"
        f" {describe_places(problem, beyond)}; which mechanism does that is not yet attributed"
    )
