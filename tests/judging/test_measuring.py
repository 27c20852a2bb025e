"""Distances of results written by hand: how far, how many representable numbers, which share of the bound."""

import math

import ml_dtypes
import numpy as np
import pytest

from samebits.findings import Difference, Error, WorstElement
from samebits.judging.measuring import (
    Distances,
    compare_results,
    estimate_transform_noise,
    find_worst,
    measure_absolute,
    measure_distances,
    summarize_error,
)
from samebits.problems import parse_problem_text

INF, NAN = math.inf, math.nan
LINE = parse_problem_text("conv1d x=1x1x4 w=1x1x1 dtype=float32")
# One step of float32 above 2.
STEP = 2.0**-22


def line(*values, dtype=np.float32):
    return np.array(values, dtype).reshape(1, 1, -1)


def measure(given, true, bound, dtype="float32", magnitudes=None, then=""):
    """Distances of results of one channel, in a format; sums of magnitudes are small unless given."""
    problem = parse_problem_text(f"conv1d x=1x1x{len(given)} w=1x1x1 dtype={dtype} {then}")
    reached = line(*(magnitudes or [1] * len(given)), dtype=np.float64)
    kind = getattr(ml_dtypes, dtype) if dtype.startswith("float8") else np.dtype(dtype)
    found = measure_distances(
        problem, line(*given, dtype=kind), line(*true, dtype=kind), line(*bound, dtype=np.float64), reached
    )
    return [a.ravel().tolist() for a in (found.absolute, found.ulp, found.over_bound)]


def test_a_distance_is_said_in_three_ways():
    absolute, ulp, over = measure([1, 2 + STEP, 2, -3], [1, 2, 2 + STEP, 3], [1, 2 * STEP, STEP / 2, 4])
    assert absolute == [0, STEP, STEP, 6]
    assert over == [0, 0.5, 2, 1.5]
    # From -3 to 3: twice the codes below 3 = 1.5 * 2^1, that is (128 * 2^23 + 2^22) each.
    assert ulp == [0, 1, 1, 2 * (128 * 2**23 + 2**22)]


def test_equal_infinities_and_two_nan_are_0_apart():
    assert measure([INF, -INF, NAN], [INF, -INF, NAN], [1, 1, 1]) == [[0, 0, 0]] * 3


def test_other_values_that_are_not_finite_are_infinitely_far():
    absolute, _, over = measure([INF, NAN, 1, 1, INF], [-INF, 1, NAN, INF, 1], [1, 1, 1, 1, 1])
    assert absolute == over == [INF] * 5


@pytest.mark.parametrize("bound", [INF, NAN])
def test_without_a_finite_bound_only_the_truth_is_within(bound):
    assert measure([1, 2, NAN], [1, 1, NAN], [bound] * 3)[2] == [0, INF, 0]


def test_of_a_bound_of_zero_only_the_truth_is_within():
    assert measure([1, 2], [1, 1], [0, 0])[2] == [0, INF]


@pytest.mark.parametrize(
    ("given", "true", "bound", "share"),
    [
        (INF, 65504, 1, 1),
        (65504, INF, 1, 1),
        (-INF, -65504, 1, 1),
        (-65504, -INF, 1, 1),
        (-INF, 65504, 1, INF),
        (INF, -65504, 1, INF),
        (INF, 65472, 32, 1),
        (INF, 65472, 31, INF),
        (INF, 65472, INF, INF),
        (INF, 65472, NAN, INF),
        (INF, 65504, INF, 1),
        (NAN, 65504, 1, INF),
        (65504, NAN, 1, INF),
        (INF, -INF, 1e6, INF),
        (65504, 65472, 16, 2),
    ],
)
def test_overflow_that_the_bound_reaches_is_just_within_it(given, true, bound, share):
    assert measure([given], [true], [bound], "float16")[2] == [share]


