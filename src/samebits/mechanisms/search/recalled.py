"""What one side was proved to do in one result is looked for first in the next: an engine computes its layers alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.nearness import count_telling_bits, measure_telling_steps
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.search.hypothesis_search import HypothesisSearch
from samebits.progress import Progress
from samebits.sums.recipes.recipe import Recipe

# So many different recipes are tried on each result.
_MOST = 8


@dataclass
class Recalled:
    """What was proved by replay in one side's results so far: that operands were rounded, and recipes of sums.

    Only what is to be tried first is remembered. What a mechanism is called, and what the data do not tell from it, is
    found for each result by itself.
    """

    rounds_operands: bool = False
    recipes: list[Recipe] = field(default_factory=list[Recipe])

    def keep(self, found: Mechanism | None) -> None:
        """Remembers a mechanism that was proved by replay."""
        if found is None or found.fit != "bits" or found.recipe is None:
            return
        if found.cause == CauseCode.REDUCED_PRECISION_OPERANDS:
            self.rounds_operands = True
        elif found.cause in (CauseCode.LOW_PRECISION_ACCUMULATOR, CauseCode.OVERFLOW):
            self.recipes = [found.recipe, *(r for r in self.recipes if r != found.recipe)][:_MOST]

    def find(self, observation: Observation, progress: Progress) -> Mechanism | None:
        """A mechanism of these kinds that gives a result's bits, where its bound excludes the declared sums."""
        if not (self.rounds_operands or self.recipes) or observation.distances.within_bound:
            return None
        if not np.isfinite(observation.result).all():
            return None
        if count_telling_bits(measure_telling_steps(observation)) < thresholds.FEWEST_BITS:
            return None
        search = HypothesisSearch(observation, progress)
        found = search.prove_operands() if self.rounds_operands else None
        return found or search.prove_recipes(self.recipes)
