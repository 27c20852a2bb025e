"""Terms of every kind and direction: numbers, views and positions against loops over the definition."""

import itertools
import math

import numpy as np
import pytest

from exact_terms import list_terms
from samebits.problems import parse_problem_text
from samebits.problems.terms import find_terms

PROBLEMS = [
    "conv1d x=2x4x7 w=6x2x3 stride=2 padding=1:2 dilation=2 groups=2 bias",
    "conv1d x=1x1x1 w=1x1x1",
    "conv2d x=2x3x5x4 w=4x3x3x2 stride=2x1 padding=1x0:1",
    "conv3d x=1x2x3x4x3 w=2x2x2x1x3 padding=1x0x1 stride=1x2x1",
    "conv1d.grad_input x=2x4x7 w=6x2x3 stride=2 padding=1 groups=2",
    "conv2d.grad_input x=1x3x6x5 w=4x3x2x3 stride=3x2 padding=0x1 dilation=1x2",
    "conv1d.grad_weight x=2x4x7 w=6x2x3 stride=2 padding=1 groups=2",
    "conv2d.grad_weight x=2x3x5x4 w=4x3x3x2 padding=1x0:1 dilation=2x1",
    "conv_transpose1d x=2x4x4 w=4x3x3 stride=2 padding=1 groups=2 output_padding=1",
    "conv_transpose2d x=1x3x3x4 w=3x2x2x3 stride=3x1 dilation=1x2",
    "conv_transpose1d.grad_input x=2x4x4 w=4x3x3 stride=2 groups=2",
    "conv_transpose2d.grad_weight x=2x3x3x3 w=3x2x2x3 padding=1 stride=2x1",
    "conv_transpose1d x=1x2x3 w=2x1x1 stride=3",
    "conv1d x=1x1x1 w=4x1x1 padding=2 stride=2",
]


