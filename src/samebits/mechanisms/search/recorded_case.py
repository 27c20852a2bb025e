"""Explaining recorded results: the verdict, the deviating side, the cause and the proof, without any engine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from samebits import thresholds
from samebits.errors import CaseFileError
from samebits.findings import Comparison, Evidence, Side
from samebits.findings.causes import CauseCode
from samebits.findings.settings_advice import advise
from samebits.judging.comparing_cost import announce_cost, check_memory
from samebits.judging.references import Reference, list_differences, make_reference, start_document
from samebits.judging.sides import Attribution, Recorded, describe_side, measure_result
from samebits.judging.verdict_rules import Measured, judge_all
from samebits.mechanisms.evidence.explanation_sentences import (
    say_alternatives,
    say_coarse,
    say_excluded,
    say_others,
    say_what_to_do,
    summarize_explained,
)
from samebits.mechanisms.evidence.nearness import rounds_alike
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.operands.coarse_operands import compare_with_four_bits
from samebits.mechanisms.search.engine_matching import AskedEngine, ask_engines, match_engines
from samebits.mechanisms.search.mechanism_finding import Found, find_mechanism
from samebits.mechanisms.search.recalled import Recalled
from samebits.numbers.format import find_format
from samebits.numbers.ulps import has_same_bits
from samebits.problems.case_file import Case, lower_case
from samebits.progress import Progress, ignore_progress, prefix_progress

# "run 2", "torch #2", "torch (b)" as case files have it: what distinguishes two results of one engine.
_NUMBERING = re.compile(r"(?:(?<!\s)\s*\([b-z]\)|(?:\brun|\s#)\s*\d+)$")
_LONGEST_NAME = 40


def explain_case(
    case: Case,
    *,
    like: Sequence[str] = (),
    recalled: Recalled | None = None,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Judges the recorded results of a case and names what made each differ from the truth.

    Engines in `like` are asked for their recipes, which are tried before all else. Hypotheses are tried cheapest and
    likeliest first, on a sample of outputs before all of them. `recalled` is what the same side was proved to do in
    other cases, which is tried before that and added to. Raises CaseFileError for a case without results.
    """
    if not case.results:
        raise CaseFileError(
            "the case has operands but no result to explain: store them as `a`, `b` ...; to run engines"
            " on it, samebits compare CASE --on ENGINE"
        )
    check_memory(case.problem, len(case.results) + 2)
    case = lower_case(case)
    problem, operands = case.problem, case.operands
    announce_cost(problem, 1, 0, progress)
    reference = make_reference(problem, operands, progress)
    asked = ask_engines(like, problem, progress)
    sides: list[Side] = []
    for name, result in case.results.items():
        known = zip(sides, case.results.values(), strict=False)
        equal = next((side for side, other in known if has_same_bits(other, result)), None)
        if equal is not None:
            sides.append(msgspec.structs.replace(equal, name=name))
            continue
        observation = Observation(
            problem, operands, result, reference.truth, reference.bound, reference.magnitudes, likely=reference.likely
        )
        sides.append(_explain_side(reference, observation, asked, name, progress, recalled))
    return _conclude(reference, list(case.results.items()), sides)


def _explain_side(
    reference: Reference,
    observation: Observation,
    asked: list[AskedEngine],
    name: str,
    progress: Progress,
    recalled: Recalled | None,
) -> Side:
    measured = measure_result(reference, observation.result, distances=observation.distances)
    found = Found.nothing()
    matches = list(match_engines(asked, reference, observation.operands, observation.result))
    same = next((a for a in matches if a.mechanism), None)
    if same is not None:
        found = Found(same.mechanism, Counter())
    elif measured.differs_in_bits:
        found = find_mechanism(observation, prefix_progress(progress, f"{name[:_LONGEST_NAME]}: "), recalled)
    mechanism = found.mechanism
    attribution = None
    if mechanism is not None:
        attribution = Attribution(mechanism.recipe, mechanism.replay, mechanism, mechanism.evidence)
    engine = same.engine.text if same else None
    side = describe_side(reference, Recorded(name, observation.result, engine), measured, attribution)
    side = msgspec.structs.replace(side, evidence=[*side.evidence, *(a.evidence for a in matches)])
    return _finish(side, observation, measured, found)