@pytest.mark.parametrize(
    ("given", "true", "bound", "share"),
    [(NAN, 448, 1, 1), (448, NAN, 1, 1), (NAN, 416, 32, 1), (NAN, 416, 31, INF), (-416, NAN, 32, 1)],
)
def test_where_a_format_has_no_infinity_nan_is_overflow(given, true, bound, share):
    assert measure([given], [true], [bound], "float8_e4m3fn")[2] == [share]


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("given", "true", "magnitudes", "share"),
    [
        # Partial sums may overflow: what is left is infinite or NaN, never another number.
        (INF, 1, 2 * LARGEST, 1),
        (-INF, 1, 2 * LARGEST, 1),
        (NAN, 1, 2 * LARGEST, 1),
        (NAN, INF, 3 * LARGEST, 1),
        (-INF, INF, 3 * LARGEST, 1),
        (2, 1, 2 * LARGEST, 2),
        (0, 1, 2 * LARGEST, 2),
        (1, 1, 2 * LARGEST, 0),
        (INF, 1, INF, 1),
        # Only terms of one sign reach so far: 1.25 of the largest number up, 0.75 down.
        (INF, LARGEST / 2, 2 * LARGEST, 1),
        (-INF, LARGEST / 2, 2 * LARGEST, INF),
        (NAN, LARGEST / 2, 2 * LARGEST, INF),
        (-INF, -LARGEST / 2, 2 * LARGEST, 1),
        (INF, -LARGEST / 2, 2 * LARGEST, INF),
        # No term, or less than what is beyond the largest number twice, has the other sign.
        (-INF, INF, LARGEST, INF),
        (NAN, INF, LARGEST, INF),
        (NAN, INF, 2.9 * LARGEST, INF),
        (INF, -INF, 2.9 * LARGEST, INF),
        # Terms of both signs reach half of the sum of magnitudes.
        (INF, 1, 1.9 * LARGEST, INF),
        # They cannot: three roundings lift nothing below half of the largest number over it.
        (INF, 1, LARGEST / 2, INF),
        (NAN, 1, LARGEST / 2, INF),
        (NAN, INF, LARGEST / 2, INF),
    ],
)
def test_what_is_left_of_partial_sums_that_overflow_is_just_within_the_bound(given, true, magnitudes, share):
    assert measure([given], [true], [0.5], magnitudes=[magnitudes])[2] == [share]


@pytest.mark.parametrize(("given", "share"), [(0, 1), (6, 1), (5, 8), (7, 12), (NAN, 1)])
def test_an_epilogue_makes_its_bounds_of_infinities(given, share):
    assert measure([given], [1], [0.5], magnitudes=[LARGEST], then="then=clip(0,6)")[2] == [share]
    expected = abs(given - 1) / 0.5 if given == given else INF
    assert measure([given], [1], [0.5], then="then=clip(0,6)")[2] == [expected]


def test_a_narrower_result_may_overflow_before_its_bias_is_added():
    bare = parse_problem_text("conv1d x=1x1x1 w=1x1x1 dtype=float16")
    biased = parse_problem_text("conv1d x=1x1x1 w=1x1x1 bias dtype=float16")
    given, true = line(INF, dtype=np.float16), line(60000, dtype=np.float16)
    magnitudes, bound = line(80000, dtype=np.float64), line(64, dtype=np.float64)
    assert measure_distances(biased, given, true, bound, magnitudes).over_bound.tolist() == [[[1.0]]]
    assert measure_distances(bare, given, true, bound, magnitudes).over_bound.tolist() == [[[INF]]]


def test_within_the_bound_means_every_output_and_includes_the_bound_itself():
    zeros = np.zeros(2)
    assert Distances(zeros, zeros, np.array([0.5, 1.0])).within_bound
    assert not Distances(zeros, zeros, np.array([0.5, np.nextafter(1, 2)])).within_bound


def test_beyond_another_bound_only_finite_errors_are_marked():
    found = Distances(np.array([1.0, 2.0, 3.0, INF]), np.zeros(4), np.zeros(4)).mark_beyond(np.full(4, 2.0))
    assert found.tolist() == [False, False, True, False]


