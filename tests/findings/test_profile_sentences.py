"""The sentences of a profile and of a recipe, word for word."""

import pytest

from samebits.findings import Replay
from samebits.findings.causes import CauseCode
from samebits.findings.words.order_words import say_operands, say_what_it_does
from samebits.questions.profile import profile_sentences as say
from samebits.sums.recipes import parse_recipe

ALL, HALF = Replay(1.0, 4000), Replay(0.5, 4000)
DIRECT = parse_recipe("direct")
ROUNDED = parse_recipe("direct product=rounded")
UNIT = parse_recipe("direct fused=25 acc=float32/toward_zero order=k/8|fused:k")
WINOGRAD = parse_recipe("winograd(4)")


@pytest.mark.parametrize(
    ("recipe", "replay", "family", "orders", "failure", "says"),
    [
        (None, None, None, 0, None, "No recipe: none that was tried reproduces any output."),
        (None, ALL, None, 0, "it crashed", "No recipe: it crashed."),
        (DIRECT, None, "direct", 1, None, "No recipe: none that was tried reproduces any output."),
        (WINOGRAD, HALF, "winograd", 1, None,
         "It multiplies transforms of tiles, as Winograd's algorithm does (single products come out changed), in a way"
         " that no known recipe reproduces."),
        (DIRECT, HALF, "direct", 1, None,
         "The recipe reproduces 2,000 of 4,000 outputs only: part of the arithmetic is undetermined."),
        (parse_recipe("direct x=bfloat16 w=float16"), ALL, "direct", 1, None,
         "x is rounded to bfloat16 and w is rounded to float16. Sums in float32, fused multiply-adds,"
         " one order for all outputs; replayed 4,000 of 4,000 outputs."),
        (WINOGRAD, ALL, "winograd", 1, None, "Computed by winograd(4); replayed 4,000 of 4,000 outputs."),
        (DIRECT, ALL, "direct", 1, None,
         "Sums in float32, fused multiply-adds, one order for all outputs; replayed 4,000 of 4,000 outputs."),
        (DIRECT, ALL, None, 1, None,
         "Sums in float32, fused multiply-adds, one order for all outputs; replayed 4,000 of 4,000 outputs."),
        (ROUNDED, ALL, "unknown", 3, None,
         "Sums in float32, products rounded before they are added, 3 orders for all outputs;"
         " replayed 4,000 of 4,000 outputs."),
        (UNIT, ALL, "direct", 2, None,
         "Sums in float32, multi-term additions that keep 25 bits, 2 orders for all outputs;"
         " replayed 4,000 of 4,000 outputs."),
    ],
)  # fmt: skip
def test_a_profile_is_summed_up(recipe, replay, family, orders, failure, says):
    assert say.summarize_profile(recipe, replay, family, "float32", orders, failure) == says


def test_an_impulse_is_said_in_percent():
    assert say.say_impulse(0.25, 0.012345) == (
        "one source value of 1: 25 % of the outputs it reaches differ from their weight,"
        " 1.23 % of the others are not zero"
    )


@pytest.mark.parametrize(
    ("mode", "all_survive", "end"),
    [
        (None, False, ", less does not"),
        (None, True, ", nothing smaller was asked"),
        ("toward_zero", False, ", less does not; rounding toward_zero"),
    ],
)
def test_the_smallest_survivor_tells_the_accumulator(mode, all_survive, end):
    said = say.say_accumulator((0, 5, 8), 23, mode, all_survive=all_survive)
    assert said == f"terms 0, 5, 8 as 1 + 2^-k - 1: 2^-23 survives{end}"


def test_other_answers_of_probes():
    assert say.say_product(12, ["fused"]) == "two products, 12 outputs: fused"
    assert say.say_product(12, ["fused", "rounded"]) == "two products, 12 outputs: fused or rounded"
    assert say.say_product(12, []) == "two products, 12 outputs: no known way"
    assert say.say_bias(3.5, 8) == "bias against the first term: 3.5 of 8 units survive"


def test_a_proof_counts_recipes_in_english():
    start = "2,000 of 4,000 outputs on random data, bit for bit;"
    assert say.say_proof(HALF, 1) == f"{start} 1 recipe tried"
    assert say.say_proof(HALF, 0) == f"{start} 0 recipes tried"
    assert say.say_proof(HALF, 2) == f"{start} 2 recipes tried"


@pytest.mark.parametrize(
    ("text", "cause", "does"),
    [
        ("direct x=tf32 w=tf32", "reduced-precision-operands", "rounds x and w to tf32 before it multiplies"),
        (
            "direct x=bfloat16 w=bfloat16 b=bfloat16 via=bfloat16",
            "reduced-precision-operands",
            "rounds x, w and the bias to bfloat16 before it multiplies, and stores its sums in bfloat16",
        ),
        (
            "direct x=tf32 b=float16",
            "reduced-precision-operands",
            "rounds x to tf32 and the bias to float16 before it multiplies",
        ),
        ("direct w=bfloat16", "reduced-precision-operands", "rounds w to bfloat16 before it multiplies"),
        ("direct x=float16", "reduced-precision-operands", "rounds x to float16 before it multiplies"),
        ("direct acc=float16", "low-precision-accumulator", "keeps its sums in float16"),
        ("direct order=chain@float16:c|kh,kw", "low-precision-accumulator", "stores partial sums in float16"),
        (
            "direct order=chain@tf32:c|chain@bfloat16:kh|kw",
            "low-precision-accumulator",
            "stores partial sums in bfloat16 and tf32",
        ),
        ("winograd(2)", "winograd", "transforms its operands (winograd)"),
        ("fft", "fft", "transforms its operands (fft)"),
        ("direct order=c", "summation-order", "adds the declared products in an order of its own"),
    ],
)
def test_what_a_recipe_does_is_said_as_its_cause_names_it(text, cause, does):
    assert say_what_it_does(parse_recipe(text), CauseCode(cause)) == does


def test_what_a_recipe_multiplies():
    assert say_operands(DIRECT) == "operands as they are"
    assert say_operands(parse_recipe("direct x=tf32")) == "x rounded to tf32"
    assert say_operands(parse_recipe("direct x=tf32 w=tf32 b=tf32")) == "x and w rounded to tf32"
    assert say_operands(parse_recipe("direct w=tf32")) == "w rounded to tf32"
    assert say_operands(parse_recipe("direct x=float16 w=tf32")) == "x rounded to float16 and w rounded to tf32"
