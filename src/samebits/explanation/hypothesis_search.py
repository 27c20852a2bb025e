"""Hypothesis search: predictions tried against one recorded result, until one explains it.

A hypothesis explains better than the declared function if its prediction is closer to the result: rounding noise of
another order is independent of a hypothesis' error, so that for a fault-free result the truth itself is always the
closest. What comes closest is then held against every output and its bound, or replayed (`acceptance`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.explanation.acceptance import TINY_POSITIONS, TINY_ROWS, accept, find_by_bits, prove, replays_all
from samebits.explanation.nearness import (
    PLAIN_POSITIONS,
    PLAIN_ROWS,
    count_telling_bits,
    is_as_close_as_a_plain_sum,
    measure_nearness,
    measure_nearness_of_truth,
    measure_telling_steps,
)
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.formats.same_bits import mark_differing_bits
from samebits.hypotheses import (
    Hypothesis,
    Observation,
    Sample,
    list_epilogue_hypotheses,
    list_fitted_hypotheses,
    list_geometry_hypotheses,
    list_layout_hypotheses,
    list_operand_hypotheses,
    list_order_hypotheses,
    list_product_hypotheses,
    list_recipe_hypotheses,
    list_transform_hypotheses,
)
from samebits.judging import thresholds
from samebits.judging.verdict_rules import Mechanism
from samebits.progress import Progress

# Progress is reported after so many.
_EVERY = 8


@dataclass
class HypothesisSearch:
    """One result being searched for what made it; `tried` counts hypotheses by kind."""

    observation: Observation
    progress: Progress
    tried: Counter[str] = field(default_factory=Counter[str])

    def run(self) -> Mechanism | None:
        """The mechanism that explains the result, or None where no hypothesis does."""
        observation, problem = self.observation, self.observation.problem
        return (
            self._prove_order()
            or self._try_functions(self._list_functions())
            or self._try_recipes(
                list_transform_hypotheses(problem)
                if is_as_close_as_a_plain_sum(observation, observation.choose_sample(), times=thresholds.PLAIN_TIMES)
                else list_recipe_hypotheses(problem)
            )
        )

    def run_fitted(self) -> Mechanism | None:
        """Hypotheses with free numbers; asked when nothing else fits."""
        return self._try_functions(("scale and shift", h) for h in list_fitted_hypotheses(self.observation.problem))

    def _prove_order(self) -> Mechanism | None:
        """A plain or common order that reproduces the result: rounding, proved."""
        hypotheses = [h for h in list_order_hypotheses(self.observation.problem) if h.recipe]
        recipes = [h.recipe for h in hypotheses if h.recipe]
        recipe = find_by_bits(self.observation, recipes)
        self.tried["order of addition"] += len(recipes) if recipe is None else recipes.index(recipe) + 1
        if recipe is None:
            return None
        says = "adds the declared products in an order of its own"
        found = Mechanism(CauseCode.SUMMATION_ORDER, "rounding", says, "bits", tried=self.tried.total())
        return prove(self.observation, found, recipe)

    def _list_functions(self) -> Iterator[tuple[str, Hypothesis]]:
        """Hypotheses predicted as exact sums, with their kinds."""
        problem = self.observation.problem
        kinds = {
            "operand rounding": list_operand_hypotheses(problem),
            "epilogue": list_epilogue_hypotheses(problem),
        }
        if problem.stated:
            kinds["operands and result"] = list_product_hypotheses(problem)
        else:
            kinds |= {"index relation": list_geometry_hypotheses(problem), "layout": list_layout_hypotheses(problem)}
        if not self.observation.result.any():
            # Whatever reads nothing but padding gives zeros.
            kinds = {"operand rounding": kinds["operand rounding"]}
        return itertools.chain.from_iterable(((kind, h) for h in listed) for kind, listed in kinds.items())

    def _try_functions(self, hypotheses: Iterable[tuple[str, Hypothesis]]) -> Mechanism | None:
        """The closest of the hypotheses that explain better than the declared function and all outputs."""
        observation = self.observation
        within = observation.distances.within_bound
        if within and len(measure_telling_steps(observation)) < thresholds.FEWEST_TELLING:
            return None
        sample = observation.choose_sample()
        share = thresholds.EXPLAINS_WITHIN if within else thresholds.EXPLAINS
        ranked = self._rank(hypotheses, sample, share * measure_nearness_of_truth(observation, sample))
        for hypothesis, distance in ranked[: int(thresholds.MOST_CHECKED)]:
            alike = [h for h, d in ranked if distance <= d <= distance * (1 + thresholds.TIE) and h is not hypothesis]
            found = accept(observation, hypothesis, alike)
            if found:
                return replace(found, tried=self.tried.total())
        return None

    def _rank(
        self, hypotheses: Iterable[tuple[str, Hypothesis]], sample: Sample, most: float
    ) -> list[tuple[Hypothesis, float]]:
        """Hypotheses that come closer to the result than `most`, the closest first; ties as they come."""
        ranked: list[tuple[Hypothesis, float]] = []
        for kind, hypothesis in hypotheses:
            self._count(kind)
            predicted = hypothesis.predict(self.observation, sample)
            if predicted is None:
                continue
            distance = measure_nearness(self.observation, sample, predicted)
            if distance < most:
                ranked.append((hypothesis, distance))
        return sorted(ranked, key=lambda pair: pair[1])

    def _try_recipes(self, hypotheses: Iterable[Hypothesis]) -> Mechanism | None:
        """Narrow accumulators, stored partial sums, transforms, flushes: by bits, else by how close they come."""
        observation = self.observation
        tiny = observation.choose_sample().thin(TINY_ROWS, TINY_POSITIONS)
        declared = measure_nearness_of_truth(observation, tiny)
        tells = count_telling_bits(measure_telling_steps(observation)) >= thresholds.FEWEST_BITS
        close: list[tuple[float, Hypothesis]] = []
        for hypothesis in hypotheses:
            self._count("recipe")
            predicted = hypothesis.predict(observation, tiny)
            zeros = predicted is not None and observation.result.any() and not predicted.any()
            if predicted is None or hypothesis.recipe is None or zeros:
                continue
            same = ~mark_differing_bits(predicted.astype(observation.result.dtype), tiny.pick(observation.result))
            if same.all() and tells and replays_all(observation, hypothesis.recipe):
                found = Mechanism(
                    hypothesis.cause, hypothesis.verdict, hypothesis.says, "bits", tried=self.tried.total()
                )
                return prove(observation, found, hypothesis.recipe)
            distance = measure_nearness(observation, tiny, predicted)
            if distance < thresholds.EXPLAINS * declared:
                close.append((distance, hypothesis))
        return self._choose_closest(
            [h for _, h in sorted(close, key=lambda pair: pair[0])[: int(thresholds.MOST_CHECKED)]]
        )

    def _choose_closest(self, hypotheses: list[Hypothesis]) -> Mechanism | None:
        """The recipe that comes closest on more outputs, none having reproduced the bits: inferred, no more.

        A result inside its bound is called nothing but rounding by nearness of this kind.
        """
        observation = self.observation
        if observation.distances.within_bound:
            return None
        sample = observation.choose_sample().thin(PLAIN_ROWS, PLAIN_POSITIONS)
        declared = measure_nearness_of_truth(observation, sample)
        predictions = ((h, h.predict(observation, sample)) for h in hypotheses)
        near = [(measure_nearness(observation, sample, p), h) for h, p in predictions if p is not None]
        distance, hypothesis = min(near, key=lambda pair: pair[0], default=(np.inf, None))
        if hypothesis is None or distance >= thresholds.EXPLAINS * declared:
            return None
        share = min(1 - (distance / declared) ** 2, 0.999)
        says = f"that takes away {share:.1%} of the squared error; nothing tried takes all"
        return Mechanism(
            hypothesis.cause, hypothesis.verdict, hypothesis.says, "nearness",
            evidence=(Evidence("statistic", says),), tried=self.tried.total(),
        )  # fmt: skip

    def _count(self, kind: str) -> None:
        self.tried[kind] += 1
        if self.tried.total() % _EVERY == 0:
            self.progress(f"trying hypotheses ({kind})", 0.0)
