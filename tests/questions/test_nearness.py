"""How near a prediction comes, and how much a fit would tell, computed by hand."""

import math

import numpy as np
import pytest

from hand_made import observe
from samebits.mechanisms.evidence.nearness import (
    count_telling_bits,
    is_as_close_as_a_plain_sum,
    measure_nearness,
    measure_nearness_of_truth,
    measure_telling_steps,
)
from samebits.problems import parse_problem_text
from samebits.sums.truth import compute_truth

ROW = "conv1d x=1x1x4 w=1x1x1 dtype=float32"
INF, NAN = math.inf, math.nan


def nearness(given, predicted, magnitudes=8.0):
    found = observe(ROW, 0.0, given, magnitudes=magnitudes)
    return measure_nearness(found, found.whole(), np.array([predicted], np.float64))


@pytest.mark.parametrize(
    ("given", "predicted", "magnitudes", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 8.0, 0.0),
        # Four eighths, none, none, none: a mean square of a sixteenth.
        ([5, 2, 3, 4], [1, 2, 3, 4], 8.0, 0.25),
        ([1, 2, 3, 4], [5, 2, 3, 4], 8.0, 0.25),
        # An output counts as one whole magnitude at most.
        ([1e9, 2, 3, 4], [1, 2, 3, 4], 8.0, 0.5),
        ([INF, 2, 3, 4], [1, 2, 3, 4], 8.0, 0.5),
        ([NAN, 2, 3, 4], [1, 2, 3, 4], 8.0, 0.5),
        ([1, 2, 3, 4], [NAN, 2, 3, INF], 8.0, math.sqrt(0.5)),
        ([INF, NAN, -INF, 4], [INF, NAN, -INF, 4], 8.0, 0.0),
        ([INF, 2, 3, 4], [-INF, 2, 3, 4], 8.0, 0.5),
        # Each in shares of its own magnitude: 1/2, 1/4, 0, 0.
        ([2, 3, 3, 4], [1, 2, 3, 4], [[[2, 4, 8, 8]]], math.sqrt(5 / 64)),
        # A magnitude of 0 counts as 1/256 of the usual, 3/4 here; infinite ones do not make the usual one.
        ([2.0**-10, 1, 1, 1], [0, 1, 1, 1], [[[0, 1, 1, 1]]], math.sqrt((2.0**-10 * 256 / 0.75) ** 2 / 4)),
        ([2.0**-10, 1, 1, 1], [0, 1, 1, 1], [[[0, 2, INF, NAN]]], 2.0**-10 * 256 / 2),
        ([1, 0, 0, 0], [0, 0, 0, 0], 0.0, 0.5),
        # Without any finite magnitude nothing is a share.
        ([1, 0, 0, 0], [0, 0, 0, 0], INF, 0.0),
    ],
)
def test_nearness_is_the_root_mean_square_in_shares_of_magnitudes(given, predicted, magnitudes, expected):
    assert nearness(given, predicted, magnitudes) == expected


def test_nearness_of_the_truth_is_that_of_the_declared_function():
    found = observe(ROW, [1, 2, 3, 4], [5, 2, 3, 4], magnitudes=8.0)
    assert measure_nearness_of_truth(found, found.whole()) == 0.25


def test_a_telling_step_is_one_addition_or_one_unit_of_the_result():
    # 2^-20 away: with magnitudes 4 a step is 2^-22, with magnitude 1 and truth 2 it is 2^-23.
    found = observe(ROW, [2, 2, 1, 7], [2 + 2.0**-20, 2 + 2.0**-20, 1, 8], magnitudes=[[[4, 1, 1, 1e30]]])
    steps = measure_telling_steps(found)
    assert sorted(steps.tolist()) == sorted([4.0, 8.0, 1 / (1e30 * 2.0**-24)])


def test_half_results_of_float32_sums_step_by_their_own_unit():
    half = ROW.replace("float32", "float16")
    assert measure_telling_steps(observe(half, [1, 2, 2, 2], [1 + 2.0**-9, 2, 2, 2], magnitudes=1.0)).tolist() == [4.0]


def test_outputs_that_are_alike_tell_once_and_equal_ones_nothing():
    assert len(measure_telling_steps(observe(ROW, 1.0, [1, 2, 2, 3]))) == 2
    assert len(measure_telling_steps(observe(ROW, 1.0, [1, 2, 2, 2], magnitudes=[[[1, 1, 1, 2]]]))) == 2
    assert len(measure_telling_steps(observe(ROW, [1, 1, 2, 3], [1, 4, 4, 4]))) == 3
    assert len(measure_telling_steps(observe(ROW, 1.0, 1.0))) == 0


