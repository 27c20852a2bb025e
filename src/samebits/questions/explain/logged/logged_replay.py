"""Logged values checked by the autotuner's own operands, which are known to the last bit: a log proved by replay.

Which side is right is seen value by value; how likely that were by chance is said. The other side is then predicted by
every narrow sum and rounding on these very operands, and the one that comes closest is named, with how many of the
logged values it gives to the last digit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from samebits import thresholds
from samebits.findings import Certainty, Comparison, Evidence, Replay, Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import list_in_words
from samebits.mechanisms.arithmetic.arithmetic import list_operand_hypotheses, list_recipe_hypotheses
from samebits.mechanisms.arithmetic.recipe_hypotheses import from_recipe
from samebits.mechanisms.arithmetic.stored_sums import list_long_sum_hypotheses
from samebits.mechanisms.facts.observation import Floats, Hypothesis
from samebits.problems import Problem
from samebits.progress import Progress
from samebits.questions.explain.log_sentences import (
    say_exact_values,
    say_one_signed_loss,
    say_ratio,
    say_replayed_values,
    say_share,
)
from samebits.questions.explain.logged.logged_sides import describe_logged_side, describe_mismatch
from samebits.questions.explain.logged.rebuilt_call import RebuiltCall, rebuild_call
from samebits.questions.explain.logs import Mismatch

_MOST_TIME_S = 30.0
# Hypotheses are tried on so few outputs first, and so many of them on all.
_FEW, _MOST_WHOLE = 3, 8
# Sums of so few products are emulated product by product at once; of so many that would take seconds each.
_SHORT, _LONGEST_EMULATED = 2000, 100_000
_CAUSES = (CauseCode.LOW_PRECISION_ACCUMULATOR, CauseCode.REDUCED_PRECISION_OPERANDS)
_DATA = "rebuilt to the last bit, as XLA fills its autotuning buffers"


@dataclass(frozen=True)
class _Tried:
    """A hypothesis on the rebuilt operands: its distance from the logged values in shares of the truth's own.

    `same` counts the values that it gives in all printed digits.
    """

    hypothesis: Hypothesis
    distance: float
    same: int
    predicted: Floats


@dataclass(frozen=True)
class Replayed:
    """A log's values and those that its call gives; `right` is the side that is near them."""

    mismatch: Mismatch
    problem: Problem
    call: RebuiltCall
    sides: tuple[Floats, Floats]
    right: int
    chances: tuple[float, float]

    @property
    def count(self) -> int:
        """How many logged values were compared with the call."""
        return len(self.call.kept)

    @property
    def exact(self) -> int:
        """How many values of the right side are correctly rounded, in all digits that are printed."""
        return int(self.call.is_printed_as(self.call.truth, self.sides[self.right]).sum())

    @property
    def other(self) -> Floats:
        """The values of the side that is not right, or not as near."""
        return self.sides[1 - self.right]

    @property
    def is_whole(self) -> bool:
        """Whether operands are zeros and ones, whose sums no order of addition rounds."""
        return self.mismatch.memory is not None and self.mismatch.memory.filled_as == "int8"

    @property
    def ratio(self) -> float:
        """The other side's values in shares of the true ones, in the middle."""
        told = self.call.truth != 0
        return float(np.median(self.other[told] / self.call.truth[told]))

    @property
    def names(self) -> tuple[str, str]:
        """The right side's name and the other's."""
        return self.mismatch.names[self.right], self.mismatch.names[1 - self.right]


def replay_values(mismatch: Mismatch, first: Floats, second: Floats, indices: list[int]) -> Replayed | None:
    """Finite logged values against the call's own operands; None where the log does not say which these are.

    Also None where neither side is near the call's results: then the log is of something else. For whole numbers, where
    neither side matches all of them.
    """
    problem, found = mismatch.problem, list[Replayed]()
    if problem is None or mismatch.memory is None:
        return None
    # In older releases the buffers of bfloat16 have the bits of float16 numbers.
    fills = (None, "float16") if problem.dtype == "bfloat16" else (mismatch.memory.filled_as,)
    for filled_as in fills:
        call = rebuild_call(problem, replace(mismatch.memory, filled_as=filled_as), indices)
        if call is not None:
            sides = first[call.kept], second[call.kept]
            # The better of several is taken.
            chances = (min(len(fills) * call.measure_chance(side), 1.0) for side in sides)
            chances = next(chances), next(chances)
            found.append(Replayed(mismatch, problem, call, sides, int(chances[1] < chances[0]), chances))
    best = min(found, key=lambda one: min(one.chances), default=None)
    if best is None or min(best.chances) > thresholds.CHANCE_FOLLOWS or (best.is_whole and best.exact < best.count):
        return None
    return best


