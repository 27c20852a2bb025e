"""The one rule that makes a verdict: from what was measured of a side, and what was found to have made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.findings import Certainty, Evidence, ExactData, Replay, Verdict, is_agreement, worst_verdict
from samebits.findings.causes import CauseCode, find_cause
from samebits.findings.comparison_schema import Difference
from samebits.findings.model_schema import OutputDifference
from samebits.judging.judging_sentences import (
    say_another_function,
    say_beyond,
    say_inexact,
    say_right_on_integers,
    say_within,
    say_wrong_on_integers,
)
from samebits.judging.measuring import Distances
from samebits.problems.any_problem import AnyProblem
from samebits.sums.recipes.recipe import Recipe

# How the prediction of a mechanism fits a result: the same bits; every output within the rounding bound of the
# prediction; or merely closer to it than to the truth.
Fit = Literal["bits", "bound", "nearness"]


@dataclass(frozen=True)
class Measured:
    """What is known of one side before it is judged; any part may be missing.

    `exact_beyond_rounding` tells that a difference on exact integers is larger than rounding could make one;
    `another_function` marks outputs farther from the truth than any direct arithmetic down to bfloat16, or the noise
    of a transform, could take them, `beyond_transforms` whether even one in half precision could not.
    `over_likely` is the largest error as a share of the probabilistic bound, which proves nothing.
    """

    exact: ExactData | None = None
    exact_beyond_rounding: bool = False
    distances: Distances | None = None
    differs_in_bits: bool = True
    another_function: npt.NDArray[np.bool_] | None = None
    beyond_transforms: bool = True
    over_likely: float | None = None

    @property
    def is_another_function(self) -> bool:
        """Whether the distances alone prove that another function was computed."""
        return self.another_function is not None and bool(self.another_function.any())


@dataclass(frozen=True)
class Mechanism:
    """What was found to have made a side's result.

    `verdict` is what the side deserves if this is what it did, `says` the predicate of a sentence about it. `sampled`
    tells that not all outputs were compared with it; `alternatives` are mechanisms that the data do not distinguish
    from it; `tried` counts the hypotheses that were tried.
    """

    cause: CauseCode | None
    verdict: Verdict
    says: str
    fit: Fit
    sampled: bool = False
    recipe: Recipe | None = None
    replay: Replay | None = None
    alternatives: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    tried: int = 0


@dataclass(frozen=True)
class Judgement:
    """The verdict on one side. `certainty` is the level of the verdict, `cause_certainty` that of the cause.

    A bound can prove that another function was computed while which fault did it is inferred. `mechanism` is the one
    that the verdict rests on, if any.
    """

    verdict: Verdict
    certainty: Certainty
    cause: CauseCode | None = None
    cause_certainty: Certainty | None = None
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    mechanism: Mechanism | None = None


def judge_side(problem: AnyProblem, measured: Measured, mechanism: Mechanism | None = None) -> Judgement:
    """The verdict of one side, its cause, the evidence level of both, and the evidence of the measurements.

    Exact integers come first: there no rounding can occur, so a difference beyond what rounding could make is another
    function (`wrong`), and a smaller one means an algorithm that is no sum of products. A result inside the bound of
    the declared formats is `rounding`, unless a mechanism that loses precision is established all the same. Beyond the
    bound the mechanism decides; without one a result beyond all arithmetic down to bfloat16 is another function
    (`wrong`), and between the two it is `undecided`.
    """
    exact, distances = measured.exact, measured.distances
    evidence: list[Evidence] = []
    if exact and exact.differing:
        if measured.exact_beyond_rounding:
            evidence.append(Evidence("structure", say_wrong_on_integers(exact)))
            if mechanism is None or mechanism.verdict != "wrong":
                return Judgement("wrong", "bounds", evidence=evidence)
            return Judgement("wrong", "bounds", mechanism.cause, _level_of(mechanism), evidence, mechanism)
        evidence.append(Evidence("structure", say_inexact(exact)))
    elif exact:
        evidence.append(Evidence("structure", say_right_on_integers(exact)))
    if distances is None:
        return Judgement("undecided", "open", evidence=evidence)
    if not measured.differs_in_bits:
        evidence.append(Evidence("statistic", "every output is correctly rounded"))
        if exact and exact.differing:
            return Judgement("undecided", "open", evidence=evidence)
        return Judgement("identical", "bits", evidence=evidence)
    if distances.within_bound:
        evidence.append(Evidence("statistic", say_within(problem, distances.over_bound, measured.over_likely)))
        return _judge_within(exact, mechanism, evidence)
    if measured.is_another_function and measured.another_function is not None:
        evidence.append(Evidence("structure", say_another_function(problem, measured.another_function)))
    else:
        evidence.append(Evidence("statistic", say_beyond(problem, distances.over_bound)))
    return _judge_beyond(measured, mechanism, evidence)


def _judge_within(exact: ExactData | None, mechanism: Mechanism | None, evidence: list[Evidence]) -> Judgement:
    """Every output is inside the bound of the declared formats."""
    if mechanism is None:
        if exact and exact.differing:
            return Judgement("undecided", "open", evidence=evidence)
        return Judgement("rounding", "bounds", evidence=evidence)
    verdict = mechanism.verdict
    if mechanism.cause is not None and find_cause(mechanism.cause).within_bound == "rounding":
        verdict = "rounding"
    level: Certainty = "bounds" if verdict == "rounding" else _level_of(mechanism)
    return Judgement(verdict, level, mechanism.cause, _level_of(mechanism), evidence, mechanism)


def _judge_beyond(measured: Measured, mechanism: Mechanism | None, evidence: list[Evidence]) -> Judgement:
    """Some output is beyond the bound of the declared formats."""
    proved = measured.is_another_function
    if mechanism is not None and _can_stand(measured, mechanism):
        level = _level_of(mechanism)
        certainty = "bounds" if proved and mechanism.verdict == "wrong" else level
        return Judgement(mechanism.verdict, certainty, mechanism.cause, level, evidence, mechanism)
    if proved:
        return Judgement("wrong", "bounds", evidence=evidence)
    return Judgement("undecided", "open", evidence=evidence)


def _can_stand(measured: Measured, mechanism: Mechanism) -> bool:
    """Whether what the bounds prove of all outputs leaves room for a mechanism."""
    if mechanism.verdict == "wrong":
        return True
    if mechanism.cause in (CauseCode.WINOGRAD, CauseCode.FFT) and not measured.beyond_transforms:
        return True
    if measured.is_another_function and (mechanism.sampled or mechanism.fit == "nearness"):
        # Neither a sample nor nearness on the whole can take back what all outputs showed.
        return False
    if mechanism.verdict == "rounding" and mechanism.cause != CauseCode.OVERFLOW:
        # Correct sums stay inside a finite bound, whatever was replayed.
        return measured.distances is None or not measured.distances.is_beyond
    return True


def _level_of(mechanism: Mechanism) -> Certainty:
    """Only bits prove what a side did; whatever else fits is inferred."""
    return "bits" if mechanism.fit == "bits" and not mechanism.sampled else "statistics"


def judge_all(verdicts: list[Verdict], differences: Sequence[Difference | OutputDifference]) -> Verdict:
    """The verdict on all sides that have results: `identical` only if they agree with each other bit for bit."""
    verdict = worst_verdict(verdicts)
    if not is_agreement(verdict) or not differences:
        return verdict
    return "rounding" if any(d.differing for d in differences) else "identical"