def test_what_is_not_finite_is_one_step():
    assert sorted(measure_telling_steps(observe(ROW, [1, 1, INF, 1], [INF, NAN, 1, 1])).tolist()) == [1, 1, 1]


def test_bits_are_the_logarithms_of_one_more_than_the_steps():
    assert count_telling_bits(np.array([1.0, 3.0, 7.0])) == 1 + 2 + 3
    assert count_telling_bits(np.array([])) == 0.0


def test_a_half_sum_steps_by_float32_of_its_magnitudes():
    half = ROW.replace("float32", "float16")
    # 2^-9 away: a step of the result is 2^-23, of a sum of magnitude 4 in float32 2^-22, the larger one.
    found = observe(half, [2.0**-12, 1, 1, 1], [2.0**-12 + 2.0**-9, 1, 1, 1], magnitudes=4.0)
    assert measure_telling_steps(found).tolist() == [2.0**13]


def test_a_plain_sum_is_the_yardstick():
    """Random data, whose plain sum has some error: a result just as far is close, one much farther is not."""
    problem = parse_problem_text("conv1d x=1x64x6 w=8x64x1 dtype=float32")
    random = np.random.default_rng(0)
    operands = {n: random.standard_normal(s, np.float32) for n, s in problem.operand_shapes.items()}
    truth = compute_truth(problem, operands).values
    plain = np.zeros(problem.out_shape, np.float32)
    exact = np.zeros(problem.out_shape)
    for c in range(64):
        # Fused: each product enters the sum without being rounded first.
        exact = plain.astype(np.float64) + operands["w"][None, :, c].astype(np.float64) * operands["x"][:, c : c + 1]
        plain = exact.astype(np.float32)

    def is_close(times_off, times, left_out=None):
        result = (truth + (plain - truth) * np.float32(times_off)).astype(np.float32)
        found = observe(problem, truth, result, operands=operands)
        return is_as_close_as_a_plain_sum(found, found.whole(), left_out, times=times)

    assert is_close(1, 1.0)
    assert not is_close(1, 0.99)
    assert is_close(2, 2.1)
    assert not is_close(2, 1.5)
    far = truth.copy()
    far[0, 3] = 100
    found = observe(problem, truth, far, operands=operands)
    marked = np.zeros(problem.out_shape, bool)
    assert not is_as_close_as_a_plain_sum(found, found.whole(), marked, times=1.0)
    marked[0, 3] = True
    assert is_as_close_as_a_plain_sum(found, found.whole(), marked, times=1.0)
    assert not is_as_close_as_a_plain_sum(found, found.whole(), ~marked, times=1.0)


def test_outputs_of_infinite_magnitude_or_with_plain_sums_that_are_no_numbers_do_not_count():
    found = observe(ROW, 1.0, [9, 1, 1, 1], magnitudes=[[[INF, 1, 1, 1]]])
    assert is_as_close_as_a_plain_sum(found, found.whole(), times=1.0)
    weighed = observe(ROW, 1.0, [9, 1, 1, 1], magnitudes=1.0)
    assert not is_as_close_as_a_plain_sum(weighed, weighed.whole(), times=1.0)
    operands = {"x": np.array([[[INF, 1, 1, 1]]], np.float32), "w": np.ones((1, 1, 1), np.float32)}
    infinite = observe(ROW, 1.0, [9, 1, 1, 1], magnitudes=1.0, operands=operands)
    assert is_as_close_as_a_plain_sum(infinite, infinite.whole(), times=1.0)
    unknown = observe(ROW, [NAN, 1, 1, 1], [9, 1, 1, 1], magnitudes=1.0)
    assert is_as_close_as_a_plain_sum(unknown, unknown.whole(), times=1.0)
    assert not is_as_close_as_a_plain_sum(found, found.whole(), np.ones((1, 1, 4), bool), times=1.0)
    left_out = np.array([[[False, True, True, True]]])
    assert not is_as_close_as_a_plain_sum(found, found.whole(), left_out, times=1.0)
    single = observe(ROW, 1.0, [1, 9, 9, 9], magnitudes=1.0)
    assert is_as_close_as_a_plain_sum(single, single.whole(), left_out, times=1.0)
