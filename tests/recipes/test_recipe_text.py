"""Recipes, orders, trees and maps print and read back; bad texts get one line."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from injected_recipes import list_injected
from samebits.errors import RecipeError
from samebits.recipes import Chain, Fused, expand_order, format_recipe, parse_order, parse_recipe
from samebits.recipes.hardware import MATRIX_UNITS
from samebits.recipes.order_map import array_from_places, format_places, parse_places, places_from_array
from samebits.recipes.tree import list_terms
from samebits.recipes.tree_text import format_tree, parse_tree

NAMES, SIZES = ("c", "kh", "kw"), (16, 3, 3)


@pytest.mark.parametrize("text", sorted({text for _, text in list_injected()}))
def test_every_injected_recipe_reads_back(text):
    recipe = parse_recipe(text)
    assert parse_recipe(format_recipe(recipe)) == recipe


@pytest.mark.parametrize("unit", MATRIX_UNITS, ids=lambda u: f"{u.unit}-{u.operands}-{u.result}")
def test_every_row_of_the_hardware_table_is_a_recipe_with_a_source(unit):
    assert parse_recipe(format_recipe(unit.recipe)) == unit.recipe
    assert unit.source


def test_own_ways_of_an_order_read_back():
    text = "direct product=fused acc=float32 order=c,kh,kw;tree:0:9!product=rounded!bias=after/3 where=ow(0*3,1*4)"
    assert format_recipe(parse_recipe(text)) == text


@pytest.mark.parametrize(
    ("order", "tree"),
    [
        ("k", Chain(tuple(range(6)))),
        ("-k", Chain((5, 4, 3, 2, 1, 0))),
        ("k/3|k", Chain((0, 1, 2, Chain((3, 4, 5))))),
        ("k%2|k", Chain((0, 2, 4, Chain((1, 3, 5))))),
        ("pairs:k", Chain((0, 1, Chain((2, 3)), Chain((4, 5))))),
        ("halves:k", Chain((0, 3, Chain((2, 5)), Chain((1, 4))))),
        ("splits:k", Chain((0, Chain((1, 2)), Chain((3, Chain((4, 5))))))),
        ("k/4|fused:k", Chain((Fused((0, 1, 2, 3)), Fused((4, 5))))),
        ("chain@float16:k/3|k", Chain((Chain((0, 1, 2)), Chain((3, 4, 5))), "float16")),
    ],
)
def test_an_order_expands_to_its_tree(order, tree):
    assert expand_order(parse_order(order), ("c",), (6,)) == tree


trees = st.recursive(
    st.integers(0, 99),
    lambda inner: (
        st.builds(Chain, st.lists(inner, min_size=2, max_size=9).map(tuple))
        | st.builds(Chain, st.lists(inner, min_size=1, max_size=9).map(tuple), st.sampled_from(["float16", "bfloat16"]))
        | st.builds(Fused, st.lists(st.integers(0, 99), min_size=1, max_size=5).map(tuple))
    ),
    max_leaves=40,
)


@given(trees)
@settings(max_examples=300, deadline=None)
def test_any_tree_reads_back(tree):
    whole = tree if not isinstance(tree, int) else Chain((tree,))
    read = parse_tree(format_tree(whole))
    assert list_terms(read) == list_terms(whole)
    assert format_tree(read) == format_tree(whole)


@given(st.lists(st.integers(0, 3), min_size=24, max_size=24))
@settings(max_examples=200, deadline=None)
def test_any_map_reads_back(numbers):
    array = np.array(numbers).reshape(2, 3, 4)
    axes = ("n", "c_out", "ow")
    places = places_from_array(array, axes)
    assert parse_places(format_places(places)) == places
    assert np.array_equal(array_from_places(places, axes, array.shape), array)


@pytest.mark.parametrize(
    "text",
    [
        "", "sideways", "direct order=", "direct acc=float99", "direct acc=float16/sometimes",
        "direct acc=float64/upward",
        "direct bias=middle", "direct bias=after", "direct order=c//3", "direct order=c/0", "direct order=tree:(0+1",
        "direct order=tree:0)", "direct order=tree:{(0+1)}", "direct order=chain@half:c|k",
        "direct order=fused@float16:k",
        "direct fused=99", "direct flush=everything", "direct where=ow(0*3", "direct where=ow(0)", "direct acc=x acc=y",
        "winograd(3)", "direct order=tree:0:999999999999", "direct order=tree:" + "(" * 400 + "0" + ")" * 400,
        "direct order=tree:[0]*99999999@1", "direct order=k!speed=high", "direct product=float64 acc=float32",
    ],
)  # fmt: skip
def test_a_bad_recipe_gets_one_line(text):
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("order", ["z", "tree:0+1", "tree:0:144+0", "tree:1:145"])
def test_an_order_that_does_not_fit_the_sums_is_refused(order):
    with pytest.raises(RecipeError):
        expand_order(parse_order(order), NAMES, SIZES)
