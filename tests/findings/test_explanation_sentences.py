"""The sentences of an explanation, word for word: what is proved, what is inferred."""

from collections import Counter

import pytest

from hand_made import make_side
from samebits.findings.causes import CauseCode
from samebits.mechanisms.evidence import explanation_sentences as say
from samebits.sums.recipes import parse_recipe

TRUE, OTHER_TRUE = make_side("a", "identical", 0.0), make_side("b", "identical", 0.0)
ROUNDED = make_side("c", "rounding", 0.256)
REPLAYED = make_side("d", "rounding", 0.5, cause=CauseCode.SUMMATION_ORDER, cause_certainty="bits")
CANCELLED = make_side("e", "rounding", 0.5, cause=CauseCode.ILL_CONDITIONED, cause_certainty="bits")
GUESSED = make_side("g", "rounding", 0.5, cause=CauseCode.SUMMATION_ORDER, cause_certainty="statistics")
OVERFLOWED = make_side("o", "rounding", 0.5, cause=CauseCode.OVERFLOW, cause_certainty="bits")
UNKNOWN = make_side("u", "undecided", 9.0, where="everywhere")
FAULTY = make_side("w", "wrong", 9.0, where="only in n = 1", certainty="bounds")
LOSES = "the declared function in less precision or range"


def within(share):
    return f"every output is within its error bound (the largest error is {share} of it)"


@pytest.mark.parametrize(
    ("verdict", "sides", "says"),
    [
        ("identical", [TRUE], "a is right: the correctly rounded result."),
        ("identical", [TRUE, OTHER_TRUE], "The same bits on every side: the correctly rounded result."),
        ("identical", [ROUNDED, ROUNDED], f"The same bits on every side: {within(0.26)}."),
        ("rounding", [ROUNDED], f"c is right: {within(0.26)}."),
        ("rounding", [ROUNDED, TRUE], f"None is wrong: {within(0.26)}; a is correctly rounded."),
        ("rounding", [TRUE, OTHER_TRUE, REPLAYED],
         f"They add the same products in different orders: {within(0.5)}; a and b are correctly rounded."),
        ("rounding", [REPLAYED, CANCELLED], f"They add the same products in different orders: {within(0.5)}."),
        ("rounding", [REPLAYED, GUESSED], f"None is wrong: {within(0.5)}."),
        ("rounding", [REPLAYED, OVERFLOWED], f"None is wrong: {within(0.5)}."),
        ("undecided", [UNKNOWN], "u is beyond its error bound, everywhere, and no hypothesis explains it."),
        ("undecided", [UNKNOWN, TRUE, ROUNDED],
         "u is beyond its error bound, everywhere, and no hypothesis explains it. a and c are right."),
        ("wrong", [FAULTY, ROUNDED],
         "w computes another function, only in n = 1; which fault does that is open. c is right."),
        ("wrong", [make_side("w", "wrong", says="pads elsewhere", cause_certainty="bits", certainty="bits"), UNKNOWN],
         "w pads elsewhere: another function, proved by replay."
         " u is beyond its error bound, everywhere, and no hypothesis explains it."),
        ("downgrade", [make_side("w", "downgrade", says="rounds x", cause_certainty="bits", certainty="bits")],
         f"w rounds x: {LOSES}, proved by replay."),
        ("wrong", [make_side("w", "wrong", says="pads elsewhere", cause_certainty="statistics", certainty="bounds",
                             where="only in n = 1")],
         "w computes another function, proved by bounds, only in n = 1; inferred: it pads elsewhere."),
        ("downgrade", [make_side("w", "downgrade", says="rounds x", cause_certainty="statistics",
                                 certainty="statistics", where="everywhere")],
         f"w rounds x: {LOSES}, inferred; outputs beyond their bound: everywhere."),
        ("downgrade", [make_side("w", "downgrade", 288.4, says="rounds x", cause_certainty="statistics",
                                 certainty="statistics", where="everywhere")],
         f"w is up to 288 times its error bound from the truth, everywhere; inferred: it rounds x, {LOSES}."),
        ("wrong", [make_side("w", "wrong", says="pads elsewhere", certainty="statistics", cause_certainty="statistics",
                             where=None)],
         "w pads elsewhere: another function, inferred."),
    ],
)  # fmt: skip
def test_an_explanation_is_summed_up(verdict, sides, says):
    assert say.summarize_explained(verdict, sides) == says


