"""Masks and units: the widest pair that a runner absorbs and counts with, found on runners in plain NumPy."""

import numpy as np
import pytest

from numpy_runners import (
    FailingRunner,
    NanRunner,
    PlainRunner,
    keep_bits,
    round_to_bfloat16,
    to_float16,
    to_float64,
)
from samebits.engines.probes.mask_values import Scale, choose_scale, list_scales
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.numbers import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.problem import DTYPES

# 36 terms; 16 rows, so that one call asks all.
LAYER = "conv2d x=1x4x5x5 w=16x4x3x3"


def choose(runner, text=LAYER, **limits):
    return choose_scale(ProbeSession(runner, parse_problem_text(text), **limits))


def flush_float16(values):
    rounded = to_float16(values)
    return np.where(np.abs(rounded) < 2.0**-14, 0.0, rounded)


@pytest.mark.parametrize(
    "text",
    [
        LAYER,
        LAYER + " padding=1 bias",
        "conv2d.grad_input x=1x4x5x5 w=4x4x3x3 padding=1",
        "conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 padding=1 groups=2",
        "conv_transpose1d x=1x12x5 w=12x4x3 stride=1",
    ],
)
def test_float32_sums_of_float32_operands_are_asked_with_the_widest_masks(text):
    problem = parse_problem_text(text)
    assert choose(PlainRunner(), text) == Scale(2.0**100, 1.0, problem.reduction_length)


def test_operands_rounded_to_float16_leave_its_range_only():
    # 2^100 would be infinite; 2^15 is float16's largest power of two and 2^-24 its smallest number.
    assert choose(PlainRunner(reads={"all": to_float16})) == Scale(2.0**15, 2.0**-24, 36)


def test_operands_flushed_in_float16_leave_its_normal_numbers():
    assert choose(PlainRunner(reads={"all": flush_float16})) == Scale(2.0**15, 2.0**-14, 36)


@pytest.mark.parametrize(("bits", "capacity"), [(8, 2**8), (11, 2**9)])
def test_the_capacity_is_what_the_running_sum_counts_exactly(bits, capacity):
    # Of 2^n significant bits the first number that is lost is 2^n + 1; 512 terms end before 2^11.
    text = "conv1d x=1x512x1 w=4x512x1"
    assert choose(PlainRunner(accumulator=keep_bits(bits)), text) == Scale(2.0**100, 1.0, capacity)


def test_a_result_in_bfloat16_counts_as_far_as_bfloat16_does():
    text = "conv1d x=1x300x1 w=4x300x1 dtype=bfloat16"
    assert choose(PlainRunner(), text) == Scale(2.0**100, 1.0, 256)


def test_units_shrink_until_a_clip_lets_all_of_them_through():
    scale = choose(PlainRunner(), LAYER + " then=clip(0,6)")
    assert scale.mask == 2.0**100
    assert scale.capacity == 36
    # The largest power of two of which 36 stay below half the bound.
    assert scale.unit == 2.0**-4
    assert 36 * scale.unit <= 3 < 36 * 2 * scale.unit


def test_a_relu_changes_nothing():
    assert choose(PlainRunner(), LAYER + " then=relu") == Scale(2.0**100, 1.0, 36)


def test_sums_whose_masks_overflow_are_asked_with_smaller_ones():
    # Sums in float16: 2^100 is infinite.
    assert choose(PlainRunner(accumulator=to_float16)) == Scale(2.0**15, 2.0**-24, 36)


def test_a_runner_that_returns_nan_has_no_scale():
    assert choose(NanRunner()) is None


def test_a_result_too_coarse_to_count_four_has_no_scale():
    assert choose(PlainRunner(result=keep_bits(1))) is None


def test_where_no_output_has_a_term_there_is_no_scale_and_no_call():
    # One input between two outputs that read padding only.
    runner = PlainRunner()
    assert choose(runner, "conv1d x=1x1x1 w=4x1x1 padding=1 stride=2") is None
    assert runner.calls == 0


def test_few_rows_take_more_calls_and_find_the_same():
    runner = PlainRunner()
    assert choose(runner, "conv2d x=1x4x5x5 w=1x4x3x3") == Scale(2.0**100, 1.0, 36)
    # 1, 3, 7, 15, 31 and 35 units, the masks around units, a mask alone: eight rows, one to a call.
    assert runner.calls == 8


def test_failures_and_spent_budgets_come_through():
    with pytest.raises(EngineFailure):
        choose(FailingRunner())
    with pytest.raises(ProbeStopped):
        choose(PlainRunner(reads={"all": to_float16}), most_calls=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_and_units_are_powers_of_two_that_the_format_holds(dtype):
    for mask, unit in list_scales(dtype):
        for value in (mask, unit):
            assert np.frexp(value)[0] == 0.5
            assert float(np.array(value).astype(numpy_dtype(dtype))) == value
        assert mask > unit


def test_bfloat16_operands_keep_the_widest_masks():
    assert choose(PlainRunner(reads={"all": round_to_bfloat16})) == Scale(2.0**100, 1.0, 36)


def test_sums_kept_in_float64_are_absorbed_by_the_widest_masks_alone():
    assert choose(PlainRunner(accumulator=to_float64)) == Scale(2.0**100, 1.0, 36)
