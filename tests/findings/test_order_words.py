"""Orders in words, word for word; the numbers in them are those of the sums themselves."""

from dataclasses import replace

import pytest

from samebits.findings.words.order_words import describe_order, ordinal
from samebits.problems import parse_problem_text
from samebits.problems.terms import find_terms
from samebits.sums.recipes import parse_recipe
from samebits.sums.recipes.order import Own, TreeOrder, expand_order
from samebits.sums.recipes.tree import Chain, Fused

# 64 channels of 3 x 3 taps: 576 products.
TERMS = find_terms(parse_problem_text("conv2d x=1x64x5x5 w=8x64x3x3 dtype=float32"))
LONG = find_terms(parse_problem_text("conv1d x=1x2048x2 w=1x2048x1 dtype=float32"))
PAIRS = "adjacent pairs, then pairs of those"
HALVES = "upper half onto lower half, again and again"


def read(text):
    return parse_recipe(f"direct order={text}").orders[0]


def describe(order, terms=TERMS):
    return describe_order(order, expand_order(order, terms.axis_names, terms.axis_sizes), terms)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k", "576 products left to right, by k"),
        ("c,kh,kw", "576 products left to right, by c, kh, kw"),
        ("-c,kh,-kw", "576 products left to right, by falling c, kh, falling kw"),
        ("pairs:k", f"576 products {PAIRS}, by k"),
        ("halves:k", f"576 products {HALVES}, by k"),
        ("splits:k", "576 products halves summed apart, then added, by k"),
        ("chain@float16:k", "576 products left to right, kept in float16, by k"),
        ("kh,c/16,kw,c", "576 products left to right, by kh, c in blocks of 16, kw, c"),
        (
            "c/16|kh,kw,c",
            "4 sums of 144 products, each left to right by kh, kw, c; then left to right by c in blocks of 16",
        ),
        ("k%8|k", "8 sums of 72 products, each left to right by k; then left to right by k mod 8"),
        ("halves:k%8|k", f"8 sums of 72 products, each left to right by k; then {HALVES} by k mod 8"),
        ("-k%8|k", "8 sums of 72 products, each left to right by k; then left to right by falling k mod 8"),
        (
            "c/4%2|k",
            "2 sums of 288 products, each left to right by k; then left to right by c in blocks of 4 mod 2",
        ),
        (
            "k/16|fused:k",
            "36 sums of 16 products, each in one multi-term addition by k; then left to right by k in blocks of 16",
        ),
        (
            "chain@float16:kh,kw|pairs:c",
            f"9 sums of 64 products, each {PAIRS} by c; then left to right, kept in float16 by kh, kw",
        ),
        (
            "c/16|halves:kw|-kh,c",
            "12 sums of 48 products, each left to right by falling kh, c;"
            f" then {HALVES} by kw; then left to right by c in blocks of 16",
        ),
    ],
)
def test_a_keyed_order_is_said_from_the_first_addition_to_the_last(text, words):
    assert describe(read(text)) == words


def test_sums_within_sums_are_counted_once():
    assert describe(read("c/16|c/4|k")) == (
        "16 sums of 36 products, each left to right by k;"
        " then left to right by c in blocks of 4; then left to right by c in blocks of 16"
    )
    assert describe(read("c%8|c%4|k")).startswith("8 sums of 72 products")


def test_sums_of_several_sizes_are_said_by_the_largest():
    # 64 = 48 + 16 channels of 9 taps; 576 = 115 * 5 + 1.
    assert describe(read("c/48|k")).startswith("2 sums of up to 432 products, each")
    assert describe(read("k%5|k")).startswith("5 sums of up to 116 products, each")
    assert describe(read("k%1000|k")).startswith("576 sums of 1 products, each")


def test_large_numbers_are_grouped():
    assert describe(read("c"), LONG) == "2,048 products left to right, by c"
    assert describe(read("c/2|c"), LONG) == (
        "1,024 sums of 2 products, each left to right by c; then left to right by c in blocks of 2"
    )
    assert describe(read("c%2|c"), LONG).startswith("2 sums of 1,024 products")


@pytest.mark.parametrize(
    ("own", "ways"),
    [
        (Own(product="rounded"), "products rounded"),
        (Own(bias="first"), "bias first"),
        (Own(product="float16", bias="last"), "products float16, bias last"),
    ],
)
def test_what_an_order_does_otherwise_is_said_at_the_end(own, ways):
    assert describe(replace(read("k"), own=own)) == f"576 products left to right, by k; {ways}"


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (0, "one product"),
        (Fused((0, 1, 2)), "3 products in one multi-term addition"),
        (Chain((0, 1, 2)), "left to right: 3 products one by one"),
        (
            Chain((0, 1, Chain((2, 3)), Chain((4, 5)))),
            "left to right: 2 products one by one, 2 finished sums of 2 products",
        ),
        (
            Chain((Chain((0, 1)), Chain((2, 3, 4)), Chain((5, 6)), Chain((7, 8, 9, 10)))),
            "left to right: 4 finished sums of 2 to 4 products",
        ),
        (Chain((0, Chain((1,)), Chain((2,)))), "left to right: 1 products one by one, 2 more, each rounded first"),
        (Chain((Fused((0, 1)), Fused((2, 3, 4)))), "left to right: 2 multi-term additions of up to 3"),
        (
            Chain((0, Chain((1,)), Chain((2,)), Fused((3, 4)), Fused((5,)), Chain((6, Chain((7, 8))))), "float16"),
            "left to right: 1 products one by one, 2 more, each rounded first, 2 multi-term additions of up to 2,"
            " 1 finished sums of 3 products",
        ),
    ],
)
def test_a_tree_is_said_by_what_enters_its_running_sum(tree, words):
    assert describe_order(TreeOrder(tree), tree, TERMS) == words


def test_large_numbers_in_a_tree_are_grouped():
    sums = [Chain((i, *range(2000 + 1000 * i, 3000 + 1000 * i))) for i in range(1500)]
    tree = Chain((*range(10**7, 10**7 + 1100), *(Chain((-i,)) for i in range(1200)), *sums))
    assert describe_order(TreeOrder(tree), tree, TERMS) == (
        "left to right: 1,100 products one by one, 1,200 more, each rounded first,"
        " 1,500 finished sums of 1,001 products"
    )
    fused = Chain(tuple(Fused((i, i + 1)) for i in range(1300)))
    assert describe_order(TreeOrder(fused), fused, TERMS) == "left to right: 1,300 multi-term additions of up to 2"


ORDINALS = "1st 2nd 3rd 4th 10th 11th 12th 13th 14th 20th 21st 22nd 23rd 24th 100th 101st 102nd 103rd"


@pytest.mark.parametrize("word", f"{ORDINALS} 111th 112th 113th 121st 1011th 1012th 1013th 1021st".split())
def test_ordinals_are_written_as_in_english(word):
    assert ordinal(int(word[:-2])) == word
