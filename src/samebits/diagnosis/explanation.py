"""Explaining recorded results: the verdict, the guilty side, the cause and the proof, without any engine."""

from __future__ import annotations

import itertools
import re

import msgspec
import numpy as np

from samebits.bounds import bound_errors, bound_narrowest_errors
from samebits.contraction.magnitudes import sum_magnitudes
from samebits.diagnosis.advice import advise
from samebits.diagnosis.comparison import Report, check_memory, few_values
from samebits.diagnosis.explanation_summary import summarize_explained
from samebits.diagnosis.judging import Measured, judge_all, judge_side
from samebits.diagnosis.lineup import Explanation, LineUp
from samebits.diagnosis.measuring import (
    Distances,
    compare_results,
    find_worst,
    mark_differing_bits,
    measure_distances,
    summarize_error,
)
from samebits.diagnosis.places import describe_places
from samebits.diagnosis.regions import (
    explain_flush,
    explain_noise,
    explain_region,
    explain_values,
    explain_zeros,
)
from samebits.errors import CaseFileError
from samebits.findings import CERTAINTY_SAYS, Comparison, Evidence, Side
from samebits.formats.format import find_format
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case
from samebits.recipes.text import format_recipe
from samebits.suspects import Study
from samebits.truth import Truth, compute_truth
from samebits.version import VERSION

# Within the bound, losing so large a part of the digits only says that the sums cancel.
_HALF = 0.5
# Numbers that are no numbers may come of an arithmetic that can be named.
_OPEN_VALUES = ("overflow", "uninitialized-memory")
_NUMBERING = re.compile(r"(?:\s*\(b\)|(?:\brun|\s#)\s*\d+)$")


def explain_case(case: Case, *, report: Report | None = None) -> Comparison:
    """Judges the recorded results of a case and names what made each differ from the truth.

    Suspects are tried by replay, cheapest and likeliest first, on a sample of outputs before all of them. Raises
    CaseFileError for a case without results.
    """
    if not case.results:
        raise CaseFileError(
            "the case has operands but no result to explain: store one as `a`, two as `a` and `b`; to run engines"
            " on it, samebits compare CASE --on ENGINE"
        )
    problem, operands = case.problem, case.operands
    say = report or (lambda what, share: None)
    check_memory(problem, len(case.results) + 2)
    truth = compute_truth(problem, operands, progress=lambda share: say("computing the truth", share))
    magnitudes = sum_magnitudes(problem, operands, progress=lambda share: say("bounding errors", share))
    bound = bound_errors(problem, operands, truth.values, magnitudes=magnitudes)
    sides: list[Side] = []
    for name, result in case.results.items():
        twin = next((s for s, r in zip(sides, case.results.values(), strict=False) if _same(r, result)), None)
        if twin is not None:
            sides.append(msgspec.structs.replace(twin, name=name))
            continue
        study = Study(problem, operands, result, truth.values, bound, magnitudes)
        sides.append(_explain_side(study, truth, name, say))
    return _conclude(problem, truth, list(case.results.items()), sides)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return not mark_differing_bits(a, b).any()


def _explain_side(study: Study, truth: Truth, name: str, say: Report) -> Side:
    problem, result = study.problem, study.result
    distances = measure_distances(problem, result, study.truth, study.bound)
    differs = bool(mark_differing_bits(result, study.truth).any())
    narrowest = bound_narrowest_errors(problem, study.truth, study.magnitudes)
    verdict, evidence = judge_side(problem, Measured(None, False, distances, differs, distances.mark_beyond(narrowest)))
    found = line_up(study, distances, lambda what, share: say(f"{name[:40]}: {what}", share)) if differs else None
    if found is None and verdict == "rounding":
        found = _explain_rounding()
    if found is not None:
        # A sample cannot take back what all outputs showed.
        verdict = "wrong" if found.sampled and verdict == "wrong" else found.verdict
        evidence = [*found.evidence, *_say_certainty(found)]
    elif verdict == "undecided":
        evidence = [*evidence, _say_what_to_do(problem)]
    cause = found.cause if found else None
    if verdict == "rounding" and cause == "summation-order" and _cancels(study):
        cause = "ill-conditioned"
    return Side(
        name=name,
        engine=None,
        verdict=verdict,
        cause=cause,
        says=found.says if found else None,
        certainty=found.certainty if found else None,
        recipe=format_recipe(found.recipe) if found and found.recipe else None,
        replay=found.replay if found else None,
        error=summarize_error(distances, study.truth),
        values=few_values(result),
        worst=find_worst(problem, result, study.truth, distances),
        where=describe_places(problem, distances.over_bound > 1.0),
        evidence=evidence,
    )


