"""What a recipe does, as the predicate of a sentence whose subject is an engine."""

from __future__ import annotations

from samebits.findings.causes import CauseCode
from samebits.sums.recipes.order import list_stored_formats
from samebits.sums.recipes.recipe import Recipe


def say_what_it_does(recipe: Recipe, cause: CauseCode) -> str:
    """The way of a recipe that its cause names."""
    if cause == CauseCode.REDUCED_PRECISION_OPERANDS:
        rounded = [f"{names} to {name}" for name, names in _group_rounded(recipe, bias="the bias").items()]
        if not rounded:
            return f"computes by way of {recipe.via}"
        stored = f", and stores its sums in {recipe.via}" if recipe.via else ""
        return f"rounds {' and '.join(rounded)} before it multiplies{stored}"
    if cause == CauseCode.LOW_PRECISION_ACCUMULATOR:
        stored = sorted({name for order in recipe.orders for name in list_stored_formats(order)})
        if stored:
            return f"stores partial sums in {' and '.join(stored)}"
        truncates = recipe.accumulator.mode == "toward_zero"
        return f"{'truncates its sums to' if truncates else 'keeps its sums in'} {recipe.accumulator.format}"
    if cause == CauseCode.SUBNORMALS:
        return "takes subnormal numbers for zero"
    if cause == CauseCode.NAN_SEMANTICS:
        return "turns NaN into a bound of its clip or relu"
    if cause in (CauseCode.WINOGRAD, CauseCode.FFT):
        return f"transforms its operands ({cause})"
    return "adds the declared products in an order of its own"


def say_operands(recipe: Recipe) -> str:
    """What a recipe multiplies."""
    rounded = [f"{names} rounded to {name}" for name, names in _group_rounded(recipe).items()]
    return " and ".join(rounded) or "operands as they are"


def _group_rounded(recipe: Recipe, bias: str = "") -> dict[str, str]:
    """What is rounded to each format, in words: "x, w and the bias"; the bias only where it is given a name."""
    groups: dict[str, list[str]] = {}
    for name, rounding in (("x", recipe.x), ("w", recipe.w), (bias, recipe.b)):
        if rounding and name:
            groups.setdefault(rounding.format, []).append(name)
    return {format_: " and ".join(filter(None, (", ".join(n[:-1]), n[-1]))) for format_, n in groups.items()}
