"""From distances to verdicts: the rules, and the sentences that say why."""

from __future__ import annotations

import numpy as np

from samebits.bounds import accumulator_format
from samebits.diagnosis.measuring import Distances
from samebits.findings import Evidence, ExactData, Verdict, is_agreement, worst_verdict
from samebits.findings.comparison import Difference, Side
from samebits.problems import Problem


def judge_side(
    problem: Problem,
    exact: ExactData | None,
    exact_beyond_rounding: bool,
    distances: Distances | None,
    bits_differ: bool,
) -> tuple[Verdict, list[Evidence]]:
    """The verdict of one side and its evidence.

    Exact data come first: there no rounding can occur, so a difference beyond what rounding could make is another
    function (`wrong`), and a smaller one means an algorithm that is not a sum of products (`undecided`). On other data
    a result inside the bound of the declared formats is `rounding`; outside it stays `undecided`, because the function
    is right and how it was computed is not known.
    """
    if exact and exact.differing and exact_beyond_rounding:
        return "wrong", [Evidence("structure", _say_wrong(exact))]
    if exact and exact.differing:
        return "undecided", [Evidence("structure", _say_inexact(exact))]
    evidence = []
    if exact:
        evidence.append(Evidence("structure", f"all {exact.elements} outputs are right on exact integers"))
    if distances is None:
        return "undecided", evidence
    if not bits_differ:
        return "identical", [*evidence, Evidence("statistic", "every output is correctly rounded")]
    if distances.within_bound:
        return "rounding", [*evidence, Evidence("statistic", _say_within(problem, distances))]
    return "undecided", [*evidence, Evidence("statistic", _say_beyond(problem, distances))]


def judge_all(sides: list[Side], differences: list[Difference]) -> Verdict:
    """The verdict on all sides that have results: `identical` only if they agree with each other bit for bit."""
    verdict = worst_verdict(side.verdict for side in sides if side.failure is None)
    if not is_agreement(verdict) or not differences:
        return verdict
    return "rounding" if any(d.differing for d in differences) else "identical"


def summarize(verdict: Verdict, sides: list[Side]) -> str:
    """One sentence a person can repeat."""
    ran = [s for s in sides if s.failure is None]
    if not ran:
        return (
            f"No side returned a result: {sides[0].failure.says if sides and sides[0].failure else 'none was asked'}."
        )
    wrong = [s for s in ran if s.verdict == "wrong"]
    if wrong:
        return " ".join(_summarize_wrong(s) for s in wrong)
    unclear = [s for s in ran if s.verdict == "undecided"]
    if unclear:
        return " ".join(_summarize_unclear(s) for s in unclear)
    worst = max(s.error.max_ulp or 0.0 for s in ran if s.error)
    right = [s.name for s in ran if s.verdict == "identical"]
    others = [s.name for s in ran if s.verdict == "rounding"]
    if not others:
        return f"{_all_of(right)} correctly rounded: the same bits as the truth."
    if verdict == "identical":
        return f"The same bits from every side; within {worst:.0f} ulp of the truth."
    said = "They add the same products with different roundings. None is wrong; all are"
    said = f"{said} within {worst:.0f} ulp of the truth." if len(ran) > 1 else f"Within {worst:.0f} ulp of the truth."
    return f"{said} {_all_of(right)} correctly rounded." if right else said


def _all_of(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def _summarize_wrong(side: Side) -> str:
    exact = side.exact_data
    assert exact is not None
    return (
        f"{side.name} computes another function: {exact.differing} of {exact.elements} outputs differ on integers"
        f" that leave no room for rounding, {exact.where}."
    )


def _summarize_unclear(side: Side) -> str:
    if side.exact_data and side.exact_data.differing:
        return f"{side.name} rounds even on exact integers: it does not add the products one by one."
    share = side.error.max_over_bound if side.error else None
    if share is None or not np.isfinite(share):
        return f"{side.name} is not finite where the truth is, or the other way round."
    return (
        f"{side.name} is right on exact integers but up to {share:.3g} times its error bound from the truth:"
        " it computes in less precision than declared, or by another algorithm."
    )


def _say_wrong(exact: ExactData) -> str:
    return (
        f"{exact.differing} of {exact.elements} outputs differ on exact integers, {exact.where};"
        f" the first at {exact.first_index}: {exact.first_value:g} instead of {exact.first_truth:g}"
    )


def _say_inexact(exact: ExactData) -> str:
    return (
        f"{exact.differing} of {exact.elements} outputs differ on exact integers, but by no more than rounding could:"
        " a transform (Winograd, FFT) rounds where a sum of products cannot"
    )


def _say_within(problem: Problem, distances: Distances) -> str:
    return (
        f"every output is within its bound for {problem.reduction_length} products added in"
        f" {accumulator_format(problem).name} in any order; the largest error is"
        f" {distances.over_bound.max():.2g} of its bound"
    )


def _say_beyond(problem: Problem, distances: Distances) -> str:
    beyond = int((distances.over_bound > 1.0).sum())
    return (
        f"{beyond} of {distances.absolute.size} outputs are beyond the bound for {problem.reduction_length} products"
        f" added in {accumulator_format(problem).name} in any order, by up to {distances.over_bound.max():.3g} times;"
        " which mechanism does that is not yet attributed"
    )
