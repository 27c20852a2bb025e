"""The sentences of an explanation: what is proved and what is inferred, each said as what it is."""

from __future__ import annotations

from collections import Counter

from samebits.findings import Certainty, Replay, Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.number_words import say_times
from samebits.judging.judging_sentences import say_beyond_likely
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe
from samebits.sums.recipes.seen import SeenRecipe

_MOST_ALTERNATIVES = 3
_PLURALS = {
    "order of addition": "orders of addition",
    "operand rounding": "operand roundings",
    "epilogue": "epilogues",
    "index relation": "paddings and other index relations",
    "layout": "layouts",
    "recipe": "narrow sums, transforms and flushes",
    "scale and shift": "limits, scale and shift per channel",
    "stored result": "stored results",
    "quantised operands": "quantised operands",
    "fitted operands": "fitted operands",
    "scale": "scale and shift of all",
}


def summarize_explained(verdict: Verdict, sides: list[Side]) -> str:
    """Who deviates, by what, who is right; or why nothing can be told."""
    if verdict == "identical":
        several = "The same bits on every side" if len(sides) > 1 else f"{sides[0].name} is right"
        right = all(s.verdict == "identical" for s in sides)
        return f"{several}: {'the correctly rounded result' if right else _say_within(sides)}."
    right = [s.name for s in sides if s.verdict in ("identical", "rounding") and not _is_unlikely(s)]
    said = [_say_deviation(s) for s in sides if s.verdict not in ("identical", "rounding")]
    if said:
        closing = [f"{' and '.join(right)} {'is' if len(right) == 1 else 'are'} right."] if right else []
        return " ".join([*said, *closing])
    exact = [s.name for s in sides if s.verdict == "identical"]
    closing = f"; {' and '.join(exact)} {'is' if len(exact) == 1 else 'are'} correctly rounded" if exact else ""
    unlikely = any(map(_is_unlikely, sides))
    if len(sides) == 1:
        return f"{sides[0].name} is {'not shown to be wrong' if unlikely else 'right'}: {_say_within(sides)}{closing}."
    # That the same products were added is shown only where every side was replayed.
    replayed = all(s.verdict == "identical" or _is_replayed_order(s) for s in sides)
    start = "None is shown to be wrong" if unlikely else "None is wrong"
    if replayed:
        start = "They add the same products in different orders"
    return f"{start}: {_say_within(sides)}{closing}."


def _is_unlikely(side: Side) -> bool:
    """Whether a result is inside its bound, but has errors that no known cause makes of these data."""
    over = side.error.max_over_likely if side.error else None
    return side.verdict == "rounding" and side.cause is None and over is not None and over > 1


def _is_replayed_order(side: Side) -> bool:
    orders = (CauseCode.SUMMATION_ORDER, CauseCode.ILL_CONDITIONED)
    return side.cause_certainty == "bits" and side.cause in orders


def _say_deviation(side: Side) -> str:
    """One side that deviates: what was done, and how that is known."""
    if side.verdict == "undecided" and side.says is not None:
        return f"{side.name} {side.says}, inferred: it cannot be judged by these operands."
    if side.verdict == "undecided":
        return f"{side.name} is beyond its error bound, {side.where}, and no hypothesis explains it."
    if side.says is None:
        return f"{side.name} computes another function, {side.where}; which fault does that is open."
    kind = "the declared function in less precision or range" if side.verdict == "downgrade" else "another function"
    if side.cause_certainty == "bits":
        return f"{side.name} {side.says}: {kind}, proved by replay."
    if side.certainty == "bounds":
        return f"{side.name} computes {kind}, proved by bounds, {side.where}; inferred: it {side.says}."
    share = side.error.max_over_bound if side.error else None
    if side.where and share is not None and share > 1:
        far = f"is up to {say_times(share)} times its error bound from the truth, {side.where}"
        return f"{side.name} {far}; inferred: it {side.says}, {kind}."
    where = f"; outputs beyond their bound: {side.where}" if side.where else ""
    return f"{side.name} {side.says}: {kind}, inferred{where}."


