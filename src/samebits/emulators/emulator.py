"""The emulator of a recipe as a runner: one front door to all algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from samebits.emulators.direct import sum_products
from samebits.emulators.finishing import finish_sums, round_operands
from samebits.errors import EngineUnsupported, RecipeError
from samebits.problems import Problem
from samebits.problems.operands import check_operands
from samebits.recipes.recipe import Recipe
from samebits.recipes.text import format_recipe
from samebits.runner import Identity
from samebits.version import VERSION

Progress = Callable[[float], None]


def emulate(
    problem: Problem,
    recipe: Recipe,
    operands: Mapping[str, np.ndarray],
    *,
    wanted: npt.NDArray[np.bool_] | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """What a convolution computed by this recipe returns, bit for bit; shape and dtype as the problem says.

    With `wanted`, a mask over the result, only those outputs need be right. Raises RecipeError where the recipe cannot
    be executed on this problem, OperandError where operands do not fit it.
    """
    operands = check_operands(problem, operands)
    read = round_operands(problem, recipe, operands)
    with np.errstate(all="ignore"):
        sums = sum_products(problem, recipe, read, wanted=wanted, progress=progress)
        return finish_sums(problem, recipe, sums, operands)


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
