"""The one-line text of a recipe, both ways: `parse_recipe(format_recipe(r)) == r` for every recipe.

direct acc=float32 product=fused order=c/16|kh,kw,c bias=first
direct x=tf32/toward_zero w=tf32/toward_zero fused=25 acc=float32/toward_zero order=k/8|fused:k
winograd(4) order=c            fft
"""

from __future__ import annotations

import re
from typing import Any

from samebits.errors import RecipeError
from samebits.numbers.format import FORMATS
from samebits.numbers.whole_number import is_whole_number
from samebits.sums.recipes.order import EVERY_AXIS, IN_ORDER, RULES, Key, KeyedOrder, Level, Order, Own, Rule, TreeOrder
from samebits.sums.recipes.order_map import format_places, parse_places
from samebits.sums.recipes.recipe import Algorithm, Fft, Flush, FusedSum, Recipe, Rounding, Winograd
from samebits.sums.recipes.tree import MOST_ITEMS, count_items
from samebits.sums.recipes.tree_text import format_tree, parse_tree

_LONGEST = 2**22
_MOST_ORDERS = 2**12
# Of one order; real ones have up to three levels and six keys.
_MOST_LEVELS, _MOST_KEYS = 16, 32
_KEY = re.compile(r"(-?)([a-z]+)(?:/([0-9]{1,9}))?(?:%([0-9]{1,9}))?")
_CHOICES = {
    "start": ("zero", "product"),
    "padding": ("skipped", "multiplied"),
    "nan": ("kept", "bound"),
}
_FIELDS = ("x", "w", "b", "product", "acc", "order", "where", "fused", "bias", "via", "out", "flush", *_CHOICES)


def format_recipe(recipe: Recipe) -> str:
    """The canonical text: fields in a fixed order, what equals its default left out, product and acc always said."""
    parts = [_format_algorithm(recipe.algorithm)]
    for name in ("x", "w", "b"):
        rounding = getattr(recipe, name)
        if rounding:
            parts.append(f"{name}={_format_rounding(rounding)}")
    parts.append(f"product={recipe.product}")
    parts.append(f"acc={_format_rounding(recipe.accumulator)}")
    flushed = [name for name in ("operands", "results") if getattr(recipe.flush, name)]
    bias = f"{recipe.bias}/{recipe.bias_terms}" if recipe.bias_terms else recipe.bias
    said = (
        (
            "fused",
            _format_fused(recipe.fused),
            recipe.fused != FusedSum(),
        ),
        ("order", ";".join(format_order(o) for o in recipe.orders), recipe.orders != (IN_ORDER,)),
        ("where", format_places(recipe.where), recipe.where != 0),
        ("bias", bias, recipe.bias != "last"),
        ("via", recipe.via, recipe.via != ""),
        ("start", recipe.start, recipe.start != "zero"),
        ("padding", recipe.padding, recipe.padding != "skipped"),
        ("nan", recipe.nan, recipe.nan != "kept"),
        ("out", recipe.out_mode, recipe.out_mode != "nearest_even"),
        ("flush", ",".join(flushed), bool(flushed)),
    )
    return " ".join([*parts, *(f"{name}={value}" for name, value, differs in said if differs)])


def format_order(order: Order) -> str:
    """The text of one order; behind `!` what its sums do otherwise than the recipe says."""
    own = order.own
    ways = [f"product={own.product}"] if own.product else []
    if own.bias:
        ways.append(f"bias={own.bias}" + (f"/{own.bias_terms}" if own.bias_terms else ""))
    if isinstance(order, TreeOrder):
        text = f"tree:{format_tree(order.tree)}"
    else:
        text = "|".join(_format_level(level) for level in order.levels)
    return "!".join([text, *ways])


def parse_recipe(text: str) -> Recipe:
    """The recipe a text names; raises RecipeError, which says what cannot be read and what could stand there."""
    if len(text) > _LONGEST:
        raise RecipeError(f"a recipe of {len(text):,} characters is too long to be one")
    words = text.split()
    if not words:
        raise RecipeError("empty recipe; expected e.g. direct acc=float32 order=c,kh,kw")
    values: dict[str, Any] = {"algorithm": _parse_algorithm(words[0])}
    seen: set[str] = set()
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name not in _FIELDS:
            raise RecipeError(f"unknown field {name[:40]!r}; one of {', '.join(_FIELDS)}")
        if not equals or not value or name in seen:
            raise RecipeError(f"{name} is given twice" if name in seen else f"{name} needs a value")
        seen.add(name)
        values |= _parse_field(name, value)
    return Recipe(**values)


def parse_order(text: str, most_items: int = MOST_ITEMS) -> Order:
    """The order of a text; raises RecipeError, for a tree of more than `most_items` before it is made."""
    text, *ways = text.split("!")
    own: dict[str, Any] = {}
    for way in ways:
        name, _, value = way.partition("=")
        if name not in ("product", "bias") or name in own or not value:
            raise RecipeError(f"behind ! an order takes product= and bias=, each once, not {way[:40]!r}")
        own |= _parse_field(name, value)
    if text.startswith("tree:"):
        return TreeOrder(parse_tree(text.removeprefix("tree:"), most_items), Own(**own))
    if text.count("|") >= _MOST_LEVELS or text.count("|") + text.count(",") >= _MOST_KEYS:
        raise RecipeError(f"an order has at most {_MOST_LEVELS} levels and {_MOST_KEYS} keys: {text[:40]!r}...")
    return KeyedOrder(tuple(_parse_level(part) for part in text.split("|")), Own(**own))