def numbered(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def read_terms(problem):
    """By output index: a dict from term number to (rows element, source element), as the views say."""
    terms = find_terms(problem)
    rows = terms.view_rows(numbered(problem.operand_shapes[terms.rows_operand]))
    source = terms.view_source(numbered(problem.operand_shapes[terms.source_operand]))
    result = terms.view_result(numbered(problem.out_shape))
    at = terms.locate_sources(np.arange(math.prod(terms.outputs)))
    found = {}
    for g, m, b, s in itertools.product(*(range(n) for n in result.shape)):
        own = {}
        for d, v in itertools.product(range(terms.depth), range(terms.volume)):
            if at[s, v] >= 0:
                own[d * terms.volume + v] = int(rows[g, m, d, v]), int(source[g, b, d, at[s, v]])
        found[int(result[g, m, b, s])] = own
    return found


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_output_has_the_products_of_its_definition(text):
    problem = parse_problem_text(text)
    terms = find_terms(problem)
    names = (terms.rows_operand, terms.source_operand)
    numbers = {n: numbered(problem.operand_shapes[n]) for n in names}
    found = read_terms(problem)
    listed = list_terms(problem)
    assert len(found) == len(listed)
    for number, own in enumerate(listed.values()):
        expected = sorted(tuple(int(numbers[n][t[n]]) for n in names) for t in own)
        assert sorted(found[number].values()) == expected


@pytest.mark.parametrize("text", PROBLEMS)
def test_terms_are_numbered_along_their_named_axes_slowest_first(text):
    problem = parse_problem_text(text)
    terms = find_terms(problem)
    spatial = {1: "w", 2: "hw", 3: "dhw"}[problem.rank]
    filters = problem.direction == "grad_weight"
    assert terms.axis_names == (("n", *("o" + a for a in spatial)) if filters else ("c", *("k" + a for a in spatial)))
    assert math.prod(terms.axis_sizes) == terms.count
    # The rows element of a term says where along these axes it stands.
    shape = problem.operand_shapes[terms.rows_operand]
    for own in read_terms(problem).values():
        for number, (element, _) in own.items():
            index = np.unravel_index(element, shape)
            first = index[0] if filters or terms.form == "scatter" else index[1]
            place = np.unravel_index(number, terms.axis_sizes)
            assert place[1:] == index[2:]
            assert place[0] == (first % terms.depth if terms.form == "scatter" else first)


@pytest.mark.parametrize("text", PROBLEMS)
def test_a_whole_sum_has_the_reduction_length_where_no_stride_leaves_terms_out(text):
    problem = parse_problem_text(text)
    terms = find_terms(problem)
    most = max(len(own) for own in list_terms(problem).values())
    assert most <= problem.reduction_length <= terms.count
    if terms.form != "scatter":
        assert problem.reduction_length == terms.count
    assert terms.positions * terms.rows * terms.groups == math.prod(problem.out_shape)


@pytest.mark.parametrize("text", PROBLEMS)
def test_views_share_memory_with_their_array(text):
    problem = parse_problem_text(text)
    terms = find_terms(problem)
    for view, shape in (
        (terms.view_rows, problem.operand_shapes[terms.rows_operand]),
        (terms.view_source, problem.operand_shapes[terms.source_operand]),
        (terms.view_result, problem.out_shape),
    ):
        array = np.zeros(shape)
        view(array)[...] = 1.0
        assert array.all()


@pytest.mark.parametrize("text", PROBLEMS)
def test_patterns_say_which_terms_exist_at_every_place(text):
    terms = find_terms(parse_problem_text(text))
    number, masks = terms.patterns
    exists = terms.locate_sources(np.arange(math.prod(terms.outputs))) >= 0
    assert np.array_equal(masks[number], exists)
    # No pattern with a term twice, and none that no place has.
    some = masks[masks.any(axis=1)]
    assert len(np.unique(some, axis=0)) == len(some)
    assert set(number.tolist()) == set(range(len(masks)))


def extend(problem, by=40):
    """The number of terms at every place if the input went on for ever: every tap that the stride lets be."""
    filters = problem.direction == "grad_weight"
    possible = []
    for a in problem.axes:
        if filters:
            possible.append(np.ones((a.kernel, a.size_small), bool))
            continue
        size = a.size_large if find_terms(problem).form == "scatter" else a.size_small
        row = np.ones((size, a.kernel), bool)
        if find_terms(problem).form == "scatter":
            for i, t in np.ndindex(row.shape):
                row[i, t] = any(j * a.stride - a.pad_begin + t * a.dilation == i for j in range(-by, size + by))
        possible.append(row)
    return possible


@pytest.mark.parametrize("text", PROBLEMS)
def test_phases_ignore_borders_only(text):
    problem = parse_problem_text(text)
    terms = find_terms(problem)
    number, masks = terms.phases
    axes = extend(problem)
    for s, index in enumerate(np.ndindex(terms.outputs)):
        expected = np.ones(1, bool)
        for i, possible in zip(index, axes, strict=True):
            expected = (expected[:, None] & possible[i][None, :]).reshape(-1)
        assert np.array_equal(masks[number[s]], expected)
    if terms.form != "scatter" or set(problem.stride) == {1}:
        assert len(masks) == 1


def test_problems_that_are_equal_share_their_terms():
    one, other = (parse_problem_text("conv1d x=1x2x6 w=3x2x3 padding=1") for _ in range(2))
    assert find_terms(one) is find_terms(other)


def test_places_are_located_one_by_one_as_together():
    terms = find_terms(parse_problem_text(PROBLEMS[2]))
    every = terms.locate_sources(np.arange(math.prod(terms.outputs)))
    for place in (0, 5, len(every) - 1):
        assert np.array_equal(terms.locate_sources(np.array([place]))[0], every[place])


@pytest.mark.parametrize("text", [
    "conv1d x=1x1x9 w=1x1x4 stride=2 padding=3:1 dilation=2",
    "conv1d.grad_weight x=1x1x9 w=1x1x4 stride=2 padding=3:1 dilation=2",
    "conv1d.grad_input x=1x1x19 w=1x1x4 stride=3 padding=2:5 dilation=2",
    "conv_transpose2d x=1x1x5x4 w=1x1x7x3 stride=6x4 padding=2:1x0:1 dilation=4x3 output_padding=3x2",
    "conv_transpose1d x=1x1x3 w=1x1x2 stride=9 output_padding=4",
    "conv3d x=1x1x3x4x5 w=1x1x2x3x1 padding=2",
])  # fmt: skip
def test_patterns_and_phases_are_those_that_numpy_finds(text):
    terms = find_terms(parse_problem_text(text))
    exists = np.ones((1, 1), bool)
    for reach in terms.reaches:
        exists = (exists[:, None, :, None] & (reach >= 0)[None, :, None, :]).reshape(len(exists) * len(reach), -1)
    number, masks = terms.patterns
    np.testing.assert_array_equal(masks[number], exists)
    endless = np.ones((1, 1), bool)
    for a, span, size in zip(terms.axes, terms.spans, terms.outputs, strict=True):
        possible = np.ones((size, span), bool)
        if terms.form == "scatter":
            at = np.arange(size)[:, None] + a.pad_begin - np.arange(span) * a.dilation
            possible = at % a.stride == 0
        endless = (endless[:, None, :, None] & possible[None, :, None, :]).reshape(len(endless) * size, -1)
    number, masks = terms.phases
    np.testing.assert_array_equal(masks[number], endless)
