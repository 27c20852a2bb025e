"""Where the bias joins a sum, found on runners in plain NumPy that add it first, late, last or after rounding."""

import numpy as np
import pytest

from numpy_runners import FailingRunner, PlainRunner, to_float16, to_float32
from samebits.engines.probes.bias_position import BiasPosition, find_bias_position
from samebits.engines.probes.mask_values import Scale
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text
from samebits.sums.recipes.tree import Chain, Fused

LAYER = "conv2d x=1x2x5x5 w=4x2x3x3 bias"
TREE = Chain(tuple(range(18)))
WIDE, HALF = Scale(2.0**100, 1.0, 18), Scale(2.0**15, 2.0**-24, 18)


def find(runner, text=LAYER, tree=TREE, scale=WIDE, accumulator="float32", **limits):
    session = ProbeSession(runner, parse_problem_text(text), **limits)
    return find_bias_position(session, tree, scale, 0, accumulator)


@pytest.mark.parametrize("text", [LAYER, "conv1d x=1x6x5 w=4x6x3 bias", "conv_transpose1d x=1x6x3 w=6x4x3 bias"])
def test_a_sum_that_starts_from_the_bias_keeps_every_unit(text):
    position = 0 if "transpose" not in text else 2
    session = ProbeSession(PlainRunner(bias="first"), parse_problem_text(text))
    found = find_bias_position(session, TREE, WIDE, position, "float32")
    assert found == BiasPosition("first", 17, 17)


def test_a_bias_added_last_finds_all_units_absorbed():
    # float32 in, float32 sum, float32 out: rounding before the bias would change nothing, so that is "last", too.
    assert find(PlainRunner(bias="last")) == BiasPosition("last", 0, 17)
    assert find(PlainRunner(bias="rounded")) == BiasPosition("last", 0, 17)


@pytest.mark.parametrize("terms", [2, 9, 17])
def test_a_bias_that_joins_later_is_counted_by_the_units_before_it(terms):
    # Of 18 terms the first is the mask; those that come after the bias survive.
    assert find(PlainRunner(bias=terms)) == BiasPosition("after", 18 - terms, 17, terms)


def test_a_bias_after_one_term_is_the_first_but_for_zeros():
    assert find(PlainRunner(bias=1)).position == "first"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("position", ["last", "rounded"])
def test_whether_a_sum_was_rounded_before_its_bias_shows_where_the_result_is_narrower(position, dtype):
    scale = HALF if dtype == "float16" else WIDE
    found = find(PlainRunner(bias=position), f"{LAYER} dtype={dtype}", scale=scale)
    assert found == BiasPosition(position, 0, 17)


def test_half_sums_cannot_show_it_and_are_called_last():
    for position in ("last", "rounded"):
        runner = PlainRunner(bias=position, accumulator=to_float16)
        found = find(runner, LAYER + " dtype=float16", scale=HALF, accumulator="float16")
        assert found.position == "last"


def test_a_running_sum_narrower_than_the_result_leaves_it_open():
    runner = PlainRunner(bias="last", accumulator=to_float16)
    assert find(runner, scale=HALF, accumulator="float16").position is None


def test_a_dropped_bias_has_no_position():
    class Dropped(PlainRunner):
        def run(self, problem, operands):
            return super().run(problem, {**operands, "bias": np.zeros_like(operands["bias"])})

    # Minus the mask is left, which counts no units.
    assert find(Dropped()) == BiasPosition(None, -(2.0**100), 17)


def test_a_bias_doubled_has_no_position():
    class Doubled(PlainRunner):
        def run(self, problem, operands):
            return super().run(problem, {**operands, "bias": 2 * operands["bias"]})

    assert find(Doubled()).position is None


def test_a_first_multi_term_addition_takes_in_the_bias_with_its_terms():
    class Unit(PlainRunner):
        """A matrix unit of four products, added exactly to the bias and rounded; then the next four."""

        def _add_tree(self, tree, products, start, bias=0.0):
            total = np.zeros(len(products)) + start
            for i in range(0, products.shape[1], 4):
                # The masks cancel exactly, what lies too far below them is cut off.
                group = np.concatenate([total[:, None], products[:, i : i + 4]], axis=1)
                largest = np.abs(group).max(axis=1, keepdims=True)
                kept = np.where(np.abs(group) < largest * 2.0**-24, 0.0, group)
                total = to_float32(kept.sum(axis=1))
            return total

    tree = Chain((Fused((0, 1, 2, 3)), Fused((4, 5, 6, 7)), Fused((8, 9, 10, 11))))
    text = "conv1d x=1x4x5 w=4x4x3 bias"
    session = ProbeSession(Unit(bias="first"), parse_problem_text(text))
    # Three units are lost beside the masks, eight follow.
    assert find_bias_position(session, tree, Scale(2.0**100, 1.0, 12), 0, "float32") == BiasPosition("first", 8, 11)


def test_a_result_that_is_nan_has_no_position():
    class Nan(PlainRunner):
        def run(self, problem, operands):
            return np.full(problem.out_shape, np.nan, np.float32)

    assert find(Nan()).position is None


def test_failures_and_spent_budgets_come_through():
    with pytest.raises(EngineFailure):
        find(FailingRunner())
    with pytest.raises(ProbeStopped):
        find(PlainRunner(), LAYER + " dtype=float16", scale=HALF, most_calls=1)