def _say_within(sides: list[Side]) -> str:
    shares = [s.error.max_over_bound for s in sides if s.error]
    share = max((x for x in shares if x is not None), default=0.0)
    if None in shares or not share <= 1.0:
        return "partial sums may leave the range of the declared formats, so that no finite error bound holds"
    return f"every output is within its error bound (the largest error is {share:.2g} of it{say_beyond_likely(sides)})"


def say_seen(seen: SeenRecipe) -> str:
    """Who is known to compute by a recipe."""
    processors = ", ".join(seen.processors)
    return f"seen in {', '.join(seen.engines)} (replayed whole on {seen.replayed:,} other problems; {processors})"


def say_like(name: str, replay: Replay) -> str:
    """Says that a recorded result has the bits of an engine at hand."""
    return f"it is what {name} computes here: its recipe reproduces {replay.count:,} of {replay.elements:,} outputs"


def say_unlike(name: str, replay: Replay | None) -> str:
    """Says that a recorded result does not have the bits of an engine at hand."""
    count = f"{replay.count:,} of {replay.elements:,} outputs" if replay else "no output"
    return f"it is not what {name} computes here: its recipe reproduces {count}"


def say_not_asked(name: str, why: str) -> str:
    """An engine that gave no recipe."""
    return f"{name} could not be asked: {why}"


def say_consistent(compared: int, total: int, beyond: int) -> str:
    """All outputs that a hypothesis was checked on are within the rounding bound of its prediction."""
    which = f"{compared:,} sampled of {total:,}" if compared < total else f"{compared:,}"
    says = f"all {which} outputs are within the rounding bound of this hypothesis"
    if beyond:
        return f"{says}; {beyond:,} are beyond the bound of what was declared"
    return f"{says} and, taken together, much closer to it than to what was declared"


def say_replayed(recipe: Recipe, count: int, total: int) -> str:
    """A recipe that reproduced every output, or every output of a sample."""
    which = f"{count:,} sampled outputs (of {total:,})" if count < total else f"{count:,} outputs"
    return f"replaying {format_recipe(recipe)} gives {count:,} of {which} bit for bit"


def say_others(cause_certainty: Certainty | None, tried: int, alternatives: tuple[str, ...]) -> str:
    """How many other hypotheses were excluded, and what might prove an inferred cause; nothing where there is none."""
    excluded = max(tried - 1 - len(alternatives), 0)
    parts = [f"{excluded} other hypotheses do not fit"] if excluded else []
    if cause_certainty == "statistics":
        parts.append("recording the arrays of a smaller case may let bits prove it")
    return "; ".join(parts)


def say_alternatives(alternatives: tuple[str, ...]) -> str:
    """Mechanisms that predict the same for these data."""
    return f"these data do not distinguish it from: {'; '.join(alternatives[:_MOST_ALTERNATIVES])}"


def say_coarse(*, unlikely: bool) -> str:
    """What operands of four bits leave open."""
    if unlikely:
        return (
            "operands kept in 4 bits could take a result so far only if their errors all pointed one way: that another"
            " function was computed is inferred"
        )
    return "operands kept in 4 bits make errors as large as these: that another function was computed is not shown"


def say_excluded(tried: Counter[str], unproved: str | None = None) -> str:
    """What was tried and does not fit, by kind; what fits although it is not needed."""
    counted = [f"{count} {_PLURALS.get(kind, kind)}" for kind, count in tried.items() if count]
    if unproved is not None:
        return (
            f"one of {tried.total():,} hypotheses comes far closer: it {unproved}; the error bound leaves room for the"
            " declared function too, so nothing proves it"
        )
    return f"excluded: {', '.join(counted)}" if counted else "nothing could be tried"


def say_what_to_do() -> str:
    """How to find out what recorded results alone do not show."""
    return "cannot tell; to find out, run the engine itself, which is then tried on exact integers and probed"
