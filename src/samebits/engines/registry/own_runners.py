"""What needs no process of its own: the truth and any recipe, as runners."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.engines.registry.runner_text import TRUTH
from samebits.engines.runner import Identity
from samebits.errors import EngineUnsupported, RecipeError
from samebits.problems import Problem
from samebits.sums.emulators import emulate
from samebits.sums.recipes import Recipe, format_recipe
from samebits.sums.truth import compute_truth
from samebits.version import VERSION


class TruthRunner:
    """The correctly rounded result as a runner."""

    text = TRUTH

    def identify(self) -> Identity:
        return Identity(self.text, "truth", VERSION, "CPU")

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        return compute_truth(problem, operands).values

    def close(self) -> None:
        return


class Emulator:
    """A recipe as a runner; `run` raises EngineUnsupported where the recipe does not fit the problem."""

    def __init__(self, recipe: Recipe, text: str = ""):
        self.recipe = recipe
        self.text = text or f"emulate:{format_recipe(recipe)}"

    def identify(self) -> Identity:
        return Identity(self.text, "emulate", VERSION, "CPU", {"recipe": format_recipe(self.recipe)})

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        try:
            return emulate(problem, self.recipe, operands)
        except RecipeError as error:
            raise EngineUnsupported(str(error)) from None

    def close(self) -> None:
        return
