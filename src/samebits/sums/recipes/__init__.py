"""How a convolution is rounded and in which order it is added up: data, text form, hardware table."""

from samebits.sums.recipes.order import IN_ORDER, Key, KeyedOrder, Level, Order, TreeOrder, expand_order
from samebits.sums.recipes.recipe import Algorithm, Fft, Flush, FusedSum, Recipe, Rounding, Winograd
from samebits.sums.recipes.recipe_text import format_order, format_recipe, parse_order, parse_recipe
from samebits.sums.recipes.tree import Chain, Fused, Item

__all__ = [
    "IN_ORDER",
    "Algorithm",
    "Chain",
    "Fft",
    "Flush",
    "Fused",
    "FusedSum",
    "Item",
    "Key",
    "KeyedOrder",
    "Level",
    "Order",
    "Recipe",
    "Rounding",
    "TreeOrder",
    "Winograd",
    "expand_order",
    "format_order",
    "format_recipe",
    "parse_order",
    "parse_recipe",
]
