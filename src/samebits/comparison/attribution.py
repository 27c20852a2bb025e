"""What made a side's result: its engine's recipe, proved by replaying it on the very operands that were compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode, find_cause
from samebits.formats.format import find_format
from samebits.judging.sides import Attribution
from samebits.judging.verdict_rules import Mechanism
from samebits.probes.session import ProbeSession
from samebits.problems import Problem
from samebits.profiles import search_recipe
from samebits.profiles.replaying import Replayer
from samebits.recipes.order import list_stored_formats
from samebits.recipes.recipe import Fft, Recipe, Winograd
from samebits.runner import Runner
from samebits.wording.recipe_words import say_what_it_does

_MOST_CALLS, _MOST_TIME_S = 600, 20.0


def attribute(
    runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Attribution | None:
    """The recipe of a runner, replayed on the operands that were compared; None where none was found.

    The mechanism is there only where the recipe reproduces every output.
    """
    session = ProbeSession(runner, problem, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
    try:
        recipe = search_recipe(session).recipe
    except Exception:  # A runner is anybody's code; what it did to the comparison itself is a finding already.
        return None
    if recipe is None:
        return None
    matched, compared, _ = Replayer(problem, operands, result).score(recipe)
    if not matched:
        # A recipe that reproduces nothing is none.
        return None
    replay = Replay(matched, compared)
    says = f"its recipe reproduces {replay.count:,} of {compared:,} outputs bit for bit"
    mechanism = _name_mechanism(problem, recipe, replay) if replay.is_whole else None
    return Attribution(recipe, replay, mechanism, (Evidence("replay", says),))


def _name_mechanism(problem: Problem, recipe: Recipe, replay: Replay) -> Mechanism:
    cause = name_cause(problem, recipe)
    verdict = "rounding" if cause == CauseCode.SUMMATION_ORDER else find_cause(cause).verdicts[-1]
    return Mechanism(cause, verdict, say_what_it_does(recipe, cause), "bits", recipe=recipe, replay=replay)


def name_cause(problem: Problem, recipe: Recipe) -> CauseCode:
    """What a recipe does that another correct one need not: the gravest of its ways, at least an order of its own."""
    precision = find_format(problem.dtype).precision
    if any(r and find_format(r.format).precision < precision for r in (recipe.x, recipe.w)):
        return CauseCode.REDUCED_PRECISION_OPERANDS
    # Half formats are summed in float32 by whoever declares nothing.
    declared = max(precision, find_format("float32").precision)
    if find_format(recipe.accumulator.format).precision < declared or any(map(list_stored_formats, recipe.orders)):
        return CauseCode.LOW_PRECISION_ACCUMULATOR
    if isinstance(recipe.algorithm, Winograd):
        return CauseCode.WINOGRAD
    return CauseCode.FFT if isinstance(recipe.algorithm, Fft) else CauseCode.SUMMATION_ORDER
