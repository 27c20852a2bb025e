"""One runner on exact integers and on the operands in question; whatever it does becomes data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import numpy as np

from samebits import thresholds
from samebits.engines.runner import Identity, Runner, check_result
from samebits.engines.runner.repeated_runs import RepeatedRuns, run_again
from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Evidence, ExactData, Failure, Side, Varying, Verdict, is_agreement, worst_verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.formula_reference import (
    FormulaReference,
    judge_exact_formula,
    measure_formula,
)
from samebits.judging.judging_sentences import say_other_bits
from samebits.judging.measuring import describe_exact, estimate_transform_noise, measure_distances
from samebits.judging.references import Reference
from samebits.judging.sides import Attribution, Recorded, describe_side, measure_result
from samebits.judging.verdict_rules import Measured
from samebits.problems.any_problem import AnyProblem


@dataclass(frozen=True)
class Ran:
    """What one runner returned, on the operands and on exact integers; or one recorded result.

    `calls` and `exact_calls` are what it returned when it was called again on the same operands; None where it was not.
    """

    recorded: Recorded
    on_exact: np.ndarray | None = None
    calls: RepeatedRuns | None = None
    exact_calls: RepeatedRuns | None = None

    @property
    def count(self) -> int | None:
        """How many calls there were, on both sets of operands together; None where there was one of each."""
        made = [c.count for c in (self.calls, self.exact_calls) if c is not None]
        return sum(made) if made else None

    @property
    def repeats(self) -> bool | None:
        """Whether all calls on the same operands returned the same bits; None where there was one of each."""
        made = [c for c in (self.calls, self.exact_calls) if c is not None]
        return all(c.is_same for c in made) if made else None


def run_on_both(
    runner: Runner,
    problem: AnyProblem,
    exact: Mapping[str, np.ndarray],
    operands: Mapping[str, np.ndarray],
    *,
    calls: int | None = 1,
) -> Ran:
    """Runs both sets of operands (one that is both: once); an engine that fails leaves what it did, and its failure.

    Both are run `calls` times, to see whether the bits are the same; None: twice, and more often where that is cheap.
    """
    identity: Identity | None = None
    on_exact: np.ndarray | None = None
    result: np.ndarray | None = None
    on_data: RepeatedRuns | None = None
    on_integers: RepeatedRuns | None = None
    failure: Failure | None = None
    try:
        identity = runner.identify()
        on_exact = check_result(problem, runner.run(problem, exact))
        result = on_exact if operands is exact else check_result(problem, runner.run(problem, operands))
        if calls != 1:
            on_data = run_again(runner, problem, operands, result, calls)
            if calls is not None or on_data.count > 2:  # Else a call takes long.
                on_integers = run_again(runner, problem, exact, on_exact, calls)
        # Only now can a caller's runner say what it was seen to do.
        identity = runner.identify()
    except EngineFailure as error:
        # Failure lists the kinds that EngineFailure and its classes declare as plain text.
        failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
    except (SamebitsError, MemoryError) as error:
        failure = Failure("error", f"{type(error).__name__}: {error}")
    recorded = Recorded(runner.text, result, runner.text, identity, failure)
    return Ran(recorded, on_exact, on_data, on_integers)


ReferenceT = TypeVar("ReferenceT", Reference, FormulaReference)


def judge_ran(
    reference: ReferenceT, exact: ReferenceT | None, ran: Ran, attribution: Attribution | None = None
) -> Side:
    """The finding of one side, from what it returned on both sets of operands and the recipe that was found, if any.

    Where calls on the same operands returned other bits, the worst of the results is the side's.
    """
    on_exact, beyond, faulty_exact = _judge_integers(exact, ran) if exact is not None else (None, False, 0)
    result = ran.recorded.result
    side = describe_side(
        reference, ran.recorded, _measure(reference, result, on_exact, exact_beyond=beyond), attribution
    )
    if ran.repeats is not False or result is None:
        return msgspec.structs.replace(side, repeats=ran.repeats, calls=ran.count)
    others = [
        describe_side(reference, replace(ran.recorded, result=other), _measure(reference, other, None))
        for other in (ran.calls.results[1:] if ran.calls else ())
    ]
    verdicts: list[Verdict] = [side.verdict, *(other.verdict for other in others)]
    worst = worst_verdict(verdicts)
    if worst != side.verdict:
        side = msgspec.structs.replace(others[verdicts.index(worst) - 1], exact_data=on_exact)
    if is_agreement(side.verdict):
        # A run that happens to be correctly rounded does not make the other one so.
        side = msgspec.structs.replace(
            side, verdict="rounding", certainty="bounds", cause=CauseCode.NONDETERMINISM, cause_certainty="bits"
        )
    if exact is not None and ran.exact_calls is not None and not ran.exact_calls.is_same:
        varying = _describe_varying(exact.problem, ran.exact_calls, faulty_exact)
    else:
        assert ran.calls is not None
        counted = zip(ran.calls.counts, verdicts, strict=True)
        faulty = sum(count for count, verdict in counted if not is_agreement(verdict))
        varying = _describe_varying(reference.problem, ran.calls, faulty)
    said = Evidence("statistic", say_other_bits(varying))
    evidence = [*side.evidence, said]
    return msgspec.structs.replace(side, repeats=False, calls=ran.count, varying=varying, evidence=evidence)


def _measure(
    reference: ReferenceT, result: np.ndarray | None, on_exact: ExactData | None, *, exact_beyond: bool = False
) -> Measured:
    if isinstance(reference, FormulaReference):
        return measure_formula(reference, result, on_exact, exact_beyond=exact_beyond)
    return measure_result(reference, result, on_exact, exact_beyond=exact_beyond)


def _judge_integers(exact: ReferenceT, ran: Ran) -> tuple[ExactData | None, bool, int]:
    """The worst of what came of exact integers, whether it is beyond rounding, and in how many calls that is so."""
    if ran.on_exact is None:
        return None, False, 0
    results, counts = (ran.on_exact,), (1,)
    if ran.exact_calls is not None:
        results, counts = ran.exact_calls.results, ran.exact_calls.counts
    judged = [
        judge_exact_formula(exact, r) if isinstance(exact, FormulaReference) else judge_exact(exact, r) for r in results
    ]
    faulty = sum(count for (_, beyond), count in zip(judged, counts, strict=True) if beyond)
    found, beyond = max(judged, key=lambda one: (one[1], one[0].differing))
    return found, beyond, faulty


def _describe_varying(problem: AnyProblem, calls: RepeatedRuns, faulty: int) -> Varying:
    marked = calls.mark_varying()
    where = describe_places(problem, marked)
    return Varying(
        calls=calls.count,
        other=calls.other,
        faulty=faulty,
        outputs=int(marked.sum()),
        elements=marked.size,
        where=where,
    )


def judge_exact(exact: Reference, result: np.ndarray) -> tuple[ExactData, bool]:
    """What happened on exact integers, and whether any difference is beyond what rounding could make."""
    distances = measure_distances(exact.problem, result, exact.truth, exact.bound, exact.magnitudes)
    differing = distances.absolute > 0
    found = describe_exact(exact.problem, differing, result, exact.truth)
    in_halves = _are_fractions(result[differing])
    noise = estimate_transform_noise(exact.problem, exact.magnitudes, in_halves=in_halves)
    rounding = np.maximum(exact.bound, noise)
    return found, bool((distances.absolute > rounding).any())


def _are_fractions(values: np.ndarray) -> bool:
    """Whether most of these are no integers: no sum of products of integers then, of whichever, but a transform's."""
    given = values.astype(np.float64)
    return bool((np.isfinite(given) & (np.rint(given) != given)).mean() > thresholds.MAJORITY) if given.size else False