def _parse_orders(text: str) -> tuple[Order, ...]:
    if text.count(";") >= _MOST_ORDERS:
        raise RecipeError(f"a recipe has at most {_MOST_ORDERS:,} orders, not {text.count(';') + 1:,}")
    orders: list[Order] = []
    left = MOST_ITEMS
    for part in text.split(";"):
        order = parse_order(part, left)
        left -= count_items(order.tree) if isinstance(order, TreeOrder) else 0
        orders.append(order)
    return tuple(orders)


def _parse_field(name: str, value: str) -> dict[str, Any]:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise RecipeError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value[:40]!r}")
        return {name: value}
    if name in ("x", "w", "b"):
        return {name: _parse_rounding(value)}
    if name == "bias":
        position, slash, terms = value.partition("/")
        if slash and not (is_whole_number(terms, 9)):
            raise RecipeError(f"bias=after/ takes a number of terms, not {terms[:40]!r}")
        return {"bias": position, "bias_terms": int(terms or 0)}
    if name == "acc":
        return {"accumulator": _parse_rounding(value)}
    if name == "order":
        return {"orders": _parse_orders(value)}
    if name == "where":
        return {"where": parse_places(value)}
    if name == "fused":
        bits, slash, rounding = value.partition("/")
        if not is_whole_number(bits, 2):
            raise RecipeError(f"fused= takes the fraction bits kept, not {value[:40]!r}")
        return {"fused": FusedSum(int(bits), _parse_rounding(rounding) if slash else None)}
    if name == "flush":
        parts = value.split(",")
        if not set(parts) <= {"operands", "results"}:
            raise RecipeError(f"flush= takes operands, results or both, not {value[:40]!r}")
        return {"flush": Flush("operands" in parts, "results" in parts)}
    if name == "out":
        return {"out_mode": Rounding("float32", value).mode}
    return {name: value}


def _format_fused(fused: FusedSum) -> str:
    return f"{fused.fraction_bits}/{_format_rounding(fused.rounding)}" if fused.rounding else str(fused.fraction_bits)


def _format_algorithm(algorithm: Algorithm) -> str:
    if isinstance(algorithm, Winograd):
        return f"winograd({algorithm.tile})"
    return "fft" if isinstance(algorithm, Fft) else "direct"


def _parse_algorithm(word: str) -> Algorithm:
    if word == "direct":
        return None
    if word == "fft":
        return Fft()
    match = re.fullmatch(r"winograd\(([0-9]{1,2})\)", word)
    if not match:
        raise RecipeError(
            f"a recipe begins with direct, winograd(2), winograd(4), winograd(6) or fft, not {word[:40]!r}"
        )
    return Winograd(int(match.group(1)))


def _format_rounding(rounding: Rounding) -> str:
    return rounding.format if rounding.mode == "nearest_even" else f"{rounding.format}/{rounding.mode}"


def _parse_rounding(text: str) -> Rounding:
    name, slash, mode = text.partition("/")
    return Rounding(name, mode) if slash else Rounding(name)


def _format_level(level: Level) -> str:
    keys = ",".join(_format_key(k) for k in level.keys)
    if level.rule == "chain" and not level.format:
        return keys
    return f"{level.rule}{'@' + level.format if level.format else ''}:{keys}"


def _parse_level(text: str) -> Level:
    head, colon, keys = text.rpartition(":")
    rule: Rule = "chain"
    format_ = ""
    if colon:
        name, at, format_ = head.partition("@")
        if name not in RULES:
            raise RecipeError(f"unknown rule {name[:40]!r}; one of {', '.join(RULES)}")
        rule = name
        if at and (format_ not in FORMATS or rule == "fused"):
            raise RecipeError(f"{head[:60]!r}: only sums are stored in a format, one of {', '.join(FORMATS)}")
    return Level(tuple(_parse_key(k) for k in keys.split(",")), rule, format_)


def _format_key(key: Key) -> str:
    block = f"/{key.block}" if key.block != 1 else ""
    modulus = f"%{key.modulus}" if key.modulus else ""
    return f"{'-' if key.descending else ''}{key.axis}{block}{modulus}"


def _parse_key(text: str) -> Key:
    match = _KEY.fullmatch(text)
    if not match:
        raise RecipeError(f"{text[:40]!r} is no key; expected an axis such as c, c/16, {EVERY_AXIS}%4 or -kh")
    sign, axis, block, modulus = match.groups()
    if block == "0" or modulus == "0":
        raise RecipeError(f"{text[:40]!r} divides by zero")
    return Key(axis, int(block or 1), int(modulus or 0), bool(sign))
