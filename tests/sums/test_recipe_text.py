"""Recipes, orders, trees and maps print and read back; bad texts get one line."""

import time
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from injected_recipes import list_injected
from samebits.errors import RecipeError
from samebits.sums.recipes import Chain, Fused, expand_order, format_recipe, parse_order, parse_recipe
from samebits.sums.recipes.hardware import MATRIX_UNITS
from samebits.sums.recipes.order import TreeOrder, expand_orders
from samebits.sums.recipes.order_map import Split, array_from_places, format_places, parse_places, places_from_array
from samebits.sums.recipes.tree import MOST_ITEMS, list_terms
from samebits.sums.recipes.tree_text import format_tree, parse_tree

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


@pytest.mark.slow
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
        "direct fused=99", "direct fused=25/", "direct fused=25/sometimes", "direct fused=0/float32/toward_zero",
        "direct flush=everything", "direct where=ow(0*3", "direct where=ow(0)", "direct acc=x acc=y",
        "winograd(3)", "direct order=tree:0:999999999999", "direct order=tree:" + "(" * 400 + "0" + ")" * 400,
        "direct order=tree:[0]*99999999@1", "direct order=k!speed=high", "direct product=float64 acc=float32",
        "direct fused=²", "direct bias=after/²", "direct bias=after/٣", "direct fused=٣", "direct order=c/٣",
        "direct order=tree:0:٣", "direct where=ow(0*²)", "direct where=ow(٣*1)", "direct where=٣", "winograd(٤)",
    ],
)  # fmt: skip
def test_a_bad_recipe_gets_one_line(text):
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "order",
    [
        "tree:0:8388609", "tree:(0)*4194305@1", "tree:(0:1000)*10000@1000", "tree:{0:10}*1000000@10",
        "tree:[[[0:100]*100@1]*100@1]*100@1", "tree:" + "(" * 100 + "0" + ")" * 100 + "*100000@1",
        ";".join(["k"] * 4097), "|".join(["k"] * 17), ",".join(["k"] * 33),
    ],
)  # fmt: skip
def test_what_would_expand_to_too_much_is_refused_before_it_does(order):
    tracemalloc.start()
    try:
        with pytest.raises(RecipeError, match="at most"):
            parse_recipe(f"direct order={order}")
        # What an expansion takes: at least the eight bytes of a pointer per item.
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST_ITEMS
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_trees_of_one_recipe_are_counted_together():
    assert len(parse_recipe("direct order=tree:0:4000000;k;tree:0:4000000").orders) == 3
    with pytest.raises(RecipeError, match="at most"):
        parse_recipe("direct order=tree:0:4000000;k;tree:0:4000000;tree:0:4000000")


@pytest.mark.parametrize("order", ["tree:(0:9)*0@1", "tree:[0]*0@1", "tree:{0}*0@0"])
def test_a_tree_that_repeats_its_items_no_time_is_refused(order):
    with pytest.raises(RecipeError, match="at least once"):
        parse_order(order)


@pytest.mark.slow
def test_the_longest_orders_of_real_layers_expand():
    count = 5_000_000
    in_order = Chain(tuple(range(count)))
    assert expand_order(parse_order("k"), ("n",), (count,)) == in_order
    assert list_terms(expand_order(parse_order("k/4096|k"), ("n",), (count,))) == list(range(count))
    assert parse_order(f"tree:0:{count}") == TreeOrder(in_order)


def test_sums_too_long_to_expand_are_refused_before_they_are():
    with pytest.raises(RecipeError, match="8,388,609 terms"):
        expand_order(parse_order("pairs:k"), ("n",), (MOST_ITEMS + 1,))
    orders = [parse_order(text) for text in ("k", "-k", "pairs:k")]
    with pytest.raises(RecipeError, match="3 orders"):
        expand_orders(orders, ("n",), (6_000_000,))
    assert [list_terms(t) for t in expand_orders(orders[:2], ("n",), (3,))] == [[0, 1, 2], [2, 1, 0]]


def test_a_long_map_is_read_in_time_proportional_to_its_length():
    parts = 100_000
    text = f"ow({','.join(['0*1', '1*1'] * (parts // 2))})"
    # Each part costs a few steps; steps that copied the rest of the map would take minutes.
    started = time.process_time()
    assert parse_places(text) == Split("ow", ((0, 1), (1, 1)) * (parts // 2))
    assert time.process_time() - started < 10


@pytest.mark.parametrize("order", ["z", "tree:0+1", "tree:0:144+0", "tree:1:145"])
def test_an_order_that_does_not_fit_the_sums_is_refused(order):
    with pytest.raises(RecipeError):
        expand_order(parse_order(order), NAMES, SIZES)
