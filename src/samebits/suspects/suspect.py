"""A suspect: something an engine may have done, as a prediction of what it then returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from samebits.findings import Verdict
from samebits.problems import Problem
from samebits.recipes.recipe import Recipe
from samebits.suspects.study import Floats, Sample, Study

# Values of a sample, [rows, positions], in float64; None where the suspect cannot apply.
Predict = Callable[[Study, Sample], Floats | None]


@dataclass(frozen=True)
class Suspect:
    """What is suspected, the cause it would be, and what the result would be.

    `says` continues a sentence that begins with a side's name ("pads with ..."). `verdict` is what the side deserves if
    the suspect is guilty. Where another problem or other operands compute just what is suspected, `reenact` returns
    them, so that recipes can be replayed on them. `unit` is the unit roundoff of a rounding that the prediction
    ends with beside the declared ones.
    """

    cause: str
    verdict: Verdict
    says: str
    predict: Predict
    reenact: Callable[[Study], tuple[Problem, dict[str, np.ndarray]] | None] | None = None
    recipe: Recipe | None = None
    unit: float = 0.0