def explain_replayed(replayed: Replayed, progress: Progress) -> Comparison:
    """Explains a log whose operands are known: which side is right, and what the other one does."""
    away = np.abs(replayed.other - replayed.call.truth)
    if replayed.chances[1 - replayed.right] <= thresholds.CHANCE_FOLLOWS and (away <= replayed.call.bounds).all():
        return _describe_rounding(replayed)
    if replayed.is_whole:
        return _describe_other_sums(replayed)
    tried = _search(replayed, progress)
    near = [t for t in tried if t.distance <= thresholds.EXPLAINS_WITHIN]
    if not near:
        return _describe_open(replayed, len(tried))
    return _describe_found(replayed, near[0], tried)


def _search(replayed: Replayed, progress: Progress) -> list[_Tried]:
    """Tries narrow sums and rounded operands as time allows; the closest come first, compared on all values."""
    problem, few = replayed.call.observation.problem, replayed.call.thin(_FEW)
    logged = replayed.other[np.isin(replayed.call.kept, few.kept)]
    stages = [list_long_sum_hypotheses(problem), list_operand_hypotheses(problem)]
    if problem.reduction_length < _LONGEST_EMULATED:
        stages.append(list_recipe_hypotheses(problem, thorough=False))
        if problem.reduction_length <= _SHORT:
            stages.reverse()
    deadline = time.perf_counter() + _MOST_TIME_S
    screened: list[_Tried] = []
    for stage in stages:
        for hypothesis in (h for h in stage if h.cause in _CAUSES):
            if time.perf_counter() > deadline:
                break
            progress("replaying the log", 1 - (deadline - time.perf_counter()) / _MOST_TIME_S)
            tried = _try(few, hypothesis, logged)
            if tried is not None:
                screened.append(tried)
        if any(t.distance <= thresholds.EXPLAINS_WITHIN for t in screened):
            break
    screened.sort(key=lambda t: t.distance)
    best_few = [t.hypothesis for t in screened[:_MOST_WHOLE]]
    if problem.reduction_length < _LONGEST_EMULATED:
        # Long sums were predicted from exact parts: these are replayed to the bit.
        best_few = [_emulate_sums(h) for h in best_few]
    whole = (_try(replayed.call, h, replayed.other) for h in best_few)
    best = sorted((t for t in whole if t is not None), key=lambda t: (-t.same, t.distance))
    return [*best, *screened[_MOST_WHOLE:]]


def _emulate_sums(hypothesis: Hypothesis) -> Hypothesis:
    h = hypothesis
    is_sum = h.recipe is not None and h.cause == CauseCode.LOW_PRECISION_ACCUMULATOR
    return from_recipe(h.cause, h.verdict, h.says, h.recipe) if is_sum and h.recipe else h


def _try(call: RebuiltCall, hypothesis: Hypothesis, logged: Floats) -> _Tried | None:
    predicted = call.predict(hypothesis)
    if predicted is None or not np.isfinite(predicted).all():
        return None
    declared = float(np.linalg.norm(logged - call.truth))
    distance = float(np.linalg.norm(logged - predicted)) / declared if declared else 1.0
    return _Tried(hypothesis, distance, int(call.is_printed_as(predicted, logged).sum()), predicted)


def _describe_right(replayed: Replayed) -> Side:
    count, exact, chance = replayed.count, replayed.exact, replayed.chances[replayed.right]
    is_proved = exact == count and chance <= thresholds.CHANCE_REPLAYED
    says = say_exact_values(exact, count, chance)
    return describe_logged_side(
        replayed.names[0],
        "rounding",
        [Evidence("replay" if is_proved else "statistic", says)],
        says="returns correctly rounded values" if exact == count else "keeps its sums wide enough",
        certainty="bits" if is_proved else "statistics",
        replay=Replay(exact / count, count),
    )


