"""Index relations: every listed hypothesis predicts what its sentence says, computed with NumPy by hand."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from naive_convolution import by_row, compute, convolve, find_begins, finish, make_integers, observe, predict
from samebits.mechanisms.positions.geometry import list_geometry_hypotheses
from samebits.problems import parse_problem_text

PROBLEMS = [
    "conv1d x=2x3x9 w=4x3x3 padding=1:2 stride=2 dilation=2",
    "conv1d x=1x1x6 w=1x1x1 padding=2",
    "conv1d x=1x2x7 w=2x2x2",
    "conv1d x=1x2x6 w=2x2x3 padding=3:1",
    "conv2d x=1x4x7x6 w=4x2x3x2 padding=1x0:1 stride=2x1 dilation=1x2 groups=2 bias",
    "conv2d x=2x2x6x6 w=3x2x3x3 padding=1 dilation=2 then=relu",
    "conv2d x=1x2x6x6 w=3x2x3x3 padding=same_lower stride=2",
    "conv2d x=1x1x6x5 w=2x1x1x3 padding=0x1",
    "conv3d x=1x2x4x5x4 w=2x2x2x3x1 padding=1x0x2 stride=1x2x3 dilation=2x1x1",
    "conv2d.grad_input x=1x2x6x6 w=3x2x3x3 padding=1 stride=2 dilation=1x2",
    "conv2d.grad_weight x=2x4x6x6 w=4x2x3x2 padding=1 stride=1x2 groups=2",
    "conv_transpose1d x=2x4x5 w=4x3x3 padding=1 stride=2 groups=2 bias",
    "conv_transpose2d x=1x2x4x3 w=2x3x3x2 padding=1x0:1 stride=2x1 output_padding=1x0",
    "conv_transpose2d x=1x3x4x4 w=3x2x4x4 padding=2 stride=3 output_padding=2x1 bias",
    "conv_transpose1d.grad_input x=1x3x6 w=3x2x4 padding=2:1",
    "conv_transpose1d.grad_weight x=2x3x5 w=3x2x3 padding=1 dilation=2",
]
AXES = {1: "w", 2: "hw", 3: "dhw"}
MODES = {"circularly": "wrap", "by reflection": "reflect", "with the edge's values": "edge"}


def compute_moved(problem, operands, says):
    """`pads 0 instead of 1 at the beginning of axis h, ...`: asserts the second number, uses the first."""
    begins = list(find_begins(problem))
    for new, old, name in re.findall(r"(-?\d+) instead of (-?\d+) at the beginning of axis (\w)", says):
        axis = AXES[len(begins)].index(name)
        assert begins[axis] == int(old)
        begins[axis] = int(new)
    return compute(problem, operands, begins=begins)


def compute_flipped(problem, operands, says):
    names = re.search(r"along (.*) \(", says)[1].split(" and ")
    axes = [2 + AXES[problem.rank].index(name[1]) for name in names]
    if problem.direction == "grad_weight":
        return np.flip(convolve(problem, operands), axes)
    return compute(problem, {**operands, "w": np.flip(operands["w"], axes)})


def compute_stepped(problem, operands, says):
    begins, strides, dilations = list(find_begins(problem)), list(problem.stride), list(problem.dilation)
    what, _, centred = says.partition(", ")
    name = re.search(r"(?:along|(?:stride|dilation|padding) of) (\w)\b", what)
    axes = [AXES[problem.rank].index(name[1])] if name else list(range(problem.rank))
    if what.startswith("exchanges the "):
        begins = begins[::-1] if "paddings" in what else begins
        strides = strides[::-1] if "strides" in what else strides
        dilations = dilations[::-1] if "dilations" in what else dilations
    elif what.endswith(" for each other"):
        own = {"stride": strides, "dilation": dilations, "padding": begins}
        one, other = re.fullmatch(r"takes the (\w+) and (\w+) for each other", what).groups()
        mixed = {**own, one: own[other], other: own[one]}
        strides, dilations, begins = mixed["stride"], mixed["dilation"], mixed["padding"]
    elif what.startswith("ignores stride and "):
        strides = [1] * problem.rank
        begins, dilations = (
            (begins, [1] * problem.rank) if what.endswith("dilation") else ([0] * problem.rank, dilations)
        )
    elif what.endswith("on all axes"):
        strides = [strides[axes[0]]] * problem.rank if "stride" in what else strides
        dilations = [dilations[axes[0]]] * problem.rank if "dilation" in what else dilations
        begins = [begins[axes[0]]] * problem.rank if "padding" in what else begins
    elif what.startswith("ignores the stride"):
        strides = [1 if a in axes else s for a, s in enumerate(strides)]
    else:
        assert what.startswith(("ignores the dilation", "ignores dilation and padding")), says
        if what == "ignores dilation and padding":
            begins = [0] * problem.rank
        if centred:
            # A window that is shorter by so many taps begins half as many later.
            begins = [
                b - (d - 1) * (k - 1) // 2 if a in axes else b
                for a, (b, d, k) in enumerate(zip(begins, dilations, problem.w[2:], strict=True))
            ]
        dilations = [1 if a in axes else d for a, d in enumerate(dilations)]
    return compute(problem, operands, begins=begins, strides=strides, dilations=dilations)


def compute_padded(problem, operands, says):
    """None where np.pad refuses, or would reflect more than once."""
    words, names = re.fullmatch(r"pads (.*) along (.*) instead of with zeros", says).groups()
    begins, widths = list(find_begins(problem)), [(0, 0), (0, 0)]
    for a, name in enumerate(AXES[problem.rank]):
        end = (problem.y_shape[2 + a] - 1) * problem.stride[a] + (problem.w[2 + a] - 1) * problem.dilation[a] + 1
        end = problem.padding[a][1] if not isinstance(problem.padding, str) else end - problem.x[2 + a] - begins[a]
        chosen = name in names.split(" and ")
        widths.append((begins[a], end) if chosen else (0, 0))
        begins[a] = 0 if chosen else begins[a]
    if MODES[words] == "reflect" and any(max(p) >= s for p, s in zip(widths, problem.x, strict=True)):
        return None
    x = np.pad(operands["x"], widths, mode=MODES[words])
    return finish(problem, convolve(problem, {**operands, "x": x}, begins=begins), operands.get("bias"))


def compute_filled(problem, operands, says):
    """The result without output padding, and whatever is said before or behind it."""
    smaller = replace(problem, output_padding=(0,) * problem.rank)
    sums = convolve(smaller, operands)
    ahead = says.endswith("the beginning")
    widths = [(0, 0), (0, 0), *((n, 0) if ahead else (0, n) for n in problem.output_padding)]
    inside = np.pad(np.ones(sums.shape, bool), widths)
    finished = finish(problem, np.pad(sums, widths), operands.get("bias"))
    return np.where(inside, finished, 0) if "zeros" in says else finished


def compute_what_is_said(problem, operands, says):
    if "at the beginning of" in says:
        return compute_moved(problem, operands, says)
    if says.startswith("reads the kernel backwards"):
        return compute_flipped(problem, operands, says)
    if "output padding" in says:
        return compute_filled(problem, operands, says)
    if says.endswith("instead of with zeros"):
        return compute_padded(problem, operands, says)
    return compute_stepped(problem, operands, says)


def listed(text):
    problem = parse_problem_text(text)
    return problem, list(list_geometry_hypotheses(problem))


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_hypothesis_predicts_what_it_says(text):
    problem, hypotheses = listed(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    for hypothesis in hypotheses:
        expected = compute_what_is_said(problem, operands, hypothesis.says)
        predicted = predict(hypothesis, observation)
        if expected is None:
            assert predicted is None, hypothesis.says
        else:
            assert np.array_equal(predicted, by_row(problem, expected)), hypothesis.says


@pytest.mark.parametrize("text", PROBLEMS)
def test_what_alters_the_problem_computes_the_prediction(text):
    problem, hypotheses = listed(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    for hypothesis in hypotheses:
        altered = hypothesis.alter(observation) if hypothesis.alter else None
        if altered is None:
            continue
        other, arrays = altered
        assert other.out_shape == problem.out_shape
        exact = compute(other, {n: a.astype(np.int64) for n, a in arrays.items()})
        assert np.array_equal(predict(hypothesis, observation), by_row(problem, exact)), hypothesis.says


@pytest.mark.parametrize("text", PROBLEMS)
def test_no_sentence_is_said_twice_and_none_says_what_was_declared(text):
    _, hypotheses = listed(text)
    said = [h.says for h in hypotheses]
    assert len(set(said)) == len(said)
    assert all(h.verdict == "wrong" for h in hypotheses)
    for new, old in (pair for says in said for pair in re.findall(r"(-?\d+) instead of (-?\d+)", says)):
        assert new != old


@pytest.mark.parametrize("text", [p for p in PROBLEMS if "same" not in p])
def test_every_split_of_the_padding_occurs_and_a_lost_and_a_doubled_one(text):
    problem, hypotheses = listed(text)
    said = {h.says for h in hypotheses}
    word = "crops" if problem.is_transposed else "pads"
    for name, (begin, end) in zip(AXES[problem.rank], problem.padding, strict=True):
        for new in {*range(begin + end + 1), 2 * begin, 0} - {begin}:
            assert f"{word} {new} instead of {begin} at the beginning of axis {name}" in said


def test_of_small_paddings_every_combination_of_splits_occurs():
    _, hypotheses = listed("conv2d x=1x1x6x6 w=1x1x3x3 padding=1:0x0:1")
    said = {h.says for h in hypotheses}
    for h, w in itertools.product((0, 1), (0, 1)):
        parts = [f"{n} instead of {o} at the beginning of axis {a}" for n, o, a in ((h, 1, "h"), (w, 0, "w")) if n != o]
        assert not parts or f"pads {', '.join(parts)}" in said


def test_long_paddings_leave_the_likely_begins():
    _, hypotheses = listed("conv1d x=1x1x200 w=1x1x101 padding=60:40")
    begins = {int(m[1]) for h in hypotheses if (m := re.match(r"pads (-?\d+) instead of 60", h.says))}
    assert begins >= {0, 1, 50, 100, 40, 120, 61}
    assert len(begins) < 20


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("conv2d x=1x1x6x6 w=1x1x3x3", ["kh and kw", "kh", "kw"]),
        ("conv2d x=1x1x6x6 w=1x1x1x3", ["kw"]),
        ("conv2d x=1x1x6x6 w=1x1x1x1", []),
        (
            "conv3d x=1x1x4x4x4 w=1x1x2x2x2",
            ["kd and kh and kw", "kd and kh", "kd and kw", "kh and kw", "kd", "kh", "kw"],
        ),
    ],
)
def test_kernels_are_read_backwards_along_every_choice_of_axes(text, wanted):
    _, hypotheses = listed(text)
    assert [m[1] for h in hypotheses if (m := re.match(r"reads the kernel backwards along (.*) \(", h.says))] == wanted


def test_attributes_that_were_not_given_are_not_ignored():
    _, hypotheses = listed("conv2d x=1x1x6x6 w=1x1x3x3")
    assert not [h.says for h in hypotheses if h.says.startswith(("ignores", "exchanges", "uses"))]


def test_only_a_forward_convolution_with_padding_is_padded_otherwise():
    for text in PROBLEMS:
        problem, hypotheses = listed(text)
        padded = any(b or e for b, e in problem.padding) if not isinstance(problem.padding, str) else True
        wanted = problem.direction == "forward" and not problem.is_transposed and padded
        assert any(h.says.endswith("instead of with zeros") for h in hypotheses) is wanted, text


def test_circular_padding_is_predicted_in_numbers():
    # 1 2 3 4 with one tap on either side: at the beginning 4 + 1 + 2, at the end 3 + 4 + 1.
    problem = parse_problem_text("conv1d x=1x1x4 w=1x1x3 padding=1")
    operands = {"x": np.array([[[1, 2, 3, 4]]]), "w": np.ones((1, 1, 3), np.int64)}
    hypotheses = {h.says: h for h in list_geometry_hypotheses(problem)}
    observation = observe(problem, operands)
    for words, expected in (
        ("circularly", [7, 6, 9, 8]),
        ("by reflection", [5, 6, 9, 10]),
        ("with the edge's values", [4, 6, 9, 11]),
    ):
        hypothesis = hypotheses[f"pads {words} along w instead of with zeros"]
        assert predict(hypothesis, observation).tolist() == [expected]
