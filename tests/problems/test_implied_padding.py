"""Implied end paddings: every small case, tried out one padding after the other."""

import itertools

import pytest

from samebits.errors import ProblemShapeError
from samebits.problems import Problem
from samebits.problems.languages.command_line import find_padding_end, split_transposed_end


def count_outputs(large, begin, end, reach, stride):
    """How many windows fit, by placing them one after the other."""
    return sum(1 for first in range(-begin, large + end - reach + 1) if (first + begin) % stride == 0)


CASES = [
    (small, large, reach, stride, begin)
    for small, large, reach, stride, begin in itertools.product(
        range(1, 6), range(1, 8), range(1, 5), range(1, 4), range(4)
    )
]


def test_the_end_gives_the_outputs_and_is_the_beginning_or_the_least():
    for small, large, reach, stride, begin in CASES:
        fitting = [e for e in range(40) if count_outputs(large, begin, e, reach, stride) == small]
        if not fitting:
            with pytest.raises(ProblemShapeError, match="negative padding"):
                find_padding_end(small, large, reach, stride, begin)
            continue
        expected = begin if begin in fitting else min(fitting)
        assert find_padding_end(small, large, reach, stride, begin) == expected, (small, large, reach, stride, begin)


@pytest.mark.parametrize(
    ("small", "large", "reach", "stride", "begin", "end"),
    [
        (8, 8, 3, 1, 1, 1),
        (4, 8, 3, 2, 1, 1),  # The last row is not read; symmetric all the same.
        (4, 8, 3, 2, 0, 1),
        (3, 7, 3, 2, 0, 0),
        (10, 8, 3, 1, 0, 4),
    ],
)
def test_usual_paddings(small, large, reach, stride, begin, end):
    assert find_padding_end(small, large, reach, stride, begin) == end


def test_a_crop_is_refused_in_words():
    with pytest.raises(ProblemShapeError, match="2 outputs at stride 1 leave over more than a stride of the 9 inputs"):
        find_padding_end(2, 9, 3, 1, 0)


def test_a_transposed_end_keeps_the_difference_and_is_symmetric_where_it_may_be():
    for begin, difference, stride, dilation in itertools.product(range(5), range(-4, 6), range(1, 4), range(1, 4)):
        end, extra = split_transposed_end(begin, difference, stride, dilation)
        assert end - extra == difference
        assert min(end, extra) >= 0
        allowed = 0 <= begin - difference < max(stride, dilation)
        assert (end == begin) if allowed else (min(end, extra) == 0)


def test_a_transposed_end_gives_the_size_that_was_asked_for():
    for size, kernel, stride, begin in itertools.product((3, 4), (2, 3), (2, 3), (0, 1)):
        full = (size - 1) * stride + kernel
        for wanted in range(full - begin - 1, full - begin + 1):
            end, extra = split_transposed_end(begin, full - begin - wanted, stride, 1)
            problem = Problem(
                kind="conv_transpose1d", x=(1, 1, size), w=(1, 1, kernel), stride=(stride,),
                padding=((begin, end),), output_padding=(extra,),
            )  # fmt: skip
            assert problem.y_shape == (1, 1, wanted)
