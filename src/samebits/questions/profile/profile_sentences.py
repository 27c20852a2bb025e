"""What probes saw and what a profile comes to, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from samebits.engines.probes.invariances import TIMES_RUN
from samebits.findings import ExactData, Replay
from samebits.questions.profile.profile_schema import Profile
from samebits.sums.recipes.order import list_stored_formats
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe

HALF_FORMATS = ("float16", "bfloat16")

Outcome = Literal["replayed", "wrong", "partly", "varies", "unknown"]


def name_outcome(found: Profile) -> Outcome:
    """What a profile came to, in a word."""
    if found.computes_another:
        return "wrong"
    if not found.has_own_recipe:
        return "varies"
    if found.replay is None:
        return "unknown"
    return "replayed" if found.replay.is_whole else "partly"


_TRANSFORMS = {
    "winograd": "It multiplies transforms of tiles, as Winograd's algorithm does",
    "fft": "It multiplies transforms of the whole plane, as Fourier's or Winograd's of a tile as large",
}


def summarize_profile(
    recipe: Recipe | None,
    replay: Replay | None,
    family: str | None,
    accumulator: str | None,
    orders: int,
    failure: str | None,
    declared: str = "float32",
) -> str:
    """What a person can repeat; `declared` is the problem's dtype: where it is a half format, which one adds leads."""
    if recipe is None or replay is None:
        return f"No recipe: {failure or 'none that was tried reproduces any output'}."
    share = f"{replay.count:,} of {replay.elements:,} outputs"
    if not replay.is_whole and family in _TRANSFORMS:
        return f"{_TRANSFORMS[family]} (single products come out changed), in a way that no known recipe reproduces."
    if not replay.is_whole:
        return f"The recipe reproduces {share} only: part of the arithmetic is undetermined."
    if family not in (None, "direct", "unknown"):
        return f"Computed by {format_recipe(recipe).split()[0]}; replayed {share}."
    answer = "" if declared not in HALF_FORMATS else f"{_answer_half(recipe, declared)} "
    products = "fused multiply-adds" if recipe.product == "fused" else "products rounded before they are added"
    if recipe.fused.fraction_bits:
        products = f"multi-term additions that keep {recipe.fused.fraction_bits} bits"
    many = "one order" if orders == 1 else f"{orders} orders"
    sums = f"Sums in {accumulator}, {products}, {many} for all outputs"
    return f"{answer}{_say_narrow(recipe, declared)}{sums}; replayed {share}."


def _say_narrow(recipe: Recipe, declared: str) -> str:
    """A sentence for operands that are rounded to another format than the declared one."""
    rounded = (("x", recipe.x), ("w", recipe.w))
    narrow = [f"{name} is rounded to {r.format}" for name, r in rounded if r is not None and r.format != declared]
    return f"{' and '.join(narrow)}. " if narrow else ""


def _answer_half(recipe: Recipe, declared: str) -> str:
    """Whether a sum of float16 numbers is really added in float16."""
    accumulator = recipe.accumulator.format
    asked = f"Does it add in {declared}?"
    if accumulator == declared:
        return f"{asked} Yes."
    between = {recipe.via, *(f for order in recipe.orders for f in list_stored_formats(order))} - {""}
    if between:
        return f"{asked} In part: it adds in {accumulator}, and stores partial sums in {' and '.join(sorted(between))}."
    return f"{asked} No: it adds in {accumulator} and rounds each sum once."


def summarize_another(exact: ExactData) -> str:
    """The answer where exact integers show another function."""
    return (
        f"It computes another function: {exact.differing:,} of {exact.elements:,} outputs differ on integers that leave"
        f" no room for rounding, {exact.where}. How a wrong function adds is not asked."
    )


def summarize_unrepeated(distinct: int) -> str:
    """The answer where an engine's bits change by themselves."""
    return f"It gives other bits when run again ({distinct} results in {TIMES_RUN} runs): no one recipe is its own."


def say_impulse(wrong: float, leaked: float) -> str:
    """What one source value of 1 came to."""
    return (
        f"one source value of 1: {100 * wrong:.3g} % of the outputs it reaches differ from their weight,"
        f" {100 * leaked:.3g} % of the others are not zero"
    )


def say_accumulator(terms: tuple[int, int, int], bits: int, mode: str | None, *, all_survive: bool) -> str:
    """How small a term survives next to a large one."""
    a, b, c = terms
    less = ", nothing smaller was asked" if all_survive else ", less does not"
    rounding = f"; rounding {mode}" if mode else ""
    return f"terms {a}, {b}, {c} as 1 + 2^-k - 1: 2^-{bits} survives{less}{rounding}"


def say_product(compared: int, possible: Sequence[str]) -> str:
    """How two products are rounded."""
    return f"two products, {compared} outputs: {' or '.join(possible) or 'no known way'}"


def say_bias(kept: float, units: float) -> str:
    """Where the bias enters, as units that survive it."""
    return f"bias against the first term: {kept:g} of {units} units survive"


def say_proof(replay: Replay, tried: int) -> str:
    """How much of random data the recipe reproduces."""
    return (
        f"{replay.count:,} of {replay.elements:,} outputs on random data, bit for bit; {tried}"
        f" recipe{'s' if tried != 1 else ''} tried"
    )
