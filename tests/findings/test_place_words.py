"""Where outputs differ, in words, for sets of outputs drawn by hand."""

import numpy as np
import pytest

from samebits.findings.words.place_words import describe_places
from samebits.problems import parse_problem_text

# 3 items, 8 channels in 2 groups, 6 x 6 outputs of which the outermost read padding.
GROUPED = "conv2d x=3x4x6x6 w=8x2x3x3 padding=1 groups=2"
PLAIN = "conv2d x=3x4x8x8 w=8x4x3x3"
BORDERED = "conv2d x=3x4x6x6 w=8x4x3x3 padding=1"
WEIGHTS = "conv1d.grad_weight x=2x4x5 w=6x2x3 groups=2"
DEPTHWISE = "conv1d x=1x4x5 w=4x1x2 groups=4"
ALL = slice(None)


def describe(text, *marked, but=()):
    problem = parse_problem_text(f"{text} dtype=float32")
    differing = np.zeros(problem.out_shape, bool)
    for index in marked:
        differing[index] = True
    for index in but:
        differing[index] = False
    return describe_places(problem, differing)


def test_no_place_has_no_words_and_all_places_are_everywhere():
    assert describe(PLAIN) is None
    assert describe(PLAIN, ALL) == "everywhere"


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ((1, 5, 4, 3), "n = 1, c_out = 5, oh = 4, ow = 3"),
        ((2,), "n = 2"),
        ((slice(1, None),), "n from 1 on (the tail)"),
        ((ALL, slice(0, 3)), "c_out up to 2"),
        ((ALL, slice(2, 5)), "c_out 2..4"),
        ((ALL, slice(4, None)), "c_out from 4 on (the tail)"),
        ((ALL, slice(1, None, 3)), "c_out 1..7, every 3"),
        ((ALL, slice(0, 5, 2)), "c_out 0..4, every 2"),
        ((0, ALL, 5), "n = 0, oh = 5"),
    ],
)
def test_a_part_of_an_axis_is_named(index, words):
    assert describe(PLAIN, index) == f"only in {words}"


SQUARE = "matmul x=2x6x5 w=2x5x7"
BELOW = np.tril(np.ones((6, 7), bool), -1)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (BELOW, "only below the diagonal"),
        (np.tril(np.ones((6, 7), bool)), "only on and below the diagonal"),
        (np.triu(np.ones((6, 7), bool), 1), "only above the diagonal"),
        (np.triu(np.ones((6, 7), bool)), "only on and above the diagonal"),
    ],
)
def test_a_triangle_of_a_product_is_one(mask, words):
    assert describe(SQUARE, (ALL, *np.nonzero(mask))) == words
    assert describe("linear x=6x5 w=7x5", np.nonzero(mask)) == words


def test_a_corner_or_one_row_is_no_triangle():
    corner = np.zeros((6, 7), bool)
    corner[4:, :2] = True
    assert describe(SQUARE, (ALL, *np.nonzero(corner))) == "only in row from 4 on (the tail), column up to 1"
    row = np.zeros((6, 7), bool)
    row[5, :5] = True
    assert describe(SQUARE, (ALL, *np.nonzero(row))) == "only in row 5, column up to 4"
    # No diagonal is spoken of where rows and columns are places of an image.
    assert "diagonal" not in str(describe(PLAIN, (ALL, ALL, *np.nonzero(np.tril(np.ones((6, 6), bool), -1)))))


def test_a_few_indices_apart_are_named():
    assert describe(PLAIN, (ALL, [1, 5])) == "only in c_out 1 and 5"
    assert describe(PLAIN, (ALL, [1, 2, 5])) == "only in c_out 1, 2 and 5"
    assert describe(PLAIN, (0, 1, 2, 3), (1, 6, 2, 3)) == "only in n up to 1, oh = 2, ow = 3"


def test_many_uneven_indices_are_no_part():
    assert describe(PLAIN, (ALL, [0, 1, 2, 6, 7])) == "scattered over 62.5% of the outputs"
    assert describe(PLAIN, (ALL, [0, 2, 3, 4, 6])) == "scattered over 62.5% of the outputs"


def test_outputs_all_over_are_scattered():
    diagonal = [(i % 3, i % 8, i % 6, i // 8) for i in range(48)]
    assert describe(PLAIN, *diagonal) == "scattered over 5.6% of the outputs"


def test_all_but_a_fiftieth_is_nearly_everywhere():
    long = "conv1d x=2x1x100 w=1x1x1"
    assert (
        describe(long, ALL, but=[(0, 0, 3), (1, 0, 7), (0, 0, 50), (1, 0, 90)]) == "scattered over 98.0% of the outputs"
    )
    assert describe(long, ALL, but=[(0, 0, 3), (1, 0, 7), (0, 0, 50)]) == "nearly everywhere"


def test_outputs_that_reach_outside_are_borders_and_their_rows_are_not_listed():
    border = (ALL, ALL, 0), (ALL, ALL, -1), (..., 0), (..., -1)
    assert describe(BORDERED, *border) == "only in borders, where the window reaches outside"
    assert describe(BORDERED, (1, ALL, 0)) == "only in borders, where the window reaches outside, n = 1"
    assert describe(BORDERED, (ALL, 3, 0, 2)) == "only in borders, where the window reaches outside, c_out = 3"


def test_one_output_inside_makes_it_no_matter_of_borders():
    assert describe(BORDERED, (ALL, ALL, 0), (1, 1, 3, 3)) == ("scattered over 16.8% of the outputs")


def test_without_padding_there_is_no_border_and_where_all_is_border_it_says_nothing():
    assert describe(PLAIN, (ALL, ALL, 0)) == "only in oh = 0"
    assert describe("conv1d x=1x1x2 w=1x1x3 padding=1", (0, 0, 1)) == "only in ow = 1"


def test_one_group_is_named_with_its_channels_and_those_are_not_repeated():
    assert describe(GROUPED, (ALL, slice(4, 8), slice(1, 5), slice(1, 5))) == (
        "only in group 1 of 2 (channels 4..7), oh 1..4, ow 1..4"
    )
    assert describe(GROUPED, (2, slice(0, 4))) == "only in group 0 of 2 (channels 0..3), n = 2"
    assert describe(GROUPED, (ALL, 1)) == "only in group 0 of 2 (channels 0..3)"
    assert describe(GROUPED, (ALL, slice(4, 8), 0)) == (
        "only in borders, where the window reaches outside, group 1 of 2 (channels 4..7)"
    )


def test_channels_of_two_groups_are_channels():
    assert describe(GROUPED, (ALL, slice(3, 5), 3, 3)) == "only in c_out 3..4, oh = 3, ow = 3"


def test_groups_of_one_channel_are_channels():
    assert describe(DEPTHWISE, (0, 2)) == "only in c_out = 2"


def test_groups_of_a_weight_gradient_lie_along_its_first_axis():
    assert describe(WEIGHTS, (slice(3, 6),)) == "only in group 1 of 2 (channels 3..5)"
    assert describe(WEIGHTS, (slice(3, 6), 1, 2)) == "only in group 1 of 2 (channels 3..5), c_per_group = 1, kw = 2"
    assert describe(WEIGHTS, (ALL, 1)) == "only in c_per_group = 1"
