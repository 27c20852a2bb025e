"""Accepting a hypothesis: checked on every output of a result, then replayed bit for bit where a recipe can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.errors import RecipeError
from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped, measure_absolute
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.arithmetic.arithmetic import (
    list_operand_recipes,
    list_order_hypotheses,
    list_stored_hypotheses,
)
from samebits.mechanisms.evidence.explanation_sentences import say_consistent, say_replayed
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.mechanisms.facts.stored_result import Stored
from samebits.numbers.format import find_format
from samebits.numbers.ulps import mark_differing_bits
from samebits.sums.bounds import accumulator_format, bound_likely_errors
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe

TINY_ROWS, TINY_POSITIONS = 4, 24
_ROWS_AT_ONCE, _SLACK = 16, 2.0**-22
# Of the distance of two neighbours: where stochastic rounding goes to the farther one in a fifth of all cases, on
# average, and rounding to the nearest never does.
_FARTHER_FROM, _FARTHER_TO, _MIDDLE = 0.1, 0.35, 0.45


def is_sampled(observation: Observation) -> bool:
    """Whether the problem is too large to check a hypothesis on every output."""
    return not observation.is_small(thresholds.MOST_REPLAYED_PRODUCTS)


def accept(observation: Observation, hypothesis: Hypothesis, ties: list[Hypothesis]) -> Mechanism | None:
    """The mechanism that a hypothesis names, if every output is within the rounding bound of its prediction.

    None where some output is not, or where it would make another function of a result inside the declared bound.
    """
    sampled, whole = is_sampled(observation), _choose_checked(observation)
    if not explains_all(observation, hypothesis):
        return None
    given = whole.pick(observation.result)
    beyond = int((whole.pick(observation.distances.over_bound) > 1.0).sum())
    if hypothesis.verdict == "wrong" and not beyond:
        return None
    says = say_consistent(given.size, observation.result.size, beyond)
    does = say_hypothesis(observation, hypothesis)
    if observation.stored is not None and hypothesis.cause != CauseCode.RESULT_ROUNDING:
        does = f"{does}, and {observation.stored.says}"
    # One format for both operands that gives the same numbers is as likely, and other settings govern it.
    recipes = [(tie.says, tie.recipe) for tie in ties if tie.cause == CauseCode.REDUCED_PRECISION_OPERANDS]
    plain = [says for says, recipe in recipes if recipe and recipe.x and recipe.x == recipe.w]
    if plain and hypothesis.cause == CauseCode.REDUCED_PRECISION_OPERANDS:
        does = f"{does} (or {plain[0]}: the same numbers here)"
    found = Mechanism(
        hypothesis.cause, hypothesis.verdict, does, "bound" if beyond else "nearness", sampled,
        alternatives=tuple(s.says for s in ties), evidence=(Evidence("statistic", says),),
    )  # fmt: skip
    recipe = _find_recipe(observation, hypothesis)
    return found if recipe is None else prove(observation, found, recipe)


def explains_all(observation: Observation, hypothesis: Hypothesis) -> bool:
    """Whether every output (of a large problem, of a sample) is within the rounding bound of a prediction."""
    whole = _choose_checked(observation)
    predicted = hypothesis.predict(observation, whole)
    if predicted is None:
        return False
    away = measure_absolute(whole.pick(observation.result).astype(np.float64), predicted)
    return bool((away <= bound_prediction(observation, whole, predicted, hypothesis.unit)).all())


def say_hypothesis(observation: Observation, hypothesis: Hypothesis) -> str:
    """What a result does if the hypothesis holds, with the numbers that were fitted."""
    fit = hypothesis.say_fit(observation, _choose_checked(observation)) if hypothesis.say_fit else ""
    return hypothesis.says + fit


def _choose_checked(observation: Observation) -> Sample:
    return observation.choose_sample() if is_sampled(observation) else observation.whole()


def accept_storage(observation: Observation) -> Mechanism | None:
    """Explains a result by its storage alone: the declared sums, stored as the numbers of the result show.

    Every output then lies between the stored values of the truth minus, and of the truth plus, the likely error of
    such sums. None where one does not: operands or sums were rounded too. Hypotheses that assume more may come closer,
    by the few values that rounding decides.
    """
    stored = observation.stored
    if stored is None or stored.late:
        return None
    every, problem = observation.whole(), observation.problem
    likely = observation.likely
    if likely is None:
        likely = bound_likely_errors(
            problem, observation.operands, observation.truth, magnitudes=observation.magnitudes
        )
    for variant in stored.list_directions():
        # A few rows at a time: the first that does not fit is often among them.
        blocks = (every.rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(every.rows), _ROWS_AT_ONCE))
        some = (replace(every, rows=rows) for rows in blocks)
        if not all(_is_stored_near(observation, variant, s, s.pick(likely)) for s in some):
            continue
        if variant.direction == "either" and not _is_stochastic(observation, variant, likely):
            continue
        own = replace(observation, stored=variant)
        found = next(filter(None, (accept(own, h, []) for h in list_stored_hypotheses(own))), None)
        if found:
            return found
    return None


def _is_stored_near(observation: Observation, stored: Stored, some: Sample, likely: Floats) -> bool:
    """Whether every output of `some` lies between the stored values of the truth minus and plus its likely error."""
    truth, given = (some.pick(a).astype(np.float64) for a in (observation.truth, observation.result))
    # Multiples of a step are rounded to the result's format once more.
    slack = _SLACK * np.abs(given)
    with np.errstate(invalid="ignore"):
        least, most = stored.keep_between(truth - likely, truth + likely, some.rows, some.positions)
        fits = np.isfinite(truth) & np.isfinite(likely) & (least - slack <= given) & (given <= most + slack)
    return bool((fits | ~mark_unclipped(observation.problem, given)).all())


def _is_stochastic(observation: Observation, stored: Stored, likely: Floats) -> bool:
    every = observation.whole()
    truth, given, error = (every.pick(a).astype(np.float64) for a in (observation.truth, observation.result, likely))
    counts = mark_unclipped(observation.problem, given)
    return is_stochastic(stored, truth, given, error, counts if stored.part is None else counts & stored.part)


def is_stochastic(stored: Stored, truth: Floats, given: Floats, error: Floats, counts: npt.NDArray[np.bool_]) -> bool:
    """Whether outputs that are clearly away from the middle of two numbers often go to the farther one.

    All arrays are of the whole result, [rows, positions].
    """
    low, high = stored.find_neighbours(truth, np.arange(len(truth)))
    with np.errstate(all="ignore"):
        nearer = np.where(truth - low < high - truth, low, high)
        aside = np.minimum(truth - low, high - truth) / (high - low)
        tells = (aside > _FARTHER_FROM) & (aside < _FARTHER_TO) & (error < (_MIDDLE - _FARTHER_TO) * (high - low))
    tells &= counts
    farther = tells & (given != nearer)
    return farther.sum() >= thresholds.FEWEST_TELLING and farther.sum() >= thresholds.FARTHER_SHARE * tells.sum()


def bound_prediction(observation: Observation, sample: Sample, predicted: Floats, unit: float) -> Floats:
    """The error bound of a hypothesis' function, each row's largest sum of magnitudes standing for all of it."""
    problem = observation.problem
    accumulator, out = accumulator_format(problem), find_format(problem.out)
    magnitudes = sample.pick(observation.magnitudes)
    largest = np.where(np.isfinite(magnitudes), magnitudes, 0.0).max(axis=1, keepdims=True)
    summed = (problem.reduction_length + 2) * (float(accumulator.unit_roundoff) + 2.0**-52) * largest
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(predicted), np.abs(predicted), 0.0) + summed
        beside = 2 * unit * size.max(axis=1, keepdims=True) if unit else 0.0
        if observation.stored is not None:
            # Sums that were stored before their bias are larger than the results where it cancels them.
            late = problem.bias and observation.stored.late
            before = (
                size + np.abs(observation.operands["bias"].astype(np.float64))[sample.rows][:, None] if late else size
            )
            beside = beside + observation.stored.allow(before, sample.rows)
        return summed + 2 * float(out.unit_roundoff) * size + beside + 2 * float(out.smallest_subnormal)


def _find_recipe(observation: Observation, hypothesis: Hypothesis) -> Recipe | None:
    """A recipe in a usual order that reproduces the result with what the hypothesis assumes; None where none does."""
    problem = observation.problem
    altered = hypothesis.alter(observation) if hypothesis.alter else None
    stage = replace(observation, problem=altered[0], operands=altered[1], cache={}) if altered else observation
    if hypothesis.recipe is not None:
        return find_by_bits(stage, list_operand_recipes(problem, hypothesis.recipe, observation.stored))
    if altered is None:
        return None
    return find_by_bits(stage, (h.recipe for h in list_order_hypotheses(stage.problem) if h.recipe))


def prove(observation: Observation, found: Mechanism, recipe: Recipe) -> Mechanism:
    """The mechanism with a recipe that reproduced all outputs, or, of a problem too large to replay whole, a sample."""
    total, sampled = observation.result.size, is_sampled(observation)
    count = int(observation.choose_sample().mark().sum()) if sampled else total
    proof = Evidence("replay", say_replayed(recipe, count, total))
    return replace(
        found, fit="bits", sampled=sampled, recipe=recipe, replay=Replay(1.0, count), evidence=(proof, *found.evidence)
    )


def find_by_bits(observation: Observation, recipes: Iterable[Recipe]) -> Recipe | None:
    """The first recipe that reproduces a few outputs, then all."""
    few = observation.choose_sample().thin(TINY_ROWS, TINY_POSITIONS).mark()
    for recipe in recipes:
        if _share(observation, recipe, few) == 1.0 and replays_all(observation, recipe):
            return recipe
    return None


def replays_all(observation: Observation, recipe: Recipe) -> bool:
    """Whether a recipe reproduces every output, of a large problem every output of a sample."""
    mask = observation.choose_sample().mark() if is_sampled(observation) else None
    return _share(observation, recipe, mask) == 1.0


def _share(observation: Observation, recipe: Recipe, mask: npt.NDArray[np.bool_] | None) -> float:
    try:
        replayed = emulate(observation.problem, recipe, observation.operands, wanted=mask, kept=observation.cache)
    except RecipeError:
        return 0.0
    same = ~mark_differing_bits(replayed, observation.result)
    return float((same if mask is None else same[mask]).mean())
