"""Three forms of sums: which of them a problem is, compared with the products that its definition lists."""

import pytest

from exact_terms import list_terms
from samebits.problems import parse_problem_text
from samebits.problems.terms import Parts, find_parts

SMALL = {"conv": "x=2x4x6{0} w=6x2x3{0} stride=2 groups=2", "conv_transpose": "x=2x4x3{0} w=4x3x3{0} stride=2 groups=2"}
EXPECTED = {
    ("conv", "forward"): Parts("gather", "w", "x"),
    ("conv", "grad_input"): Parts("scatter", "w", "dy"),
    ("conv", "grad_weight"): Parts("filter", "dy", "x"),
    ("conv_transpose", "forward"): Parts("scatter", "w", "x"),
    ("conv_transpose", "grad_input"): Parts("gather", "w", "dy"),
    ("conv_transpose", "grad_weight"): Parts("filter", "x", "dy"),
}


def problem_of(kind, direction, rank=1):
    more = {1: "", 2: "x3", 3: "x3x3"}[rank]
    text = f"{kind}{rank}d.{direction} {SMALL[kind].format(more)}".replace(".forward", "")
    return parse_problem_text(text)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kind", "direction"), EXPECTED)
def test_every_kind_and_direction_has_its_form_and_parts(kind, direction, rank):
    assert find_parts(problem_of(kind, direction, rank)) == EXPECTED[kind, direction]


@pytest.mark.parametrize(("kind", "direction"), EXPECTED)
def test_the_parts_are_the_operands_and_a_row_belongs_to_one_channel_of_the_result(kind, direction):
    problem = problem_of(kind, direction)
    parts = find_parts(problem)
    assert {parts.rows_operand, parts.source_operand} == set(problem.operand_shapes)
    # An element of the rows is read by one channel (or filter) of results only; one of the source by several.
    readers = {name: {} for name in problem.operand_shapes}
    channel_axis = 0 if parts.form == "filter" else 1
    for output, terms in list_terms(problem).items():
        for term in terms:
            for name, at in term.items():
                readers[name].setdefault(at, set()).add(output[channel_axis])
    assert max(len(channels) for channels in readers[parts.rows_operand].values()) == 1
    assert max(len(channels) for channels in readers[parts.source_operand].values()) > 1


@pytest.mark.parametrize(("kind", "direction"), EXPECTED)
def test_only_a_scatter_leaves_taps_out_between_its_strides(kind, direction):
    # Of stride 2 and no padding: a gather's outputs and a filter's have all terms, a scatter's only every other tap.
    problem = problem_of(kind, direction)
    counts = {len(terms) for terms in list_terms(problem).values()}
    assert (len(counts) > 1) == (find_parts(problem).form == "scatter")
