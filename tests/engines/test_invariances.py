"""What changes bits and what does not, asked of runners in plain NumPy that depend on just one thing."""

import numpy as np
import pytest

from numpy_runners import FailingRunner, NanRunner, PlainRunner
from samebits.engines.probes.invariances import (
    count_distinct_results,
    is_invariant_to_batch_position,
    is_invariant_to_batch_size,
    is_invariant_to_channel_order,
    is_invariant_to_length,
    is_same_on,
)
from samebits.errors import EngineFailure, EngineRaised
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact, make_normal

LAYER = "conv2d x=2x8x6x6 w=4x8x3x3 padding=1"
FORTH, BACK = tuple(range(72)), tuple(range(71, -1, -1))
QUESTIONS = (
    is_invariant_to_batch_size,
    is_invariant_to_batch_position,
    is_invariant_to_length,
    is_invariant_to_channel_order,
)


class Depends(PlainRunner):
    """Adds in reverse where `when` says so of the problem and the number of the call."""

    def __init__(self, when):
        super().__init__()
        self.when = when

    def run(self, problem, operands):
        self.tree = tuple(range(8 * 9))[:: -1 if self.when(problem, self.calls) else 1]
        return super().run(problem, operands)


class LastItem(PlainRunner):
    """The last item of a batch is added in reverse, as the rest of a division by a vector's length is."""

    def run(self, problem, operands):
        self.tree = BACK
        last = super().run(problem, operands)[-1:]
        self.tree = FORTH
        return np.concatenate([super().run(problem, operands)[:-1], last])


class LastColumns(PlainRunner):
    """Full vectors of four columns are added forth, the columns that are left over back."""

    def run(self, problem, operands):
        full = problem.out_shape[-1] // 4 * 4
        self.tree = FORTH
        forth = super().run(problem, operands)[..., :full]
        self.tree = BACK
        return np.concatenate([forth, super().run(problem, operands)[..., full:]], axis=-1)


class SortedChannels(PlainRunner):
    """Adds the products of every output in ascending order: whatever sequence they come in."""

    def _add_tree(self, tree, products, start, bias=0.0):
        return super()._add_tree(tree, np.sort(products, axis=1), start, bias)


def ask(question, runner, text=LAYER):
    return question(runner, parse_problem_text(text))


def test_a_fault_free_runner_changes_only_with_the_order_of_channels():
    assert [ask(q, PlainRunner()) for q in QUESTIONS] == [True, True, True, False]
    problem = parse_problem_text(LAYER)
    assert count_distinct_results(PlainRunner(), problem, make_normal(problem)) == 1


def test_a_runner_that_sorts_its_products_does_not_depend_on_the_order_of_channels():
    assert [ask(q, SortedChannels()) for q in QUESTIONS] == [True] * 4


def test_bits_that_depend_on_the_batch_size_are_found():
    runner = Depends(lambda problem, call: problem.x[0] > 2)
    assert ask(is_invariant_to_batch_size, runner) is False
    assert ask(is_invariant_to_batch_position, runner) is True
    assert ask(is_invariant_to_length, runner) is True


@pytest.mark.parametrize("alone", [1, 2, 3, 5])
def test_bits_that_change_at_one_size_only_are_found(alone):
    """A batch of four: an item alone, a pair, one fewer and one more are each a kernel's own case somewhere."""
    four = LAYER.replace("x=2", "x=4")
    assert ask(is_invariant_to_batch_size, Depends(lambda problem, call: problem.x[0] == alone), four) is False
    assert ask(is_invariant_to_batch_size, Depends(lambda problem, call: problem.x[0] == 7), four) is True


def test_bits_that_depend_on_the_place_in_the_batch_are_found():
    assert ask(is_invariant_to_batch_position, LastItem()) is False
    assert ask(is_invariant_to_batch_position, LastItem(), LAYER.replace("x=2", "x=1")) is False
    # The item that was the last of two is not the last of three.
    assert ask(is_invariant_to_batch_size, LastItem()) is False


def test_bits_that_depend_on_the_length_are_found():
    assert ask(is_invariant_to_length, Depends(lambda problem, call: problem.x[-1] % 2 == 1)) is False
    # Seven outputs: three columns are left over; eight outputs: none.
    text = "conv2d x=1x8x7x7 w=4x8x3x3 padding=1"
    assert ask(is_invariant_to_length, LastColumns(), text) is False
    assert ask(is_invariant_to_length, PlainRunner(), text) is True


def test_outputs_that_read_the_new_end_are_not_compared():
    class Reads(PlainRunner):
        """The sum of everything to the left of an output's window and in it: nothing beyond."""

        def run(self, problem, operands):
            sums = np.cumsum(operands["x"].sum(axis=(1, 2), dtype=np.float64), axis=-1)
            a = problem.axes[-1]
            last = np.minimum(np.arange(a.size_small) * a.stride - a.pad_begin + a.kernel - 1, a.size_large - 1)
            result = sums[:, last][:, None, None].astype(np.float32)
            return np.broadcast_to(result, problem.out_shape).copy()

    for text in (LAYER, LAYER + " stride=2", "conv2d x=1x8x6x7 w=4x8x3x3 stride=3"):
        assert ask(is_invariant_to_length, Reads(), text) is True


