"""What made a side's result: its engine's recipe, proved by replaying it on the very operands that were compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import SearchResult, search_recipe
from samebits.engines.recipe_search.replaying import Replayer
from samebits.engines.runner import Runner
from samebits.findings import Evidence, Replay
from samebits.findings.causes import find_cause
from samebits.findings.words.order_words import say_what_it_does
from samebits.judging.measuring import measure_distances
from samebits.judging.recipe_causes import name_cause
from samebits.judging.references import Reference
from samebits.judging.sides import Attribution
from samebits.judging.verdict_rules import Mechanism
from samebits.problems import Problem
from samebits.sums.recipes.recipe import Recipe

_MOST_CALLS, _MOST_TIME_S = 600, 20.0


def attribute(
    runner: Runner, reference: Reference, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Attribution | None:
    """The recipe of a runner, replayed on the operands that were compared; None where none was found.

    The mechanism is there only where the recipe reproduces every output that was replayed.
    """
    # A runner's failure in the comparison itself is a finding already.
    recipe = find_recipe(runner, reference.problem).recipe
    return None if recipe is None else attribute_recipe(recipe, reference, operands, result)


def find_recipe(runner: Runner, problem: Problem) -> SearchResult:
    """The recipe by which a runner computes a problem, as far as a few hundred calls show."""
    return search_recipe(ProbeSession(runner, problem, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S))


def attribute_recipe(
    recipe: Recipe, reference: Reference, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Attribution | None:
    """Any recipe replayed on any result; None where it reproduces no output."""
    matched, compared, _ = Replayer(reference.problem, operands, result).score(recipe)
    if not matched:
        # A recipe that reproduces nothing is none.
        return None
    replay = Replay(matched, compared)
    says = f"its recipe reproduces {replay.count:,} of {compared:,} outputs bit for bit"
    mechanism = _name_mechanism(reference, recipe, replay, result) if replay.is_whole else None
    return Attribution(recipe, replay, mechanism, (Evidence("replay", says),))


def _name_mechanism(reference: Reference, recipe: Recipe, replay: Replay, result: np.ndarray) -> Mechanism:
    distances = measure_distances(reference.problem, result, reference.truth, reference.bound, reference.magnitudes)
    cause = name_cause(reference.problem, recipe, result, reference.truth, distances)
    verdict = find_cause(cause).verdicts[-1]
    says = say_what_it_does(recipe, cause)
    return Mechanism(cause, verdict, says, "bits", replay.elements < result.size, recipe=recipe, replay=replay)
