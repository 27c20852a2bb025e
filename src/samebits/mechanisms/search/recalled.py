"""What one side was proved to do in one result is tried first on the next: an engine computes its layers alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from samebits import thresholds
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.acceptance import find_by_bits, prove
from samebits.mechanisms.evidence.nearness import count_telling_bits, measure_telling_steps
from samebits.mechanisms.facts.observation import Observation

# So many different ones are tried on each result.
_MOST = 8


@dataclass
class Recalled:
    """The mechanisms that were proved by replay in one side's results so far, the latest first."""

    mechanisms: list[Mechanism] = field(default_factory=list[Mechanism])

    def keep(self, found: Mechanism | None) -> None:
        """Keeps a mechanism that was proved by bits, if nothing else gives the same ones."""
        if found is None or found.fit != "bits" or found.recipe is None or found.alternatives:
            return
        others = [m for m in self.mechanisms if m.recipe != found.recipe]
        self.mechanisms = [replace(found, evidence=(), replay=None, tried=0), *others][:_MOST]

    def find(self, observation: Observation) -> Mechanism | None:
        """The one that gives a result's bits, where its bound excludes the declared sums; None where none does."""
        if not self.mechanisms or observation.distances.within_bound or not np.isfinite(observation.result).all():
            return None
        if count_telling_bits(measure_telling_steps(observation)) < thresholds.FEWEST_BITS:
            return None
        known = {m.recipe: m for m in self.mechanisms if m.recipe is not None}
        recipe = find_by_bits(observation, known)
        return None if recipe is None else prove(observation, replace(known[recipe], tried=len(known)), recipe)
