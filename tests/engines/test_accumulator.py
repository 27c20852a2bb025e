"""The running sum's format and mode, read off runners in plain NumPy with known ones."""

from fractions import Fraction

import numpy as np
import pytest

from numpy_runners import FailingRunner, NanRunner, PlainRunner, keep_bits, to_float16, to_float32, to_float64
from samebits.engines.probes.accumulator import choose_triples, find_accumulator
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text
from samebits.sums.recipes.tree import Chain, Fused

LAYER = "conv2d x=1x4x5x5 w=8x4x3x3"
FIRST = (0, 1, 35)


def cut_to_float32(values):
    """float64 values toward zero."""
    nearest = values.astype(np.float32).astype(np.float64)
    beyond = np.abs(nearest) > np.abs(values)
    return np.where(beyond, np.nextafter(nearest.astype(np.float32), np.float32(0)).astype(np.float64), nearest)


def round_by(choose):
    """Rounding to float32 in a directed mode: whichever neighbour `choose` takes of those at or around a value."""

    def round_(values):
        nearest = values.astype(np.float32)
        below = np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        above = np.where(nearest < values, np.nextafter(nearest, np.float32(np.inf)), nearest)
        return choose(below.astype(np.float64), above.astype(np.float64))

    return round_


def find(runner, text=LAYER, triple=FIRST, position=0, **limits):
    session = ProbeSession(runner, parse_problem_text(text), **limits)
    return find_accumulator(session, triple, position)


@pytest.mark.parametrize(
    ("accumulator", "bits", "format_", "mode"),
    [
        (to_float32, 23, "float32", "nearest_even"),
        (to_float16, 10, "float16", "nearest_even"),
        (keep_bits(8), 7, "bfloat16", "nearest_even"),
        (cut_to_float32, 23, "float32", "toward_zero"),
        (keep_bits(24, np.trunc), 23, "float32", "toward_zero"),
        (keep_bits(14, np.trunc), 13, "e8m13", "toward_zero"),
        (keep_bits(11, np.trunc), 10, "float16", "toward_zero"),
        (round_by(lambda below, above: below), 23, "float32", "downward"),
        (round_by(lambda below, above: above), 23, "float32", "upward"),
        (keep_bits(24, lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v)), 23, "float32", "nearest_away"),
    ],
)
def test_format_and_mode_of_the_running_sum_are_read(accumulator, bits, format_, mode):
    found = find(PlainRunner(accumulator=accumulator))
    assert (found.fraction_bits, found.format, found.mode, found.survives_all) == (bits, format_, mode, False)
    assert found.terms == FIRST


@pytest.mark.parametrize(
    ("text", "triple", "position"),
    [
        ("conv2d.grad_input x=1x4x5x5 w=8x4x3x3 padding=1", (0, 1, 71), 12),
        ("conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 groups=2", (0, 3, 17), 4),
        ("conv_transpose1d x=1x4x5 w=4x8x3", (0, 1, 11), 3),
        ("conv1d x=1x4x8 w=8x2x3 groups=2", (0, 1, 5), 0),
        ("conv1d x=1x4x8 w=1x4x3", (0, 1, 11), 0),
        (LAYER + " then=relu", FIRST, 0),
    ],
)
@pytest.mark.parametrize(("accumulator", "format_"), [(to_float32, "float32"), (to_float16, "float16")])
def test_every_direction_and_few_rows_are_read_alike(text, triple, position, accumulator, format_):
    found = find(PlainRunner(accumulator=accumulator), text, triple, position)
    assert (found.format, found.mode) == (format_, "nearest_even")


def test_float16_operands_do_not_hide_a_float32_sum():
    found = find(PlainRunner(), LAYER + " dtype=float16")
    assert (found.fraction_bits, found.format) == (23, "float32")
    found = find(PlainRunner(accumulator=to_float16), LAYER + " dtype=float16")
    assert (found.fraction_bits, found.format, found.mode) == (10, "float16", "nearest_even")


def test_a_float64_sum_keeps_what_float32_sums_lose():
    found = find(PlainRunner(accumulator=to_float64))
    # 2^14 + 2^-38 is the last sum that float64 holds; 53 bits are asked about, and lost.
    assert (found.fraction_bits, found.format, found.mode, found.survives_all) == (52, "float64", "nearest_even", False)


def test_where_everything_asked_about_survives_the_sum_is_wider_than_float32_or_exact():
    # Below 2^14 float16 has 38 powers of two: more than float32's 23 bits, fewer than float64's 52.
    found = find(PlainRunner(accumulator=to_float64), LAYER + " dtype=float16")
    assert (found.fraction_bits, found.format, found.mode, found.survives_all) == (28, None, None, True)


def test_alignment_bits_beyond_float32_are_counted_and_belong_to_no_format():
    found = find(PlainRunner(accumulator=keep_bits(26, np.trunc)))
    assert (found.fraction_bits, found.format, found.mode) == (25, None, None)


def test_inner_sums_may_be_kept_otherwise_than_outer_ones():
    class Stored(PlainRunner):
        """Adds channel by channel in float32 and keeps the sum of channels in float16."""

        def _add_tree(self, tree, products, start, bias=0.0):
            inner = [PlainRunner._add_tree(self, range(c, c + 9), products, 0.0) for c in range(0, 36, 9)]
            total = to_float16(inner[0])
            for part in inner[1:]:
                total = to_float16(total + part)
            return total

    assert find(Stored(), triple=(0, 1, 8)).format == "float32"
    # From channel to channel only float16 survives.
    assert find(Stored(), triple=(0, 9, 35)).format == "float16"


def test_a_result_that_is_nan_is_not_readable():
    assert find(NanRunner()) is None


def test_failures_and_spent_budgets_come_through():
    with pytest.raises(EngineFailure):
        find(FailingRunner())
    with pytest.raises(ProbeStopped):
        find(PlainRunner(), most_calls=1)


def test_the_first_two_terms_to_meet_and_the_last_are_asked_in_a_chain():
    assert choose_triples(Chain((3, 1, 0, 2))) == [(3, 1, 2)]
    assert choose_triples(Chain((0, 1))) == []
    assert choose_triples(5) == []


def test_before_and_after_finished_sums_join_are_asked_apart():
    tree = Chain((0, 1, 2, Chain((3, 4, 5)), Chain((6, 7, 8))))
    assert choose_triples(tree) == [(0, 1, 2), (0, 3, 8)]


def test_multi_term_additions_are_asked_inside_and_from_one_to_the_next():
    tree = Chain((Fused((0, 1, 2, 3)), Fused((4, 5, 6, 7))))
    assert choose_triples(tree) == [(0, 1, 2), (0, 1, 7)]
    assert choose_triples(Fused((4, 2, 0))) == [(4, 2, 0)]


def test_no_more_triples_than_wanted():
    tree = Chain((0, 1, 2, Chain((3, 4, 5)), Chain((6, 7, 8))))
    assert choose_triples(tree, most=1) == [(0, 1, 2)]


def test_the_rounding_helpers_of_this_file_round_as_they_say():
    value = np.array([1 + 2.0**-24, -(1 + 3 * 2.0**-25)])
    assert list(cut_to_float32(value)) == [1.0, -1.0]
    assert list(round_by(lambda b, a: a)(value)) == [1 + 2.0**-23, -1.0]
    assert Fraction(float(keep_bits(24)(value)[1])) == -1 - Fraction(1, 2**23)
