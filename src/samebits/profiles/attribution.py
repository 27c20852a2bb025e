"""What made a side's result: its engine's recipe, proved by replaying it on the very operands that were compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.findings import Evidence, Replay
from samebits.findings.causes import find_cause
from samebits.judging.measuring import measure_distances
from samebits.judging.recipe_causes import name_cause
from samebits.judging.references import Reference
from samebits.judging.sides import Attribution
from samebits.judging.verdict_rules import Mechanism
from samebits.probes.session import ProbeSession
from samebits.profiles.recipe_search import search_recipe
from samebits.profiles.replaying import Replayer
from samebits.recipes.recipe import Recipe
from samebits.runner import Runner
from samebits.wording.recipe_words import say_what_it_does

_MOST_CALLS, _MOST_TIME_S = 600, 20.0


def attribute(
    runner: Runner, reference: Reference, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Attribution | None:
    """The recipe of a runner, replayed on the operands that were compared; None where none was found.

    The mechanism is there only where the recipe reproduces every output that was replayed.
    """
    session = ProbeSession(runner, reference.problem, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
    # What a failing runner did to the comparison itself is a finding already.
    recipe = search_recipe(session).recipe
    if recipe is None:
        return None
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
