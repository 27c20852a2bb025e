"""A side of a comparison as a finding: what was measured, how it was judged, what it is shown with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samebits.engines.runner import Identity
from samebits.findings import Evidence, ExactData, Failure, Replay, Side
from samebits.findings.words.place_words import describe_places
from samebits.judging.error_pictures import picture_errors
from samebits.judging.measuring import (
    Distances,
    estimate_transform_noise,
    find_worst,
    has_narrow_operands,
    mark_outside,
    measure_distances,
    measure_likely,
    summarize_error,
)
from samebits.judging.references import JudgedBy, Reference, list_few_values
from samebits.judging.verdict_rules import Judgement, Measured, Mechanism, judge_side
from samebits.numbers.ulps import digest_bits, has_same_bits
from samebits.problems.any_problem import AnyProblem
from samebits.sums.bounds import bound_narrowest_errors
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe


@dataclass(frozen=True)
class Recorded:
    """One result with its name, and what is known of where it comes from."""

    name: str
    result: np.ndarray | None
    engine: str | None = None
    identity: Identity | None = None
    failure: Failure | None = None


def measure_result(
    reference: Reference,
    result: np.ndarray | None,
    exact: ExactData | None = None,
    *,
    exact_beyond: bool = False,
    distances: Distances | None = None,
) -> Measured:
    """The distances of a result (`distances` if known already), with what its runner did on exact integers."""
    if result is None:
        return Measured(exact, exact_beyond)
    if distances is None:
        distances = measure_distances(reference.problem, result, reference.truth, reference.bound, reference.magnitudes)
    narrowest = bound_narrowest_errors(reference.problem, reference.truth, reference.magnitudes)
    # What rounds on exact integers, and by no more than rounding can, is a transform whatever it multiplies.
    is_transform = exact is not None and exact.differing > 0 and not exact_beyond
    in_halves = is_transform or has_narrow_operands(reference.problem)
    noise = estimate_transform_noise(reference.problem, reference.magnitudes, in_halves=in_halves)
    farthest = np.maximum(narrowest, noise)
    differs = not has_same_bits(result, reference.truth)
    another = distances.mark_beyond(farthest) | mark_outside(reference.problem, result)
    widest = estimate_transform_noise(reference.problem, reference.magnitudes, in_halves=True)
    beyond = bool(
        (distances.mark_beyond(np.maximum(narrowest, widest)) | mark_outside(reference.problem, result)).any()
    )
    likely = measure_likely(distances, reference.likely)
    return Measured(exact, exact_beyond, distances, differs, another, beyond, likely)


@dataclass(frozen=True)
class Attribution:
    """A recipe, and how much of a side's result it reproduces; the mechanism only where it reproduces all."""

    recipe: Recipe | None
    replay: Replay | None
    mechanism: Mechanism | None
    evidence: tuple[Evidence, ...] = ()


def describe_side(
    reference: JudgedBy, recorded: Recorded, measured: Measured, attribution: Attribution | None = None
) -> Side:
    """The finding of one side; its verdict is made here, once, from all that is known."""
    problem, result, distances = reference.problem, recorded.result, measured.distances
    found = attribution or Attribution(None, None, None)
    judgement = judge_side(problem, measured, found.mechanism)
    identity = recorded.identity
    notes = identity.notes if identity else ()
    verdict = "undecided" if recorded.failure and judgement.verdict != "wrong" else judgement.verdict
    return Side(
        name=recorded.name,
        engine=recorded.engine,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        verdict=verdict,
        certainty=judgement.certainty,
        cause=judgement.cause,
        cause_certainty=judgement.cause_certainty,
        says=judgement.mechanism.says if judgement.mechanism else None,
        recipe=format_recipe(found.recipe) if found.recipe else None,
        replay=found.replay,
        error=summarize_error(distances, reference.truth, reference.likely) if distances else None,
        bits=digest_bits(result) if result is not None else None,
        values=list_few_values(problem, result),
        worst=find_worst(problem, result, reference.truth, distances) if distances and result is not None else None,
        where=_describe_where(problem, measured, judgement),
        exact_data=measured.exact,
        failure=recorded.failure,
        picture=picture_errors(reference, distances) if distances else None,
        evidence=[
            *judgement.evidence,
            *found.evidence,
            *(Evidence("setting", note) for note in notes),
        ],
    )


def _describe_where(problem: AnyProblem, measured: Measured, judgement: Judgement) -> str | None:
    """Where a side is beyond its bound; if that alone proves another function, where it is proved."""
    if measured.distances is None:
        return None
    proved = judgement.verdict == "wrong" and judgement.mechanism is None and measured.is_another_function
    if proved and measured.another_function is not None:
        return describe_places(problem, measured.another_function)
    return describe_places(problem, measured.distances.over_bound > 1.0)
