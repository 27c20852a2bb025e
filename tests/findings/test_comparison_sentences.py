"""The summary of a comparison, word for word, for sides written by hand."""

import math

import msgspec
import pytest

from hand_made import make_side
from samebits.findings import Evidence, ExactData, Failure, Replay
from samebits.findings.causes import CauseCode
from samebits.questions.comparison_sentences import summarize_comparison

RIGHT = ExactData(0, 2000, None, None, None, None)
OFF = ExactData(1500, 2000, "only in n = 1", [1, 0], 1.0, 2.0)
ORDERS = CauseCode.SUMMATION_ORDER
TRUE, OTHER_TRUE = make_side("a", "identical", 0.0, 0.0), make_side("b", "identical", 0.0, 0.0)
ROUNDED = make_side("c", "rounding", 0.256, 3.0, cause=ORDERS)
CANCELLED = make_side("d", "rounding", 0.5, 1000.0)
WRONG = make_side("w", "wrong", 9.0, exact_data=OFF)
FAR = make_side("f", "wrong", 9.0, where="only in c_out = 3")
BROKEN = make_side("x", "undecided", failure=Failure("crash", "its process was ended"))
WITHIN = "every output is within its error bound (the largest error is"
WRONG_SAYS = (
    "w computes another function: 1,500 of 2,000 outputs differ on integers that leave no room for rounding,"
    " only in n = 1."
)
FAR_SAYS = (
    "f computes another function: it is farther from the truth than even bfloat16 arithmetic could be,"
    " only in c_out = 3."
)
LOST = make_side("l", "downgrade", 9.0, says="rounds x to tf32 before it multiplies", replay=Replay(0.5, 4000))
BEYOND_SAYS = (
    "u is up to 12.3 times its error bound from the truth, everywhere. One recorded result does not show whether that"
    " is less precision or another function: run the engine itself (--on ENGINE), which is then tried on exact"
    " integers."
)
INTEGERS_SAYS = (
    "u is right on exact integers but up to 12.3 times its error bound from the truth, everywhere:"
    " it computes in less precision than declared, or by another algorithm."
)


def unclear(share=12.345, **more):
    return make_side("u", "undecided", share, where="everywhere", **more)


@pytest.mark.parametrize(
    ("verdict", "sides", "says"),
    [
        ("undecided", [], "No side returned a result: none was asked."),
        ("undecided", [BROKEN], "No side returned a result: its process was ended."),
        ("wrong", [TRUE, WRONG, ROUNDED], WRONG_SAYS),
        ("wrong", [WRONG, unclear(), LOST, FAR], f"{WRONG_SAYS} {FAR_SAYS}"),
        (
            "wrong",
            [make_side("w", "wrong", exact_data=OFF, failure=Failure("crash", "ended"))],
            WRONG_SAYS,
        ),
        ("wrong", [make_side("f", "wrong", 9.0, where="only in c_out = 3", exact_data=RIGHT)], FAR_SAYS),
        ("undecided", [TRUE, LOST, unclear()], BEYOND_SAYS),
        ("undecided", [unclear(exact_data=RIGHT)], INTEGERS_SAYS),
        (
            "undecided",
            [unclear(exact_data=RIGHT, evidence=[Evidence("structure", "x"), Evidence("setting", "TF32 is on")])],
            f"{INTEGERS_SAYS} TF32 is on.",
        ),
        (
            "undecided",
            [unclear(exact_data=OFF), make_side("v", "undecided", exact_data=OFF)],
            "u is up to 12 times its bound from the truth, everywhere; it also differs on exact integers, where a sum"
            " of products does not round."
            " v rounds even on exact integers: it does not add the products one by one.",
        ),
        (
            "downgrade",
            [TRUE, LOST],
            "l rounds x to tf32 before it multiplies; replaying that gives 2,000 of 4,000 of its bits.",
        ),
        (
            "downgrade",
            [make_side("l", "downgrade", 9.0), make_side("m", "downgrade", 9.0)],
            "l computes in less precision than declared. m computes in less precision than declared.",
        ),
        ("identical", [TRUE], "a is correctly rounded: the same bits as the truth."),
        ("identical", [TRUE, OTHER_TRUE], "a and b are correctly rounded: the same bits as the truth."),
        (
            "identical",
            [TRUE, BROKEN],
            "x returned no result. Of the others: a is correctly rounded: the same bits as the truth.",
        ),
        ("identical", [ROUNDED, ROUNDED], f"The same bits from every side; {WITHIN} 0.26 of it, 3 ulp)."),
        ("rounding", [ROUNDED], f"Nothing is wrong: {WITHIN} 0.26 of it, 3 ulp)."),
        ("rounding", [CANCELLED, ROUNDED], f"None is wrong: {WITHIN} 0.5 of it)."),
        ("rounding", [make_side("e", "rounding", 0.5, 999.0)], f"Nothing is wrong: {WITHIN} 0.5 of it, 999 ulp)."),
        (
            "rounding",
            [TRUE, ROUNDED, OTHER_TRUE],
            "They add the same products in different orders or with different roundings. None is wrong:"
            f" {WITHIN} 0.26 of it, 3 ulp). a and b are correctly rounded.",
        ),
        (
            "rounding",
            [make_side("e", "rounding", 0.1, 1.0, cause=CauseCode.WINOGRAD), ROUNDED],
            f"None is wrong: {WITHIN} 0.26 of it, 3 ulp).",
        ),
    ],
)
def test_a_comparison_is_summed_up(verdict, sides, says):
    assert summarize_comparison(verdict, sides) == says


@pytest.mark.parametrize("share", [None, math.nan])
def test_values_that_are_not_finite_are_no_matter_of_bounds(share):
    assert summarize_comparison("undecided", [unclear(share)]) == (
        "u and the truth are not finite in the same places: they differ everywhere."
    )


def test_a_finite_error_without_a_finite_bound_is_said_as_what_it_is():
    assert summarize_comparison("undecided", [unclear(math.inf)]) == (
        "u differs from the truth where no finite error bound exists, everywhere."
    )


def test_errors_that_are_not_known_count_as_none():
    sides = [make_side("e", "rounding", 0.0, None), make_side("g", "rounding")]
    assert summarize_comparison("rounding", sides) == f"None is wrong: {WITHIN} 0 of it, 0 ulp)."


def test_engines_are_called_by_their_short_names():
    side = msgspec.structs.replace(make_side("torch:threads=1", "identical", 0.0, 0.0), engine="torch:threads=1")
    assert summarize_comparison("identical", [side]) == "torch is correctly rounded: the same bits as the truth."


def test_two_replayed_orders_are_said_to_add_the_same_products():
    other = make_side("e", "rounding", 0.1, 1.0, cause=ORDERS)
    assert summarize_comparison("rounding", [ROUNDED, other]) == (
        "They add the same products in different orders or with different roundings. None is wrong:"
        f" {WITHIN} 0.26 of it, 3 ulp)."
    )


def test_three_names_are_joined_by_commas_and_and():
    sides = [make_side(name, "identical", 0.0, 0.0) for name in "abc"]
    assert summarize_comparison("identical", sides) == "a, b and c are correctly rounded: the same bits as the truth."


def test_one_replayed_order_does_not_speak_of_different_ones():
    assert summarize_comparison("rounding", [ROUNDED, BROKEN]) == (
        f"x returned no result. Of the others: Nothing is wrong: {WITHIN} 0.26 of it, 3 ulp)."
    )
