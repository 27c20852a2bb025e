"""What a recipe does, as the predicate of a sentence whose subject is an engine."""

from __future__ import annotations

from samebits.findings.causes import CauseCode
from samebits.recipes.order import list_stored_formats
from samebits.recipes.recipe import Recipe


def say_what_it_does(recipe: Recipe, cause: CauseCode) -> str:
    """The way of a recipe that its cause names."""
    if cause == CauseCode.REDUCED_PRECISION_OPERANDS:
        rounded = [f"{n} to {r.format}" for n, r in (("x", recipe.x), ("w", recipe.w)) if r]
        return f"rounds {' and '.join(rounded)} before it multiplies"
    if cause == CauseCode.LOW_PRECISION_ACCUMULATOR:
        stored = sorted({name for order in recipe.orders for name in list_stored_formats(order)})
        return (
            f"stores partial sums in {' and '.join(stored)}"
            if stored
            else f"keeps its sums in {recipe.accumulator.format}"
        )
    if cause in (CauseCode.WINOGRAD, CauseCode.FFT):
        return f"transforms its operands ({cause})"
    return "adds the declared products in an order of its own"


def say_operands(recipe: Recipe) -> str:
    """What a recipe multiplies."""
    rounded = [f"{n} rounded to {r.format}" for n, r in (("x", recipe.x), ("w", recipe.w)) if r]
    return " and ".join(rounded) or "operands as they are"
