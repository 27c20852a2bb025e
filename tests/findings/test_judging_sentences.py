"""What is said of measurements, word for word."""

import numpy as np

from samebits.findings import ExactData
from samebits.judging import judging_sentences as say
from samebits.problems import parse_problem_text

LONG = parse_problem_text("conv1d x=1x1200x4 w=2x1200x1 dtype=float16")
DOUBLE = parse_problem_text("conv1d x=1x3x1500 w=2x3x1 dtype=float64")


def test_right_integers_are_counted():
    assert say.say_right_on_integers(ExactData(0, 1234, None, None, None, None)) == (
        "all 1,234 outputs are right on exact integers"
    )


def test_wrong_integers_are_counted_and_located_and_the_first_is_shown():
    exact = ExactData(1000, 2000, "only in c_out = 1", [0, 1, 3], 18.0, -63.5)
    assert say.say_wrong_on_integers(exact) == (
        "1,000 of 2,000 outputs differ on exact integers, only in c_out = 1;"
        " the first at [0, 1, 3]: 18 instead of -63.5"
    )


def test_inexact_integers_suggest_a_transform():
    assert say.say_inexact(ExactData(1000, 2000, "everywhere", [0], 1.0, 2.0)) == (
        "1,000 of 2,000 outputs differ on exact integers, where a sum of products does not round,"
        " by so little that a transform (Winograd, FFT) could"
    )


def test_within_says_the_largest_share_and_where_it_is_summed():
    assert say.say_within(LONG, np.array([0.1, 0.256])) == (
        "every output is within its bound for 1,200 products added in float32 in any order;"
        " the largest error is 0.26 of its bound"
    )
    assert "3 products added in float64 in any order" in say.say_within(DOUBLE, np.array([0.1]))


def test_another_function_counts_what_no_rounding_explains():
    beyond = np.zeros(DOUBLE.out_shape, bool)
    beyond[0, 1] = True
    assert say.say_another_function(DOUBLE, beyond) == (
        "bounds prove that no sum of these products gives this, not even in bfloat16: 1,500 of 3,000 outputs are"
        " farther from the truth than rounding everything to bfloat16 could take them, only in c_out = 1"
    )


def test_beyond_counts_only_what_is_above_its_bound():
    shares = np.ones(DOUBLE.out_shape)
    shares[0, 0] = 1234.5
    assert say.say_beyond(DOUBLE, shares) == (
        "bounds prove that this is not the declared sum in the declared formats: 1,500 of 3,000 outputs are beyond the"
        " bound for 3"
        " products added in float64 in any order, by up to 1.23e+03 times, only in c_out = 0"
    )
    assert "for 1,200 products added in float32" in say.say_beyond(LONG, np.full(LONG.out_shape, 2.0))