@pytest.mark.parametrize(("every", "distinct"), [(1, 1), (2, 2), (3, 2)])
def test_results_that_change_from_run_to_run_are_counted(every, distinct):
    problem = parse_problem_text(LAYER)
    runner = Depends(lambda problem, call: call % every == every - 1)
    assert count_distinct_results(runner, problem, make_normal(problem)) == distinct
    assert runner.calls == 5


def test_five_results_may_all_differ():
    class Counting(PlainRunner):
        def run(self, problem, operands):
            return super().run(problem, operands) + np.float32(self.calls)

    problem = parse_problem_text(LAYER)
    assert count_distinct_results(Counting(), problem, make_exact(problem)) == 5


def test_one_nan_is_any_other_but_zeros_have_signs():
    class Coded(PlainRunner):
        """The same number with other bits at every call."""

        codes: tuple[int, ...] = ()

        def run(self, problem, operands):
            self.calls += 1
            return np.full(problem.out_shape, self.codes[self.calls % 2], np.uint32).view(np.float32)

    problem = parse_problem_text(LAYER)
    nan, zero = Coded(), Coded()
    nan.codes, zero.codes = (0x7FC00000, 0xFFC00001), (0, 0x80000000)
    assert count_distinct_results(nan, problem, {}) == 1
    assert count_distinct_results(zero, problem, {}) == 2
    assert count_distinct_results(NanRunner(), problem, {}) == 1


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (is_invariant_to_batch_size, "conv2d.grad_weight x=2x4x6x6 w=4x4x3x3"),
        (is_invariant_to_batch_position, "conv2d.grad_weight x=2x4x6x6 w=4x4x3x3"),
        (is_invariant_to_length, "conv2d.grad_input x=2x4x6x6 w=4x4x3x3"),
        (is_invariant_to_length, "conv_transpose1d x=1x4x6 w=4x6x3"),
        (is_invariant_to_length, "conv1d x=1x4x6 w=4x4x3 padding=same_upper"),
        (is_invariant_to_channel_order, "conv1d x=1x4x6 w=4x2x3 groups=2"),
        (is_invariant_to_channel_order, "conv1d x=1x1x6 w=4x1x3"),
        (is_invariant_to_channel_order, "conv2d.grad_input x=2x4x6x6 w=4x4x3x3"),
    ],
)
def test_a_question_that_does_not_apply_is_not_asked(question, text):
    runner = PlainRunner()
    assert ask(question, runner, text) is None
    assert runner.calls == 0


def test_no_output_left_to_compare_is_no_answer():
    # The only output reads padding behind the input, where the longer input has a value.
    assert ask(is_invariant_to_length, PlainRunner(), "conv1d x=1x4x2 w=4x4x3 padding=0:1") is None
    # Padding before it changes nothing: the output reads the same values, and is compared.
    assert ask(is_invariant_to_length, PlainRunner(), "conv1d x=1x4x1 w=4x4x2 padding=1:0") is True


@pytest.mark.parametrize("text", ["conv2d.grad_input x=2x4x6x6 w=8x4x3x3", "conv_transpose2d x=2x8x4x4 w=8x4x3x3"])
def test_batches_are_asked_about_in_gradients_and_transposed_kinds(text):
    larger = Depends(lambda problem, call: problem.x[0] > 2)
    for question in QUESTIONS[:2]:
        assert ask(question, PlainRunner(), text) is True
    assert ask(is_invariant_to_batch_size, larger, text) is False
    assert ask(is_invariant_to_batch_position, LastItem(), text) is False


def test_channels_of_a_transposed_convolution_are_its_first_weight_axis():
    text = "conv_transpose1d x=1x8x6 w=8x3x3"
    small = parse_problem_text(text)
    mirror = PlainRunner(tuple(range(24)))
    assert is_invariant_to_channel_order(mirror, small) is False
    assert is_invariant_to_channel_order(SortedChannels(), small) is True


def test_another_setting_is_compared_bit_for_bit():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem)
    result = PlainRunner(FORTH).run(problem, operands)
    assert is_same_on(PlainRunner(FORTH), problem, operands, result) is True
    assert is_same_on(PlainRunner(BACK), problem, operands, result) is False
    exact = make_exact(problem)
    assert is_same_on(PlainRunner(BACK), problem, exact, PlainRunner(FORTH).run(problem, exact)) is True


def test_failures_come_through_and_results_are_checked():
    class Short(PlainRunner):
        def run(self, problem, operands):
            return super().run(problem, operands)[..., :-1]

    for question in QUESTIONS:
        with pytest.raises(EngineFailure):
            ask(question, FailingRunner())
        with pytest.raises(EngineRaised, match="shape"):
            ask(question, Short())
