"""Observations and samples: which outputs a sample holds, and its sums, compared with loops over the definition."""

from dataclasses import replace

import numpy as np
import pytest

from naive_convolution import by_row, compute, convolve, make_integers, observe
from samebits.mechanisms.facts.observation import Observation, Sample, shrink_problem, sum_terms
from samebits.problems import parse_problem_text
from samebits.problems.terms import find_terms

PROBLEMS = [
    "conv1d x=2x4x7 w=6x2x3 padding=1 groups=2 bias",
    "conv2d x=2x3x5x4 w=4x3x3x2 stride=2x1 padding=1x0 then=relu",
    "conv2d.grad_input x=2x4x5x5 w=6x2x3x3 padding=1 stride=2 groups=2",
    "conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 padding=1 groups=2",
    "conv_transpose1d x=2x4x5 w=4x3x3 stride=2 groups=2 bias then=clip(-9,9)",
    "conv_transpose1d.grad_weight x=2x4x5 w=4x3x3 groups=2",
    "conv3d x=1x2x3x3x3 w=2x2x2x2x2 dtype=float16 out=float32",
]


def sample_of(observation, seed=0):
    whole, random = observation.whole(), np.random.default_rng(seed)
    rows = random.permutation(whole.rows)[: max(len(whole.rows) // 2, 1)]
    return replace(whole, rows=rows, positions=random.permutation(whole.positions)[: len(whole.positions) // 2 + 1])


@pytest.mark.parametrize("text", PROBLEMS)
def test_the_whole_holds_every_output_once(text):
    problem = parse_problem_text(text)
    observation = observe(problem, make_integers(problem))
    numbers = np.arange(np.prod(problem.out_shape)).reshape(problem.out_shape)
    assert np.array_equal(observation.whole().pick(numbers), by_row(problem, numbers))


@pytest.mark.parametrize("text", PROBLEMS)
def test_a_sample_picks_and_marks_the_same_outputs(text):
    problem = parse_problem_text(text)
    observation = observe(problem, make_integers(problem))
    sample = sample_of(observation)
    numbers = np.arange(np.prod(problem.out_shape)).reshape(problem.out_shape)
    picked = sample.pick(numbers)
    assert np.array_equal(picked, by_row(problem, numbers)[np.ix_(sample.rows, sample.positions)])
    assert set(numbers[sample.mark()].tolist()) == set(picked.reshape(-1).tolist())
    assert sample.mark().sum() == picked.size


def test_a_single_number_is_picked_for_every_output():
    observation = observe(parse_problem_text(PROBLEMS[0]), make_integers(parse_problem_text(PROBLEMS[0])))
    assert (observation.whole().pick(np.array(7.0)) == 7.0).all()


@pytest.mark.parametrize("text", PROBLEMS)
def test_sums_of_a_sample_are_those_of_the_definition(text):
    problem = parse_problem_text(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    sample, terms = sample_of(observation), observation.terms
    sums = sum_terms(terms, operands[terms.rows_operand], operands[terms.source_operand], sample)
    exact = by_row(problem, convolve(problem, operands))
    assert np.array_equal(sums, exact[np.ix_(sample.rows, sample.positions)])
    finished = observation.sum_instead(operands, sample)
    exact = by_row(problem, compute(problem, operands))
    assert np.array_equal(finished, exact[np.ix_(sample.rows, sample.positions)])


@pytest.mark.parametrize("text", PROBLEMS)
def test_bare_sums_have_neither_bias_nor_epilogue_and_are_computed_once(text):
    problem = parse_problem_text(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    bare = observation.bare_sums()
    assert np.array_equal(bare, convolve(problem, operands))
    assert observation.bare_sums() is bare


def test_finishing_adds_each_rows_bias_and_then_clips():
    problem = parse_problem_text("conv1d x=1x1x3 w=3x1x1 bias then=clip(0,10)")
    operands = make_integers(problem) | {"bias": np.array([1, 20, -30])}
    observation = observe(problem, operands)
    sample = replace(observation.whole(), rows=np.array([2, 0, 1]), positions=np.array([0, 1]))
    zeros = np.zeros((3, 2))
    assert observation.finish(zeros, sample).tolist() == [[0, 0], [1, 1], [10, 10]]
    assert observation.finish(zeros, sample, np.array([5.0, 6.0, 7.0])).tolist() == [[7, 7], [5, 5], [6, 6]]


@pytest.mark.parametrize(
    "text",
    [
        *PROBLEMS,
        "conv2d x=5x64x56x56 w=96x64x3x3 padding=1",
        "conv2d x=9x256x12x12 w=256x1x3x3 groups=256",
        "conv2d.grad_weight x=4x64x30x30 w=64x64x3x3",
        "conv3d x=2x8x20x20x20 w=64x8x3x3x3",
    ],
)
def test_a_chosen_sample_is_small_ends_included_and_always_the_same(text):
    problem = parse_problem_text(text)
    operands = {n: np.zeros(s, np.int8) for n, s in problem.operand_shapes.items()}
    nothing = np.zeros(problem.out_shape, np.int8)
    observation = observe_nothing(problem, operands, nothing)
    sample = observation.choose_sample()
    rows, positions = len(observation.whole().rows), len(observation.whole().positions)
    assert len(sample.rows) <= 24
    assert len(sample.positions) <= 320
    assert len(set(sample.rows.tolist())) == len(sample.rows)
    assert len(set(sample.positions.tolist())) == len(sample.positions)
    assert {0, rows - 1} <= set(sample.rows.tolist()) <= set(range(rows))
    assert set(sample.positions.tolist()) <= set(range(positions))
    again = observation.choose_sample()
    assert np.array_equal(again.rows, sample.rows)
    assert np.array_equal(again.positions, sample.positions)


def observe_nothing(problem, operands, nothing):
    return Observation(problem, operands, nothing, nothing, nothing, nothing)


def test_corners_of_a_plane_are_in_a_chosen_sample():
    problem = parse_problem_text("conv2d x=1x4x40x40 w=8x4x3x3 padding=1")
    nothing = np.zeros(problem.out_shape, np.int8)
    positions = set(observe_nothing(problem, {}, nothing).choose_sample().positions.tolist())
    assert {0, 39, 39 * 40, 40 * 40 - 1, 41, 38 * 40 + 38} <= positions


def test_a_thinned_sample_is_a_part_with_both_ends():
    terms = find_terms(parse_problem_text(PROBLEMS[0]))
    sample = Sample(terms, np.arange(6), np.arange(5, 14)).thin(3, 4)
    assert sample.rows.tolist() == [0, 2, 5]
    assert (sample.positions[0], sample.positions[-1], len(sample.positions)) == (5, 13, 4)
    assert Sample(terms, np.arange(2), np.arange(3)).thin(9, 9).rows.tolist() == [0, 1]


def test_the_number_of_products_says_whether_all_outputs_can_be_predicted():
    # 6 channels, 2 items of 7 outputs, 6 products each.
    problem = parse_problem_text(PROBLEMS[0])
    observation = observe(problem, make_integers(problem))
    assert observation.is_small(6 * 14 * 6)
    assert not observation.is_small(6 * 14 * 6 - 1)


@pytest.mark.parametrize(
    ("text", "shrunk"),
    [
        ("conv2d x=8x64x9x9 w=32x64x3x3", "conv2d x=1x64x9x9 w=4x64x3x3"),
        ("conv2d.grad_input x=8x64x9x9 w=32x64x3x3", "conv2d.grad_input x=1x4x9x9 w=32x4x3x3"),
        ("conv2d.grad_weight x=8x64x9x9 w=32x64x3x3", "conv2d.grad_weight x=8x4x9x9 w=4x4x3x3"),
        ("conv_transpose1d x=8x64x9 w=64x32x3", "conv_transpose1d x=1x64x9 w=64x4x3"),
        ("conv_transpose1d.grad_input x=8x64x9 w=64x32x3", "conv_transpose1d.grad_input x=1x4x9 w=4x32x3"),
        ("conv1d x=8x6x9 w=6x3x3 groups=2", "conv1d x=8x6x9 w=6x3x3 groups=2"),
        ("conv1d x=1x2x9 w=3x2x3 bias", "conv1d x=1x2x9 w=3x2x3 bias"),
    ],
)
def test_a_shrunk_problem_has_the_same_sums_for_fewer_outputs(text, shrunk):
    problem, small = parse_problem_text(text), shrink_problem(parse_problem_text(text))
    assert small == parse_problem_text(shrunk)
    assert small.reduction_length == problem.reduction_length
