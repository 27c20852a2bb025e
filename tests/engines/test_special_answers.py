"""Padding, NaN, signs of zeros and overflow, asked of runners in plain NumPy that treat them in known ways."""

import numpy as np
import pytest

from numpy_runners import (
    FailingRunner,
    PlainRunner,
    clip_losing_nan,
    keep_bits,
    to_float16,
    to_float32,
    to_float64,
)
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.special_values import find_nan_reach, find_overflow, find_padding_rule, find_zero_sign
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text

LAYER = "conv2d x=2x2x5x5 w=4x2x3x3"
PADDED = LAYER + " padding=1"
GRADIENTS = [
    "conv2d.grad_input x=1x4x5x5 w=4x4x3x3 padding=1",
    "conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 groups=2 padding=1",
    "conv_transpose1d x=1x4x5 w=4x8x3",
    "conv_transpose1d.grad_weight x=1x4x5 w=4x8x3 padding=1",
]


def session_of(runner, text, **limits):
    return ProbeSession(runner, parse_problem_text(text), **limits)


@pytest.mark.parametrize("text", [PADDED, PADDED + " bias", PADDED + " then=relu", *GRADIENTS[:3]])
def test_padding_that_is_left_out_meets_no_infinite_weight(text):
    assert find_padding_rule(session_of(PlainRunner(), text)) == "left out"


@pytest.mark.parametrize("text", [PADDED, PADDED + " bias", *GRADIENTS[:3]])
def test_padding_multiplied_as_zeros_turns_an_infinite_weight_into_nan(text):
    assert find_padding_rule(session_of(PlainRunner(padding="multiplied"), text)) == "multiplied as zeros"


def test_without_padding_there_is_no_rule_and_no_call():
    runner = PlainRunner(padding="multiplied")
    assert find_padding_rule(session_of(runner, LAYER)) is None
    assert runner.calls == 0


def test_places_that_a_stride_leaves_out_are_no_padding():
    # Two taps at stride 2: every output has one of them, and none lies beyond the input.
    assert find_padding_rule(session_of(PlainRunner(), "conv_transpose1d x=1x4x5 w=4x8x2 stride=2")) is None


@pytest.mark.parametrize("text", [LAYER, PADDED, PADDED + " then=relu", PADDED + " then=clip(0,6)", *GRADIENTS])
def test_nan_stays_in_just_the_outputs_that_read_it(text):
    assert find_nan_reach(session_of(PlainRunner(), text)) == "kept, in just the outputs that read it"


@pytest.mark.parametrize("then", ["then=relu", "then=clip(0,6)"])
def test_a_clip_that_returns_a_bound_turns_nan_into_a_number(then):
    runner = PlainRunner(clip=clip_losing_nan)
    assert find_nan_reach(session_of(runner, f"{PADDED} {then}")) == "becomes a number"


def test_a_clip_that_loses_nan_in_a_part_of_the_result_is_told_so():
    class Vectorised(PlainRunner):
        """Its vector code keeps NaN; the last output channel runs in scalar code that does not."""

        def run(self, problem, operands):
            result = super().run(problem, operands)
            result[:, -1] = np.nan_to_num(result[:, -1], nan=0.0)
            return result

    assert find_nan_reach(session_of(Vectorised(), PADDED + " then=relu")) == "kept in some outputs that read it"


def test_a_transform_spreads_nan():
    def fourier(problem, operands):
        x = np.pad(operands["x"], [(0, 0), (0, 0), (1, 1), (1, 1)])
        size = x.shape[2:]
        spectrum = np.einsum("ncij,ocij->noij", np.fft.rfft2(x), np.conj(np.fft.rfft2(operands["w"], size)))
        return np.fft.irfft2(spectrum, size).astype(np.float32)[:, :, : size[0] - 2, : size[1] - 2]

    class Fourier(PlainRunner):
        def run(self, problem, operands):
            return fourier(problem, operands)

    assert find_nan_reach(session_of(Fourier(), PADDED)) == "spreads beyond the outputs that read it"