def _finish(side: Side, observation: Observation, measured: Measured, found: Found) -> Side:
    """Adds evidence levels, and the hypotheses that were excluded, to a side."""
    # Bounds may leave no room for the mechanism that was found.
    mechanism = found.mechanism if side.says is not None else None
    evidence = list(side.evidence)
    cause, level = side.cause, side.cause_certainty
    if mechanism is not None:
        others = say_others(level, mechanism.tried, mechanism.alternatives)
        evidence += [Evidence("statistic", others)] if others else []
        if mechanism.alternatives:
            evidence.append(Evidence("statistic", say_alternatives(mechanism.alternatives)))
    elif side.verdict == "rounding" and _needs_no_mechanism(observation, measured):
        # That it is another order is inferred.
        cause, level = CauseCode.SUMMATION_ORDER, "statistics"
    elif measured.differs_in_bits:
        side = _doubt(side, observation)
        evidence = list(side.evidence)
        evidence.append(Evidence("statistic", say_excluded(found.tried, found.unproved)))
        if side.verdict == "undecided":
            evidence.append(Evidence("statistic", say_what_to_do()))
    if side.verdict == "rounding" and cause == CauseCode.SUMMATION_ORDER and _cancels(observation):
        cause = CauseCode.ILL_CONDITIONED
    return msgspec.structs.replace(side, cause=cause, cause_certainty=level, evidence=evidence)


def _doubt(side: Side, observation: Observation) -> Side:
    """Weakens a proved `wrong` that no hypothesis explains where operands of four bits may explain it."""
    if (side.verdict, side.certainty) != ("wrong", "bounds") or observation.mark_outside().any():
        return side
    coarse = compare_with_four_bits(observation)
    if coarse.is_beyond:
        return side
    verdict, certainty = ("wrong", "statistics") if coarse.is_unlikely else ("undecided", "open")
    evidence = [*side.evidence, Evidence("statistic", say_coarse(unlikely=coarse.is_unlikely))]
    return msgspec.structs.replace(side, verdict=verdict, certainty=certainty, evidence=evidence)


def _needs_no_mechanism(observation: Observation, measured: Measured) -> bool:
    """Whether other orders of addition explain errors inside the bound: as likely ones, or as these data make them."""
    over = measured.over_likely
    return over is None or over <= 1 or rounds_alike(observation, over)


def _cancels(observation: Observation) -> bool:
    """Whether the whole result lost half its digits although every output is within its bound."""
    truth = observation.truth.astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.linalg.norm(observation.result.astype(np.float64) - truth) / np.linalg.norm(truth)
    digits = find_format(observation.problem.out).precision
    return bool(away > 2.0 ** (-digits * thresholds.LOST_DIGITS))


def _are_runs_of_one(sides: list[Side]) -> bool:
    """Whether the names say so: `run 1` and `run 2`, `torch #1` and `torch #2`, one name given twice."""
    return len(sides) > 1 and len({_NUMBERING.sub("", s.name).strip() for s in sides}) == 1


def _conclude(reference: Reference, results: list[tuple[str, np.ndarray]], sides: list[Side]) -> Comparison:
    differences = list_differences(reference.problem, results)
    verdict = judge_all([s.verdict for s in sides], differences)
    deviating = [s for s in sides if s.verdict == verdict] or sides
    cause = deviating[0].cause if verdict != "identical" else None
    evidence: list[Evidence] = []
    if verdict == "rounding" and _are_runs_of_one(sides) and any(d.differing for d in differences):
        cause = CauseCode.NONDETERMINISM
        evidence.append(Evidence("statistic", "the same engine differs from itself on the same operands, run to run"))
    return msgspec.structs.replace(
        start_document(reference, sides, differences, "recorded"),
        verdict=verdict,
        cause=cause,
        evidence=evidence,
        summary=summarize_explained(verdict, sides),
        fixes=advise(
            [cause] if cause else [],
            product=reference.problem.stated is not None,
            names=[s.engine or s.name for s in deviating if s.cause == cause],
            says=" ".join(s.says or "" for s in deviating if s.cause == cause),
        ),
    )
