"""Problem texts round-trip, and errors point at what cannot be read."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems import Epilogue, Problem, format_problem, parse_problem_text
from samebits.problems.problem import CONVOLUTIONS, DTYPES, PRODUCTS

PRINTED = [
    "conv2d x=1x3x224x224 w=64x3x7x7 stride=2 padding=3 dtype=float32",
    "conv1d x=1x1x7 w=1x1x5 bias dtype=float32",
    "conv2d.grad_weight x=3778x24x1x50 w=24x24x1x5 stride=1x5 dtype=float16",
    "conv_transpose2d x=1x4x8x8 w=4x3x3x3 stride=2 padding=1 output_padding=1 dtype=float32",
    "conv2d x=1x3x512x512 w=16x3x3x3 padding=same_upper dtype=float32 then=clip(0,6)",
    "conv2d x=1x4x9x9 w=8x2x3x3 padding=1:0x1:0 dilation=2 groups=2 dtype=bfloat16 out=float32 then=relu",
]


@pytest.mark.parametrize("text", PRINTED)
def test_a_printed_text_is_printed_again_unchanged(text):
    assert format_problem(parse_problem_text(text)) == text


@st.composite
def problems(draw):
    kind = draw(st.sampled_from(CONVOLUTIONS))
    rank, transposed = int(kind[-2]), kind.startswith("conv_t")
    small = st.integers(1, 4)
    sizes = st.lists(st.integers(1, 12), min_size=rank, max_size=rank)
    per_axis = st.lists(small, min_size=rank, max_size=rank).map(tuple)
    groups = draw(small)
    a, b = draw(small), draw(small)
    direction = draw(st.sampled_from(["forward", "grad_input", "grad_weight"]))
    forward = direction == "forward"
    then = draw(st.sampled_from([None, Epilogue("relu"), Epilogue("clip", -0.5, 6.25), Epilogue("clip", -1e30, 1e-30)]))
    pads = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=rank, max_size=rank).map(tuple)
    fields = {
        "kind": kind,
        "direction": direction,
        "x": (draw(small), a * groups, *draw(sizes)),
        "w": ((a * groups, b) if transposed else (b * groups, a)) + tuple(draw(sizes)),
        "bias": forward and draw(st.booleans()),
        "stride": draw(per_axis),
        "padding": draw(st.one_of(pads, st.sampled_from(["same_upper", "same_lower"]))),
        "dilation": draw(per_axis),
        "groups": groups,
        "dtype": draw(st.sampled_from(DTYPES)),
        "out": draw(st.sampled_from(["", *DTYPES])),
        "then": then if forward else None,
    }
    if transposed:
        fields["output_padding"] = tuple(draw(st.integers(0, 2)) for _ in range(rank))
    try:
        return Problem(**fields)
    except ProblemShapeError:
        return Problem(kind="conv1d", x=(1, 1, 7), w=(1, 1, 5))


@st.composite
def products(draw):
    kind = draw(st.sampled_from(PRODUCTS))
    sizes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
    batch, m, k, n = draw(sizes), draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    direction = draw(st.sampled_from(["forward", "grad_input", "grad_weight"])) if kind == "linear" else "forward"
    fields = {"dtype": draw(st.sampled_from(DTYPES)), "out": draw(st.sampled_from(["", *DTYPES]))}
    if direction == "forward":
        fields |= {
            "bias": kind == "linear" and draw(st.booleans()),
            "then": draw(st.sampled_from([None, Epilogue("relu")])),
        }
    if kind == "linear":
        return Problem(kind, (*batch, k), (n, k), direction, **fields)
    # Either operand repeats some of the other's batch, lacks it, or is a vector.
    repeats = [draw(st.sampled_from([(s, s), (s, 1), (1, s)])) for s in batch]
    x, w = ([pair[i] for pair in repeats] for i in (0, 1))
    x = draw(st.sampled_from([(*x, m, k), (m, k), (k,)]))
    w = draw(st.sampled_from([(*w, k, n), (k, n), (k,)]))
    return Problem(kind, x, w, **fields)


@given(st.one_of(problems(), products()))
def test_every_problem_is_read_back_from_its_text(problem):
    assert parse_problem_text(format_problem(problem)) == problem


@given(st.text(alphabet=string.printable, max_size=80))
def test_garbage_raises_only_errors_of_ours(text):
    with pytest.raises((ProblemTextError, ProblemShapeError)):
        parse_problem_text("conv2d " + text)


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "nothing there"),
        ("conv4d x=1", 1, "unknown kind 'conv4d'"),
        ("net.onx x=1", 1, "'net.onx' is no kind of problem, and no model file that is there"),
        ("conv2d.backward x=1", 8, "unknown direction"),
        ("conv1d x=1x1x7 w=1x1x5 strid=2", 24, "unknown key 'strid'"),
        ("conv1d x=1x1x7 w=1x1x5 stride=2 stride=2", 33, "given twice"),
        ("conv1d x=1x1x7 w=1x1x", 22, "whole number"),
        ("conv1d x=1x1x7 w=1x1x5 padding=1:b", 34, "whole number"),
        ("conv1d x=1x1x7 w=1x1x5 dtype=float31", 30, "unknown dtype"),
        ("conv1d x=1x1x7 w=1x1x5 then=clip(6,0)", 34, "low <= high"),
        ("conv1d x=1x1x7 w=1x1x5 then=tanh", 29, "relu or clip"),
        ("conv1d x=1x1x7", 15, "w= is missing"),
        ("conv1d x=1x1x7 w=1x1x5 groups=-1", 31, "whole number"),
        ("conv1d x=1x1x99999999999999999999 w=1x1x5", 14, "whole number"),
    ],
)
def test_the_position_of_what_cannot_be_read_is_given(text, column, says):
    with pytest.raises(ProblemTextError, match=rf"at column {column}: .*{says}"):
        parse_problem_text(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("conv2d x=1x3x8x8 w=4x2x3x3", "3 channels"),
        ("conv2d x=1x3x8x8 w=4x3x9x3", "no output"),
        ("conv2d x=1x3x8 w=4x3x3x3", "4 sizes"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 stride=1x1x1", "2 values of stride"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 stride=0", "at least 1"),
        ("conv2d x=1x4x8x8 w=3x2x3x3 groups=2", "must divide"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 output_padding=1", "transposed kinds only"),
        ("conv_transpose2d x=1x3x8x8 w=3x4x3x3 stride=2 output_padding=2", "below stride or dilation"),
        ("conv2d.grad_input x=1x3x8x8 w=4x3x3x3 bias", "neither bias nor"),
        ("conv2d x=1000000000000x3x8x8 w=4x3x3x3", "2\\^40"),
        (f"matmul x={'1x' * 63}2x3 w=3x2", "x has 65 sizes; arrays have at most 64 axes"),
        (f"linear x=3 w=4x{'1x' * 62}3", "linear needs w with 2 sizes"),
    ],
)
def test_what_does_not_fit_is_said(text, says):
    with pytest.raises(ProblemShapeError, match=says):
        parse_problem_text(text)


@pytest.mark.parametrize(
    ("text", "out_shape", "pads"),
    [
        ("conv2d x=1x3x5x6 w=4x3x3x3 padding=same_upper stride=2", (1, 4, 3, 3), ((1, 1), (0, 1))),
        ("conv2d x=1x3x5x6 w=4x3x3x3 padding=same_lower stride=2", (1, 4, 3, 3), ((1, 1), (1, 0))),
        ("conv_transpose1d x=1x4x5 w=4x3x4 padding=same_upper stride=2", (1, 3, 10), ((1, 1),)),
        ("conv_transpose1d x=1x4x5 w=4x3x2 padding=same_upper stride=3", (1, 3, 15), ((0, 0),)),
        ("conv_transpose2d x=1x4x8x8 w=4x3x3x3 stride=2 padding=1 output_padding=1", (1, 3, 16, 16), ((1, 1), (1, 1))),
        ("conv1d x=1x1x50 w=1x1x5 stride=5", (1, 1, 10), ((0, 0),)),
    ],
)
def test_shapes_and_padding_are_those_of_the_formulas(text, out_shape, pads):
    problem = parse_problem_text(text)
    assert problem.out_shape == out_shape
    assert tuple((a.pad_begin, a.pad_end) for a in problem.axes) == pads