def test_shares_that_are_not_known_count_as_none():
    assert say.summarize_explained("rounding", [make_side("r", "rounding", 0.0), make_side("s", "rounding")]) == (
        f"None is wrong: {within(0)}."
    )


@pytest.mark.parametrize(
    ("compared", "total", "beyond", "says"),
    [
        (2000, 2000, 0, "all 2,000 outputs are within the rounding bound of this hypothesis and, taken together,"
         " much closer to it than to what was declared"),
        (2000, 2000, 1000, "all 2,000 outputs are within the rounding bound of this hypothesis;"
         " 1,000 are beyond the bound of what was declared"),
        (2000, 9000, 1, "all 2,000 sampled of 9,000 outputs are within the rounding bound of this hypothesis;"
         " 1 are beyond the bound of what was declared"),
    ],
)  # fmt: skip
def test_what_fits_a_hypothesis_is_counted(compared, total, beyond, says):
    assert say.say_consistent(compared, total, beyond) == says


def test_a_replay_says_the_recipe_and_whether_it_was_a_sample():
    recipe, text = parse_recipe("direct order=c"), "direct product=fused acc=float32 order=c"
    assert say.say_replayed(recipe, 1200, 1200) == f"replaying {text} gives 1,200 of 1,200 outputs bit for bit"
    assert say.say_replayed(recipe, 1200, 4000) == (
        f"replaying {text} gives 1,200 of 1,200 sampled outputs (of 4,000) bit for bit"
    )


@pytest.mark.parametrize(
    ("level", "tried", "alternatives", "says"),
    [
        ("bits", 1, (), ""),
        (None, 0, (), ""),
        ("bits", 1, ("x",), ""),
        ("bits", 5, ("x",), "3 other hypotheses do not fit"),
        ("bits", 2, (), "1 other hypotheses do not fit"),
        ("statistics", 2, ("x",), "recording the arrays of a smaller case may let bits prove it"),
        (
            "statistics", 3, ("x",),
            "1 other hypotheses do not fit; recording the arrays of a smaller case may let bits prove it",
        ),
    ],
)  # fmt: skip
def test_what_was_excluded_is_counted_and_what_might_prove_it_is_said(level, tried, alternatives, says):
    assert say.say_others(level, tried, alternatives) == says


def test_at_most_three_alternatives_are_said():
    assert say.say_alternatives(("a", "b")) == "these data do not distinguish it from: a; b"
    assert say.say_alternatives(("a", "b", "c", "d")) == "these data do not distinguish it from: a; b; c"


def test_what_was_tried_is_counted_by_kind():
    tried = Counter({"order of addition": 3, "layout": 0, "epilogue": 2, "index relation": 1, "something else": 4})
    assert say.say_excluded(tried) == (
        "excluded: 3 orders of addition, 2 epilogues, 1 paddings and other index relations, 4 something else"
    )
    more = Counter({"operand rounding": 1, "layout": 2, "recipe": 3, "scale and shift": 4})
    assert say.say_excluded(more) == (
        "excluded: 1 operand roundings, 2 layouts, 3 narrow sums, transforms and flushes,"
        " 4 limits, scale and shift per channel"
    )
    assert say.say_excluded(Counter()) == "nothing could be tried"


def test_what_to_do_where_nothing_fits():
    assert say.say_what_to_do() == (
        "cannot tell; to find out, run the engine itself, which is then tried on exact integers and probed"
    )