def distances(absolute, ulp, over):
    return Distances(*(line(*values, dtype=np.float64) for values in (absolute, ulp, over)))


def test_an_error_is_summed_up_by_its_maxima_and_its_norm():
    found = summarize_error(distances([3, 4, 0], [7, 5, 0], [0.25, 0.5, 0]), line(6, 0, 8))
    assert found == Error(max_abs=4, max_ulp=7, rel_l2=0.5, max_over_bound=0.5)


@pytest.mark.parametrize(
    ("absolute", "true", "expected"),
    [
        ([0, 0], [0, 0], 0.0),
        ([1, 0], [0, 0], INF),
        ([0, 5], [NAN, 5], INF),
        ([INF, 0], [1, 1], INF),
        ([0, 0], [INF, 1], INF),
        ([0, 0], [1, 1], 0.0),
    ],
)
def test_the_relative_norm_needs_finite_values_and_a_truth_that_is_not_zero(absolute, true, expected):
    assert summarize_error(distances(absolute, [0, 0], [0, 0]), line(*true)).rel_l2 == expected


def test_the_worst_output_has_the_largest_share_and_of_equal_shares_the_most_ulps():
    problem = parse_problem_text("conv1d x=1x2x6 w=1x2x3 dtype=float32")
    given, true = line(1, 2, 3, 4), line(10, 20, 30, 40)
    found = find_worst(problem, given, true, distances([9, 9, 9, 9], [5, 1, 2, 9], [0.5, 3, 3, 1]))
    assert found == WorstElement([0, 0, 2], 3.0, 30.0, 2.0, 3.0, {"x": [[0, 1], [0, 2], [2, 5]]})


def test_there_is_no_worst_output_where_all_are_true():
    assert find_worst(LINE, line(1), line(1), distances([0], [0], [0])) is None


def test_two_results_differ_in_bits_in_value_and_in_ulps():
    one, two = line(0, NAN, 2, 5), line(-0.0, NAN, 2 + STEP, 4)
    # Between 4 and 5 lie a quarter of 2^23 steps.
    assert compare_results(LINE, ("one", one), ("two", two)) == Difference("one", "two", 3, 1.0, 2.0**21)


def test_zeros_of_both_signs_differ_in_bits_only():
    found = compare_results(LINE, ("a", line(0, 1, 1, 1)), ("b", line(-0.0, 1, 1, 1)))
    assert found == Difference("a", "b", 1, 0.0, 0.0)


def test_the_absolute_distance_of_what_is_no_number_is_zero_or_infinite():
    first, second = np.array([INF, INF, NAN, NAN, 3, -1]), np.array([INF, -INF, NAN, 1, INF, 1])
    assert measure_absolute(first, second).tolist() == [0, INF, 0, INF, INF, 2]


def test_the_distance_of_half_numbers_is_taken_in_float64():
    assert measure_absolute(np.float16([65504]), np.float16([-65504])).tolist() == [131008.0]


@pytest.mark.parametrize(("text", "axis"), [("conv1d x=2x1x2 w=3x1x1", 1), ("conv1d.grad_weight x=1x2x3 w=2x2x2", 0)])
def test_noise_of_a_transform_follows_the_largest_magnitude_of_its_row(text, axis):
    problem = parse_problem_text(f"{text} dtype=float32")
    magnitudes = np.ones(problem.out_shape)
    magnitudes[1, 0, 1] = 8.0
    magnitudes[0, 1, 0] = INF
    found = estimate_transform_noise(problem, magnitudes)
    # 2^8 unit roundoffs of 2^-24 each.
    expected = np.full(problem.out_shape, 2.0**-16)
    expected[(slice(None), 0) if axis == 1 else 1] = 2.0**-13
    assert found.tolist() == expected.tolist()


def test_noise_of_a_transform_in_float64_is_as_much_smaller_as_its_unit():
    problem = parse_problem_text("conv1d x=1x1x2 w=1x1x1 dtype=float64")
    assert estimate_transform_noise(problem, np.ones((1, 1, 2))).tolist() == [[[2.0**-45, 2.0**-45]]]
