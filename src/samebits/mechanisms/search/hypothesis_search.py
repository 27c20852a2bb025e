"""Hypothesis search: predictions tried against one recorded result, until one explains it.

A hypothesis explains better than the declared function if its prediction is closer to the result: rounding noise of
another order is independent of a hypothesis' error, so that for a fault-free result the truth itself is always the
closest. What comes closest is then checked on every output and its bound, or replayed (`acceptance`).
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.arithmetic.arithmetic import (
    list_operand_hypotheses,
    list_order_hypotheses,
    list_recipe_hypotheses,
    list_stored_hypotheses,
    list_transform_hypotheses,
)
from samebits.mechanisms.epilogue.epilogue import (
    list_epilogue_hypotheses,
    list_fitted_hypotheses,
    list_rounded_bias,
    list_saturation_hypotheses,
)
from samebits.mechanisms.epilogue.unasked_activations import list_activation_hypotheses, list_scale_hypotheses
from samebits.mechanisms.evidence.acceptance import (
    TINY_POSITIONS,
    TINY_ROWS,
    accept,
    accept_storage,
    explains_all,
    find_by_bits,
    prove,
    replays_all,
    say_hypothesis,
)
from samebits.mechanisms.evidence.explanation_sentences import say_seen
from samebits.mechanisms.evidence.nearness import (
    PLAIN_POSITIONS,
    PLAIN_ROWS,
    count_telling_bits,
    is_as_close_as_a_plain_sum,
    measure_nearness,
    measure_nearness_of_truth,
    measure_plain_noise,
    measure_size,
    measure_telling_steps,
    sum_in_orders,
)
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.mechanisms.operands.altered_operands import list_altered_hypotheses
from samebits.mechanisms.other_weights.lost_products import list_lost_products
from samebits.mechanisms.other_weights.refitted import list_refitted_hypotheses
from samebits.mechanisms.other_weights.solved_weights import list_solved_hypotheses
from samebits.mechanisms.parts.partial_faults import leaves_part_zero
from samebits.mechanisms.positions.geometry import list_geometry_hypotheses, list_padding_hypotheses
from samebits.mechanisms.positions.layout import list_layout_hypotheses
from samebits.mechanisms.positions.other_inputs import list_input_hypotheses
from samebits.mechanisms.positions.products import list_product_hypotheses
from samebits.mechanisms.positions.tile_seams import list_overlap_hypotheses, list_seam_hypotheses
from samebits.mechanisms.quantised.integer_pairs import list_fixed_products, list_integer_pairs
from samebits.mechanisms.quantised.quantized import (
    list_quantized_hypotheses,
    list_searched_hypotheses,
    list_split_hypotheses,
)
from samebits.numbers.ulps import mark_differing_bits
from samebits.progress import Progress
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Recipe, Rounding
from samebits.sums.recipes.seen import find_seen

# Progress is reported after so many.
_EVERY = 8
# Formats that sums may end in, and formats of results that hold every number of these.
_ENDS, _WIDE = ("float16", "bfloat16", "tf32", "e8m13"), ("float32", "float64")


@dataclass
class HypothesisSearch:
    """The search for what made one result; `tried` counts hypotheses by kind.

    `unproved` describes another function that would explain a result inside its bound, though nothing proves it.
    `nearest` is the closest hypothesis without fitted numbers, with its distance, if it explains nearly everything.
    """

    observation: Observation
    progress: Progress
    tried: Counter[str] = field(default_factory=Counter[str])
    unproved: str | None = None
    nearest: tuple[Hypothesis, float] | None = None
    # How far the nearest numbers of a format are from the result.
    _nearest_of: dict[str, float] = field(default_factory=dict[str, float])

    def run(self) -> Mechanism | None:
        """The mechanism that explains the result, or None where no hypothesis does."""
        problem = self.observation.problem
        found = self._prove_order()
        if found is None and (found := accept_storage(self.observation)):
            self._count("stored result")
            found = replace(found, tried=self.tried.total())
        if found:
            return found
        stages = (self._list_functions(), self._list_quantised(), self._list_searched())
        found = self._try_functions(*stages)
        if found or self._leaves_part_zero:
            return found
        return self._try_recipes(
            list_transform_hypotheses(problem) if self._is_plain else list_recipe_hypotheses(problem)
        )

    def _prove_order(self) -> Mechanism | None:
        """A plain or common order that reproduces the result: rounding, proved."""
        hypotheses = [h for h in list_order_hypotheses(self.observation.problem) if h.recipe]
        recipes = [h.recipe for h in hypotheses if h.recipe]
        recipe = find_by_bits(self.observation, recipes)
        self.tried["order of addition"] += len(recipes) if recipe is None else recipes.index(recipe) + 1
        if recipe is None:
            return None
        says = "adds the declared products in an order of its own"
        if self.observation.problem.bias and recipe.bias == "rounded":
            says += f", rounds the sum to {self.observation.problem.out} and adds the bias to that"
        seen = find_seen(self.observation.problem, recipe)
        evidence = (Evidence("replay", say_seen(seen)),) if seen else ()
        found = Mechanism(
            CauseCode.SUMMATION_ORDER, "rounding", says, "bits", evidence=evidence, tried=self.tried.total()
        )
        return prove(self.observation, found, recipe)

    def _list_functions(self) -> Iterator[tuple[str, Hypothesis]]:
        """Hypotheses predicted as exact sums, with their kinds."""
        problem = self.observation.problem
        kinds = {
            "stored result": list_stored_hypotheses(self.observation),
            "operand rounding": list_operand_hypotheses(problem, self.observation.stored),
            "epilogue": itertools.chain(
                list_epilogue_hypotheses(problem),
                list_saturation_hypotheses(problem),
                list_activation_hypotheses(problem),
            ),
            "scale": list_scale_hypotheses(problem),
        }
        if problem.stated:
            kinds["operands and result"] = list_product_hypotheses(problem)
        else:
            kinds |= {"index relation": list_geometry_hypotheses(problem), "layout": list_layout_hypotheses(problem)}
        if not self.observation.result.any():
            # Whatever reads nothing but padding gives zeros.
            kinds = {"operand rounding": kinds["operand rounding"]}
        return itertools.chain.from_iterable(((kind, h) for h in listed) for kind, listed in kinds.items())

    def _list_quantised(self) -> Iterator[tuple[str, Hypothesis]]:
        """What takes longer to predict, for results that nothing has explained to the last."""
        problem = self.observation.problem
        for hypothesis in itertools.chain(list_integer_pairs(self.observation), list_fixed_products(self.observation)):
            yield "integer sums", hypothesis
        for hypothesis in itertools.chain(list_seam_hypotheses(problem), list_overlap_hypotheses(problem)):
            yield "index relation", hypothesis
        for hypothesis in list_altered_hypotheses(self.observation):
            yield "operand rounding", hypothesis
        for hypothesis in itertools.chain(list_split_hypotheses(problem), list_quantized_hypotheses(problem)):
            yield "quantised operands", hypothesis

    def _list_searched(self) -> Iterator[tuple[str, Hypothesis]]:
        observation, sample = self.observation, self.observation.choose_sample()
        if len(np.unique(sample.pick(observation.truth))) < thresholds.FEWEST_PER_CHANNEL:
            # To sums that are all alike anything can be fitted.
            return
        for hypothesis in list_padding_hypotheses(observation, sample):
            yield "index relation", hypothesis
        for hypothesis in list_input_hypotheses(observation, sample):
            yield "fitted operands", hypothesis
        fitted = itertools.chain(list_rounded_bias(observation.problem), list_fitted_hypotheses(observation.problem))
        for hypothesis in fitted:
            yield "scale and shift", hypothesis
        refitted = list_refitted_hypotheses(observation, sample)
        lost = list_lost_products(observation, observation.distances.over_bound > 1.0)
        for hypothesis in itertools.chain(lost, refitted, list_solved_hypotheses(observation)):
            yield "fitted operands", hypothesis
        for hypothesis in list_searched_hypotheses(observation, sample):
            yield "quantised operands", hypothesis

    def _try_functions(self, *stages: Iterable[tuple[str, Hypothesis]]) -> Mechanism | None:
        """The closest of the hypotheses that explain better than the declared function and all outputs.

        Where the closest of a stage leaves more than rounding, and the result is farther from the truth than a plain
        sum, those of the next are tried together with it.
        """
        observation = self.observation
        if observation.distances.within_bound and not self._tells_enough:
            return None
        ranked: list[tuple[Hypothesis, float]] = []
        found: Mechanism | None = None
        for listed in stages:
            found = self._choose(listed, ranked)
            if self._is_plain or not observation.result.any() or not self._is_finite:
                return found
            if found and self._leaves_rounding(min(d for _, d in ranked)):
                return found
            if found is None and self._leaves_part_zero:
                return None
        return found

    @functools.cached_property
    def _tells_enough(self) -> bool:
        """Whether so many outputs differ from the truth that no hypothesis fits all of them by chance."""
        return len(measure_telling_steps(self.observation)) >= thresholds.FEWEST_TELLING

    @functools.cached_property
    def _has_telling_bits(self) -> bool:
        return count_telling_bits(measure_telling_steps(self.observation)) >= thresholds.FEWEST_BITS

    @functools.cached_property
    def _leaves_part_zero(self) -> bool:
        return leaves_part_zero(self.observation)

    @functools.cached_property
    def _is_plain(self) -> bool:
        sample = self.observation.choose_sample()
        return is_as_close_as_a_plain_sum(self.observation, sample, times=thresholds.PLAIN_TIMES)

    @functools.cached_property
    def _declared(self) -> float:
        return measure_nearness_of_truth(self.observation, self.observation.choose_sample())

    @functools.cached_property
    def _is_finite(self) -> bool:
        """Whether the result and the operands, which numbers would be fitted to, are all finite."""
        arrays = (self.observation.result, *self.observation.operands.values())
        return all(bool(np.isfinite(a.astype(np.float64)).all()) for a in arrays)

    def _leaves_rounding(self, distance: float) -> bool:
        """Whether a distance is what rounding alone may leave."""
        if self.observation.stored is not None and distance <= thresholds.EXPLAINS_WITHIN * self._declared:
            # Few predictions lie so near the middle of two numbers that rounding decides.
            return True
        return distance <= thresholds.PLAIN_TIMES * self._noise

    def _most_fitted(self, hypothesis: Hypothesis, sample: Sample, predicted: Floats) -> float:
        """What a hypothesis with fitted numbers may leave: a few times what rounding leaves, and its own roundings."""
        if self.observation.stored is not None:
            return thresholds.EXPLAINS_WITHIN * self._declared
        own = hypothesis.unit * measure_size(self.observation, sample, predicted)
        return thresholds.FITTED_TIMES * self._noise + own

    @functools.cached_property
    def _noise(self) -> float:
        return measure_plain_noise(self.observation, self.observation.choose_sample())

    def _choose(
        self, hypotheses: Iterable[tuple[str, Hypothesis]], ranked: list[tuple[Hypothesis, float]]
    ) -> Mechanism | None:
        """The closest of these and of those ranked before, if all outputs agree; `ranked` is added to."""
        observation = self.observation
        sample = observation.choose_sample()
        most = thresholds.EXPLAINS * self._declared
        if observation.distances.within_bound:
            most = thresholds.EXPLAINS_WITHIN * self._declared
            if self._declared > thresholds.UNUSUAL_TIMES * self._noise:
                # What leaves no more than the plainest sum's own rounding explains all that there is to explain.
                most = max(most, self._noise)
        ranked += self._rank(hypotheses, sample, most)
        # Of a result that is small compared with the truth, whatever is small takes nearly all away.
        size = measure_size(observation, sample, sample.pick(observation.result).astype(np.float64))
        nearly = thresholds.NEARLY_ALL * min(self._declared, size)
        near = [pair for pair in ranked if not pair[0].fitted and pair[1] <= nearly]
        self.nearest = min(near, key=lambda pair: pair[1], default=None)
        for hypothesis, distance in self._prefer_simple(ranked)[: int(thresholds.MOST_CHECKED)]:
            alike = [h for h, d in ranked if distance <= d <= distance * (1 + thresholds.TIE) and h is not hypothesis]
            if hypothesis.verdict == "wrong" and observation.distances.within_bound:
                self._note_unproved(hypothesis, distance)
                continue
            found = accept(observation, hypothesis, alike)
            if found:
                return replace(found, tried=self.tried.total())
        return None

    def find_nearest(self) -> Mechanism | None:
        """What takes away nearly all of the error without a number of its own fitted, and fails at some outputs only.

        As where a tie went the other way, or something else is off as well: inferred, no more.
        """
        if self.nearest is None or self.observation.distances.within_bound:
            return None
        hypothesis, distance = self.nearest
        share = _share_taken(distance, self._declared)
        says = f"that takes away {share:.1%} of the squared error; nothing tried takes all"
        return Mechanism(
            hypothesis.cause, hypothesis.verdict, say_hypothesis(self.observation, hypothesis), "nearness",
            evidence=(Evidence("statistic", says),), tried=self.tried.total(),
        )  # fmt: skip

    def _note_unproved(self, hypothesis: Hypothesis, distance: float) -> None:
        """Notes an explanation that the bound does not prove, as the declared function is within it, too."""
        if self.unproved is None and explains_all(self.observation, hypothesis):
            share = _share_taken(distance, self._declared)
            self.unproved = (
                f"{say_hypothesis(self.observation, hypothesis)}, which takes away {share:.1%} of the squared error"
            )

    def _prefer_simple(self, ranked: list[tuple[Hypothesis, float]]) -> list[tuple[Hypothesis, float]]:
        """The closest first; of those that come about as close, the one that was listed first: it assumes least."""
        closest = min((d for _, d in ranked), default=0.0)
        plain = [pair for pair in ranked if not pair[0].fitted]
        fitted = [pair for pair in ranked if pair[0].fitted]
        if any(self._leaves_rounding(d) for _, d in plain):
            # Fits take away some of the rounding itself, and come closer than what is right.
            ranked, closest = plain, min(d for _, d in plain)
        elif fitted:
            # What assumes nothing and comes about as close as a fit needs no fit.
            plain.sort(key=lambda pair: pair[1])
            most = thresholds.ALIKE * min(d for _, d in fitted)
            # What leaves no more than a fit may needs none, if there was far more to explain.
            most = max(most, min(thresholds.FITTED_TIMES * self._noise, thresholds.NEARLY_ALL**3 * self._declared))
            return [p for p in plain if p[1] <= most] + fitted + [p for p in plain if p[1] > most]
        times = thresholds.ALIKE_STORED if self.observation.stored is not None else thresholds.ALIKE
        alike = [pair for pair in ranked if pair[1] <= times * closest]
        return alike[:1] + sorted((p for p in ranked if p is not (alike[0] if alike else None)), key=lambda p: p[1])

    def _rank(
        self, hypotheses: Iterable[tuple[str, Hypothesis]], sample: Sample, most: float
    ) -> list[tuple[Hypothesis, float]]:
        """Hypotheses that come closer to the result than `most`, as they come."""
        ranked: list[tuple[Hypothesis, float]] = []
        for kind, hypothesis in hypotheses:
            self._count(kind)
            predicted = hypothesis.predict(self.observation, sample)
            if predicted is None:
                continue
            distance = measure_nearness(self.observation, sample, predicted)
            if distance < most and not (
                hypothesis.fitted and distance > self._most_fitted(hypothesis, sample, predicted)
            ):
                ranked.append((hypothesis, distance))
        return ranked

    def _try_recipes(self, hypotheses: Iterable[Hypothesis]) -> Mechanism | None:
        """Narrow accumulators, stored partial sums, transforms, flushes: by bits, else by how close they come."""
        observation = self.observation
        tiny = observation.choose_sample().thin(TINY_ROWS, TINY_POSITIONS)
        declared = measure_nearness_of_truth(observation, tiny)
        close: list[tuple[float, Hypothesis]] = []
        for hypothesis in hypotheses:
            self._count("recipe")
            if not self._may_come_close(hypothesis, tiny, declared):
                continue
            predicted = hypothesis.predict(observation, tiny)
            zeros = predicted is not None and observation.result.any() and not predicted.any()
            if predicted is None or hypothesis.recipe is None or zeros:
                continue
            same = ~mark_differing_bits(predicted.astype(observation.result.dtype), tiny.pick(observation.result))
            if same.all() and (found := self._prove_recipe(hypothesis)):
                return found
            distance = measure_nearness(observation, tiny, predicted)
            if self._takes_away_enough(distance, declared):
                close.append((distance, hypothesis))
        return self._choose_closest(
            [h for _, h in sorted(close, key=lambda pair: pair[0])[: int(thresholds.MOST_CHECKED)]]
        )

    def _prove_recipe(self, hypothesis: Hypothesis) -> Mechanism | None:
        if hypothesis.recipe is None or not self._has_telling_bits:
            return None
        if not replays_all(self.observation, hypothesis.recipe):
            return None
        found = Mechanism(hypothesis.cause, hypothesis.verdict, hypothesis.says, "bits", tried=self.tried.total())
        return prove(self.observation, found, hypothesis.recipe)

    def prove_operands(self) -> Mechanism | None:
        """That operands were rounded, if that gives the result's bits; nothing else is tried."""
        listed = list_operand_hypotheses(self.observation.problem, self.observation.stored)
        found = self._choose((("operand rounding", hypothesis) for hypothesis in listed), [])
        return found if found is not None and found.fit == "bits" else None

    def prove_recipes(self, recipes: Sequence[Recipe]) -> Mechanism | None:
        """The first of the recipes that gives the result's bits, by the name that it has for this problem."""
        listed = list_recipe_hypotheses(self.observation.problem) if recipes else ()
        for hypothesis in listed:
            if hypothesis.recipe in recipes:
                self._count("recipe")
                if found := self._prove_recipe(hypothesis):
                    return found
        return None

    def _may_come_close(self, hypothesis: Hypothesis, tiny: Sample, declared: float) -> bool:
        """Whether numbers of the format that a recipe's sums end in come close to the result at all.

        Where even the nearest ones do not, what the recipe predicts need not be known.
        """
        problem, recipe = self.observation.problem, hypothesis.recipe
        ends = None if recipe is None else recipe.find_last_format(has_bias=problem.bias)
        if ends not in _ENDS or problem.out not in _WIDE:
            return True
        if ends not in self._nearest_of:
            given = tiny.pick(self.observation.result).astype(np.float64)
            nearest = round_wide(np.where(np.isfinite(given), given, 0.0), Rounding(ends))
            clips = [problem.then.low, problem.then.high] if problem.then else []
            for bound in round_wide(np.array(clips), Rounding(problem.out)):
                # What was clipped is a bound, in the result's format.
                nearest = np.where(np.abs(given - bound) < np.abs(given - nearest), bound, nearest)
            # What is not finite, or too large for the format, says nothing here.
            nearest = np.where(mark_unclipped(problem, given) & np.isfinite(nearest), nearest, given)
            self._nearest_of[ends] = measure_nearness(self.observation, tiny, nearest)
        # Where all numbers are the format's, bits may prove what distances do not.
        return self._nearest_of[ends] == 0 or self._takes_away_enough(self._nearest_of[ends], declared)

    def _choose_closest(self, hypotheses: list[Hypothesis]) -> Mechanism | None:
        """The recipe that comes closest on more outputs, none having reproduced the bits: inferred, no more."""
        observation = self.observation
        sample = observation.choose_sample().thin(PLAIN_ROWS, PLAIN_POSITIONS)
        declared = measure_nearness_of_truth(observation, sample)
        if observation.distances.within_bound:
            # What sums in some order come as close to is no sign of anything else.
            ordered = (measure_nearness(observation, sample, s) for s in sum_in_orders(observation, sample))
            declared = min((declared, *ordered))
        predictions = ((h, h.predict(observation, sample)) for h in hypotheses)
        near = [(measure_nearness(observation, sample, p), h) for h, p in predictions if p is not None]
        distance, hypothesis = min(near, key=lambda pair: pair[0], default=(np.inf, None))
        given, truth = sample.pick(observation.result), sample.pick(observation.truth)
        tells = mark_differing_bits(given, truth).sum() >= thresholds.FEWEST_TELLING
        if hypothesis is None or not tells or not self._takes_away_enough(distance, declared):
            return None
        says = f"that takes away {_share_taken(distance, declared):.1%} of the squared error; nothing tried takes all"
        return Mechanism(
            hypothesis.cause, hypothesis.verdict, hypothesis.says, "nearness",
            evidence=(Evidence("statistic", says),), tried=self.tried.total(),
        )  # fmt: skip

    def _takes_away_enough(self, distance: float, declared: float) -> bool:
        """Whether a recipe leaves little of the distance that the truth leaves.

        Inside the bound nearly all of it must be gone; elsewhere half, not counting what rounding leaves of any
        prediction, and at least half of the squared distance.
        """
        if self.observation.distances.within_bound:
            return self._tells_enough and self._has_telling_bits and distance < thresholds.EXPLAINS_WITHIN * declared
        left, whole = (max(d * d - self._noise**2, 0.0) for d in (distance, declared))
        return distance**2 < thresholds.EXPLAINS * declared**2 and left < thresholds.EXPLAINS**2 * whole

    def _count(self, kind: str) -> None:
        self.tried[kind] += 1
        if self.tried.total() % _EVERY == 0:
            self.progress(f"trying hypotheses ({kind})", 0.0)


def _share_taken(distance: float, declared: float) -> float:
    """How much of the squared error a prediction takes away; never all of it is claimed."""
    return min(1 - (distance / declared) ** 2, 0.999)