def line_up(study: Study, distances: Distances, say: Report) -> Explanation | None:
    """The explanation of one result that differs from the truth; None where no suspect fits."""
    values = explain_values(study, distances) or explain_zeros(study, distances)
    if values is not None and (values.verdict == "rounding" or values.cause not in _OPEN_VALUES):
        return values
    if not study.result.any() and (flushed := explain_flush(study, distances)):
        # Formats with fewer exponents give zeros too, but numbers near float32's smallest are seldom put in those.
        return flushed
    suspects = LineUp(study, distances, say)
    found = suspects.run()
    if values is not None:
        # Which arithmetic overflows is known only if its bits were replayed.
        if found is None or found.certainty != "bits":
            return values
        if values.cause == "overflow":
            found.cause, found.evidence = values.cause, found.evidence + values.evidence
    overflowed = bool((np.isfinite(study.truth) & ~np.isfinite(study.result)).any())
    if overflowed and found is not None and found.certainty == "bits" and found.cause == "low-precision-accumulator":
        found.cause = "overflow"
    if found is None or (found.certainty == "statistics" and found.replay is None):
        found = explain_region(study, suspects) or suspects.run_fitted() or found
    return found or explain_flush(study, distances) or explain_noise(study, suspects)


def _explain_rounding() -> Explanation:
    noise = Evidence(
        "statistic", "every output is within its bound, and no suspect explains the errors: rounding noise"
    )
    says = "adds the declared products in an order of its own"
    return Explanation("rounding", "summation-order", says, "bounds", evidence=[noise])


def _cancels(study: Study) -> bool:
    """Whether the whole result lost half its digits although every output is within its bound."""
    truth = study.truth.astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.linalg.norm(study.result.astype(np.float64) - truth) / np.linalg.norm(truth)
    return bool(away > 2.0 ** (-find_format(study.problem.out).precision * _HALF))


def _say_certainty(found: Explanation) -> list[Evidence]:
    kind = "replay" if found.certainty == "bits" else "statistic"
    excluded = max(found.tried - 1 - len(found.others), 0)
    says = CERTAINTY_SAYS[found.certainty]
    if found.certainty == "statistics":
        says += "; recording the arrays of a smaller case may let bits prove it"
    if excluded:
        says += f"; {excluded} other suspects do not fit"
    said = [Evidence(kind, says)]
    if found.others:
        said.append(Evidence("statistic", f"these data cannot tell it from: {'; '.join(found.others[:3])}"))
    return said


def _say_what_to_do(problem: Problem) -> Evidence:
    return Evidence(
        "statistic",
        "cannot tell: no suspect fits; to find out, put the engine itself to it: samebits compare"
        f' "{format_problem(problem)}" --on ENGINE, which tries exact integers and probes how it adds',
    )


def _are_runs_of_one(sides: list[Side]) -> bool:
    """Whether the names say so: `run 1` and `run 2`, `torch #1` and `torch #2`, one name given twice."""
    return len(sides) > 1 and len({_NUMBERING.sub("", s.name).strip() for s in sides}) == 1


def _conclude(problem: Problem, truth: Truth, results: list[tuple[str, np.ndarray]], sides: list[Side]) -> Comparison:
    differences = [compare_results(problem, a, b) for a, b in itertools.combinations(results, 2)]
    verdict = judge_all([s.verdict for s in sides], differences)
    guilty = [s for s in sides if s.verdict == verdict] or sides
    cause = guilty[0].cause if verdict != "identical" else None
    evidence: list[Evidence] = []
    if verdict == "rounding" and _are_runs_of_one(sides) and any(d.differing for d in differences):
        cause = "nondeterminism"
        evidence.append(Evidence("statistic", "the same engine differs from itself on the same operands, run to run"))
    return Comparison(
        problem=format_problem(problem),
        verdict=verdict,
        cause=cause,
        evidence=evidence,
        summary=summarize_explained(verdict, sides),
        data="recorded",
        outputs=truth.values.size,
        reduction_length=problem.reduction_length,
        truth=few_values(truth.values),
        settled=truth.settled,
        sides=sides,
        differences=differences,
        fixes=advise([cause] if cause else []),
        samebits_version=VERSION,
    )