def test_nan_that_reaches_another_batch_item_has_spread():
    class Mixing(PlainRunner):
        """Multiplies the other items' values by zero where it should leave them out."""

        def run(self, problem, operands):
            result = super().run(problem, operands)
            return result + 0 * result[::-1]

    assert find_nan_reach(session_of(Mixing(), PADDED)) == "spreads beyond the outputs that read it"


def test_where_nothing_is_read_nan_has_no_reach():
    runner = PlainRunner()
    assert find_nan_reach(session_of(runner, "conv1d x=1x1x1 w=4x1x1 padding=1 stride=2")) is None
    assert runner.calls == 0


@pytest.mark.parametrize("text", [LAYER, LAYER + " bias", GRADIENTS[1]])
def test_a_sum_that_starts_from_zero_is_plus_zero(text):
    assert find_zero_sign(session_of(PlainRunner(), text), 4) == "+0"


@pytest.mark.parametrize("text", [LAYER, LAYER + " bias", GRADIENTS[1]])
def test_a_sum_that_starts_from_its_first_product_is_minus_zero(text):
    assert find_zero_sign(session_of(PlainRunner(start=-0.0), text), 4) == "-0"


def test_a_sum_that_starts_from_the_bias_has_its_sign():
    assert find_zero_sign(session_of(PlainRunner(bias="first"), LAYER + " bias"), 4) == "-0"


TRIPLE = (0, 1, 17)


def test_a_running_sum_of_the_operands_range_overflows_to_infinity():
    assert find_overflow(session_of(PlainRunner(accumulator=to_float32), LAYER), TRIPLE, 0) == "infinite"
    half = session_of(PlainRunner(accumulator=to_float16), LAYER + " dtype=float16")
    assert find_overflow(half, TRIPLE, 0) == "infinite"


def test_a_wider_running_sum_does_not_overflow():
    wide = session_of(PlainRunner(accumulator=to_float64), LAYER)
    assert find_overflow(wide, TRIPLE, 0) == "the running sum has a wider range"
    for accumulator in (to_float32, keep_bits(11)):
        half = session_of(PlainRunner(accumulator=accumulator), LAYER + " dtype=float16")
        assert find_overflow(half, TRIPLE, 0) == "the running sum has a wider range"


def test_an_order_in_which_the_negative_comes_second_never_overflows():
    assert find_overflow(session_of(PlainRunner(), LAYER), (0, 17, 1), 0) == "the running sum has a wider range"


def test_infinities_that_cancel_are_nan():
    # Two finished sums, one infinite for its two large terms, one minus infinity for its own.
    class Twice(PlainRunner):
        def _add_tree(self, tree, products, start, bias=0.0):
            total = super()._add_tree(tree, products, start)
            return total - total

    assert find_overflow(session_of(Twice(), LAYER), TRIPLE, 0) == "NaN"


def test_a_sum_that_saturates_is_told_with_both_numbers():
    limit = float(np.finfo(np.float16).max)
    runner = PlainRunner(accumulator=lambda v: to_float16(np.clip(v, -limit, limit)))
    found = find_overflow(session_of(runner, LAYER + " dtype=float16"), TRIPLE, 0)
    # 32768 + 32768 stops at 65504; less 32768 that is 32736.
    assert found == "32736 where 32768 is right"


def test_failures_and_spent_budgets_come_through():
    for ask in (
        find_padding_rule,
        find_nan_reach,
        lambda s: find_zero_sign(s, 0),
        lambda s: find_overflow(s, TRIPLE, 0),
    ):
        with pytest.raises(EngineFailure):
            ask(session_of(FailingRunner(), PADDED))
        with pytest.raises(ProbeStopped):
            ask(session_of(PlainRunner(), PADDED, most_calls=0))
