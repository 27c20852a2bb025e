"""One runner on exact integers and on the operands in question; whatever it does becomes data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from samebits import thresholds
from samebits.engines.runner import Identity, Runner, check_result
from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Evidence, ExactData, Failure, Side, is_agreement, worst_verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.judging_sentences import say_other_bits
from samebits.judging.measuring import estimate_transform_noise, measure_distances
from samebits.judging.references import Reference
from samebits.judging.sides import Attribution, Recorded, describe_side, measure_result
from samebits.numbers.ulps import has_same_bits, mark_differing_bits
from samebits.problems import Problem
from samebits.problems.lowering import state_index


@dataclass(frozen=True)
class Ran:
    """What one runner returned, on the operands and on exact integers; or one recorded result.

    `again` is the result of a second run on the same operands, kept where it has other bits than the first; `repeats`
    tells whether it had the same, None where there was no second run.
    """

    recorded: Recorded
    on_exact: np.ndarray | None = None
    again: np.ndarray | None = None
    repeats: bool | None = None


def run_on_both(
    runner: Runner,
    problem: Problem,
    exact: Mapping[str, np.ndarray],
    operands: Mapping[str, np.ndarray],
    *,
    twice: bool = False,
) -> Ran:
    """Runs both sets of operands (one that is both: once); an engine that fails leaves what it did, and its failure.

    With `twice` the operands are run a second time, to see whether the bits are the same.
    """
    identity: Identity | None = None
    on_exact: np.ndarray | None = None
    result: np.ndarray | None = None
    again: np.ndarray | None = None
    repeats: bool | None = None
    failure: Failure | None = None
    try:
        identity = runner.identify()
        on_exact = check_result(problem, runner.run(problem, exact))
        result = on_exact if operands is exact else check_result(problem, runner.run(problem, operands))
        if twice:
            again = check_result(problem, runner.run(problem, operands))
            repeats = has_same_bits(result, again)
        # Only now can a caller's runner say what it was seen to do.
        identity = runner.identify()
    except EngineFailure as error:
        # Failure lists the kinds that EngineFailure and its classes declare as plain text.
        failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
    except (SamebitsError, MemoryError) as error:
        failure = Failure("error", f"{type(error).__name__}: {error}")
    recorded = Recorded(runner.text, result, runner.text, identity, failure)
    return Ran(recorded, on_exact, None if repeats else again, repeats)


def judge_ran(reference: Reference, exact: Reference, ran: Ran, attribution: Attribution | None = None) -> Side:
    """The finding of one side, from what it returned on both sets of operands and the recipe that was found, if any.

    Where a second run gave other bits, the worse of both results is the side's.
    """
    on_exact, beyond = judge_exact(exact, ran.on_exact) if ran.on_exact is not None else (None, False)
    measured = measure_result(reference, ran.recorded.result, on_exact, exact_beyond=beyond)
    side = describe_side(reference, ran.recorded, measured, attribution)
    if ran.again is None or ran.recorded.result is None:
        return msgspec.structs.replace(side, repeats=ran.repeats)
    again = measure_result(reference, ran.again, on_exact, exact_beyond=beyond)
    other = describe_side(reference, replace(ran.recorded, result=ran.again), again)
    if worst_verdict([side.verdict, other.verdict]) != side.verdict:
        side = other
    differing = int(mark_differing_bits(ran.recorded.result, ran.again).sum())
    said = Evidence("statistic", say_other_bits(differing, ran.again.size))
    if is_agreement(side.verdict):
        # A run that happens to be correctly rounded does not make the other one so.
        side = msgspec.structs.replace(
            side, verdict="rounding", certainty="bounds", cause=CauseCode.NONDETERMINISM, cause_certainty="bits"
        )
    return msgspec.structs.replace(side, repeats=False, evidence=[*side.evidence, said])


def judge_exact(exact: Reference, result: np.ndarray) -> tuple[ExactData, bool]:
    """What happened on exact integers, and whether any difference is beyond what rounding could make."""
    truth = exact.truth
    distances = measure_distances(exact.problem, result, truth, exact.bound, exact.magnitudes)
    differing = distances.absolute > 0
    places = np.argwhere(differing)
    first = tuple(int(i) for i in places[0]) if len(places) else None
    found = ExactData(
        differing=int(differing.sum()),
        elements=result.size,
        where=describe_places(exact.problem, differing),
        first_index=list(state_index(exact.problem, first)) if first is not None else None,
        first_value=float(result[first]) if first else None,
        first_truth=float(truth[first]) if first else None,
    )
    in_halves = _are_fractions(result[differing])
    noise = estimate_transform_noise(exact.problem, exact.magnitudes, in_halves=in_halves)
    rounding = np.maximum(exact.bound, noise)
    return found, bool((distances.absolute > rounding).any())


def _are_fractions(values: np.ndarray) -> bool:
    """Whether most of these are no integers: no sum of products of integers then, of whichever, but a transform's."""
    given = values.astype(np.float64)
    return bool((np.isfinite(given) & (np.rint(given) != given)).mean() > thresholds.MAJORITY) if given.size else False
