"""A hypothesis: something an engine may have done, as a prediction of what it then returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Observation, Sample
from samebits.problems import Problem
from samebits.sums.recipes.recipe import Recipe

# Values of a sample, [rows, positions], in float64; None where the hypothesis cannot apply.
Predict = Callable[[Observation, Sample], Floats | None]


@dataclass(frozen=True)
class Hypothesis:
    """What is assumed, the cause it would be, and what the result would be.

    `says` continues a sentence that begins with a side's name ("pads with ..."). `verdict` is what the side
    deserves if the hypothesis is accepted. Where another problem or other operands compute just what is assumed,
    `alter` returns them, so that recipes (`recipe`, where that is given too) can be replayed on them. `unit` is the
    unit roundoff of a rounding that the prediction ends with beside the declared ones. A `fitted` one has numbers taken
    from the result itself, which `say_fit` puts in words.
    """

    cause: CauseCode
    verdict: Verdict
    says: str
    predict: Predict
    alter: Callable[[Observation], tuple[Problem, dict[str, np.ndarray]] | None] | None = None
    recipe: Recipe | None = None
    unit: float = 0.0
    fitted: bool = False
    say_fit: Callable[[Observation, Sample], str] | None = None