def _describe_rounding(replayed: Replayed) -> Comparison:
    products = f"{replayed.problem.reduction_length:,} products added in any order"
    says = f"every logged value is within the bound for {products}"
    is_proved = replayed.chances[replayed.right] <= thresholds.CHANCE_REPLAYED
    other = describe_logged_side(
        replayed.names[1],
        "rounding",
        [Evidence("statistic", says)],
        says="adds in another order",
        certainty="bounds" if is_proved else "statistics",
    )
    summary = f"{' and '.join(replayed.names)} both are right: every logged value is within the bound for {products}."
    return _conclude(replayed, "rounding", summary, other)


def _describe_other_sums(replayed: Replayed) -> Comparison:
    """Sums of zeros and ones that are others than they must be."""
    right, other = replayed.names
    wrong = ~replayed.call.is_printed_as(replayed.call.truth, replayed.other)
    channels = np.unique(replayed.call.channels[wrong])
    is_proved = replayed.chances[replayed.right] <= thresholds.CHANCE_REPLAYED
    says = (
        f"{int(wrong.sum())} of {replayed.count} logged values are other sums of these zeros and ones, which no order"
        f" of addition rounds; they lie in channel{'s' if len(channels) > 1 else ''} {list_in_words(channels)}"
    )
    side = describe_logged_side(
        other,
        "wrong",
        [Evidence("replay" if is_proved else "statistic", says)],
        says="returns other sums than int8 operands have",
        certainty="bits" if is_proved else "statistics",
    )
    summary = f"{right} is right; {other} returns other sums, of zeros and ones that no order of addition rounds."
    return _conclude(replayed, "wrong", summary, side)


def _describe_open(replayed: Replayed, tried: int) -> Comparison:
    right, other = replayed.names
    ratio = replayed.ratio
    statistic = Evidence(
        "statistic", f"{say_ratio(ratio)} of the true values, in the middle; {tried} hypotheses do not fit"
    )
    side = describe_logged_side(other, "undecided", [statistic])
    summary = f"{right} is right; {other} has {say_ratio(ratio)} of it, and none of {tried} hypotheses explains that."
    return _conclude(replayed, "undecided", summary, side)


def _describe_found(replayed: Replayed, best: _Tried, tried: list[_Tried]) -> Comparison:
    (right, other), hypothesis, count = replayed.names, best.hypothesis, replayed.count
    is_proved = best.same == count and replayed.chances[replayed.right] <= thresholds.CHANCE_REPLAYED
    level: Certainty = "bits" if is_proved else "statistics"
    # Some hypotheses are one and the same for this problem.
    rest = [t.distance for t in tried if not np.array_equal(t.predicted, best.predicted)]
    says = say_replayed_values(best.same, count, best.distance, len(tried), min(rest, default=1.0))
    share = 1 - replayed.ratio
    evidence = [Evidence("replay" if is_proved else "statistic", says)]
    evidence.append(Evidence("statistic", say_one_signed_loss(share, replayed.problem)))
    does = hypothesis.says.partition(" (direct ")[0]
    side = describe_logged_side(
        other,
        hypothesis.verdict,
        evidence,
        says=does,
        cause=hypothesis.cause,
        hypothesis=hypothesis,
        certainty=level,
        replay=Replay(best.same / count, count),
    )
    proof = "proved by bits" if is_proved else f"inferred: {best.same} of {count} values to the last digit"
    summary = (
        f"{other} {does} and {'loses' if share > 0 else 'gains'} about {say_share(share)} of every sum ({proof});"
        f" {right} is right."
    )
    return _conclude(replayed, hypothesis.verdict, summary, side, hypothesis.cause)


def _conclude(
    replayed: Replayed, verdict: Verdict, summary: str, other: Side, cause: CauseCode | None = None
) -> Comparison:
    good = _describe_right(replayed)
    sides = [good, other] if replayed.right == 0 else [other, good]
    data = f"{_DATA}; int8 is held in float32" if replayed.is_whole else _DATA
    return describe_mismatch(replayed.mismatch, verdict, summary, sides, data, cause)
