"""How two replayed sides come to differ, for recipes written by hand."""

import pytest

from hand_made import WHOLE, make_side
from samebits.findings import Difference, Evidence, Replay
from samebits.problems import parse_problem_text
from samebits.questions.compare.order_difference import explain_difference
from samebits.sums.recipes.order import TreeOrder
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe
from samebits.sums.recipes.tree import Chain

PROBLEM = parse_problem_text("conv1d x=1x2x6 w=1x2x3 dtype=float32")
LARGE = parse_problem_text("conv1d x=1x1024x2 w=1x1024x1 dtype=float32")
TOO_LARGE = parse_problem_text("conv1d x=1x1025x2 w=1x1025x1 dtype=float32")
IN_ORDER = "6 products left to right, by k"


def replayed(name, recipe, replay=WHOLE):
    return make_side(name, "rounding", 0.5, recipe=recipe, replay=replay)


def differ(a, b, count=3):
    return Difference(a, b, count, 1.0, 1.0)


def explain(one, two, problem=PROBLEM):
    found = explain_difference(problem, [replayed("a", one), replayed("b", two)], [differ("a", "b")])
    assert found is not None
    assert found.kind == "structure"
    start, says = found.says[:8], found.says[8:]
    assert start == "a and b "
    return says


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [
        ("direct", "fft", "use different algorithms"),
        ("winograd(2)", "winograd(4)", "use different algorithms"),
        ("direct x=tf32", "direct", "multiply different numbers: x rounded to tf32, against operands as they are"),
        (
            "direct w=tf32",
            "direct w=float16",
            "multiply different numbers: w rounded to tf32, against w rounded to float16",
        ),
        (
            "direct x=tf32 acc=float16",
            "direct x=tf32",
            "keep their sums in different formats: float16, against float32",
        ),
        (
            "direct",
            "direct product=rounded",
            "add in the same order; one rounds products before adding them, the other does not",
        ),
        ("direct bias=first", "direct", "add in the same order and round at different points"),
        (
            "direct order=c,kw;k%2|k/2 where=m(0*3,1*3)",
            "direct order=c,kw",
            "add in different orders in a part of the outputs from the 1st addition on: 2 sums of 3 products, each left"
            " to right by k in blocks of 2; then left to right by k mod 2, against 6 products left to right, by c, kw",
        ),
        ("direct order=c,kw", "direct bias=first order=k", "add in the same order and round at different points"),
        (
            "direct",
            "direct order=kw,c",
            # In order 0 + 1 comes first; by taps first 0 + 3.
            f"add in different orders from the 1st addition on: {IN_ORDER}, against 6 products left to right, by kw, c",
        ),
        (
            "direct",
            "direct order=c|kw",
            # 0 + 1 and + 2 are made by both; then in order + 3, in the other 3 + 4 apart.
            f"add in different orders from the 3rd addition on: {IN_ORDER},"
            " against 2 sums of 3 products, each left to right by kw; then left to right by c",
        ),
        (
            "direct order=pairs:k",
            "direct",
            # ((0 + 1) + (2 + 3)) + (4 + 5): 2 + 3 is made by pairs only.
            "add in different orders from the 2nd addition on: 6 products adjacent pairs, then pairs of those, by k,"
            f" against {IN_ORDER}",
        ),
        (
            "direct order=c|chain@float16:kw",
            "direct",
            "add in different orders from the 3rd addition on: 2 sums of 3 products, each left to right, kept in"
            f" float16 by kw; then left to right by c, against {IN_ORDER}",
        ),
        (
            "direct order=chain@float16:k",
            "direct",
            f"add in different orders: 6 products left to right, kept in float16, by k, against {IN_ORDER}",
        ),
    ],
)
def test_two_recipes_are_put_beside_each_other(one, two, says):
    assert explain(one, two) == says


def test_written_trees_are_compared_and_said_too():
    swapped = format_recipe(Recipe(orders=(TreeOrder(Chain((1, 0, 2, 3, 4, 5))),)))
    # The same terms stand under every addition: only which of the first two is fused differs.
    assert explain(swapped, "direct") == (
        f"add in different orders: left to right: 6 products one by one, against {IN_ORDER}"
    )


def test_additions_are_compared_one_by_one_up_to_1024_products():
    said = explain("direct", "direct order=-k", LARGE)
    assert said.startswith("add in different orders from the 1st addition on: 1,024 products")
    assert explain("direct", "direct order=-k", TOO_LARGE).startswith("add in different orders: 1,025 products")


def test_the_first_two_replayed_sides_with_different_bits_are_explained():
    sides = [
        replayed("a", "direct"),
        replayed("part", "direct product=rounded", Replay(0.5, 100)),
        make_side("none", "rounding", 0.5, recipe="fft"),
        replayed("b", "direct"),
        replayed("c", "fft"),
    ]
    pairs = [differ("a", "part"), differ("a", "none"), differ("a", "b", 0), differ("b", "c"), differ("a", "c")]
    found = explain_difference(PROBLEM, sides, pairs)
    assert found == Evidence("structure", "b and c use different algorithms")
    assert explain_difference(PROBLEM, sides, pairs[:3]) is None
    assert explain_difference(PROBLEM, sides, []) is None
