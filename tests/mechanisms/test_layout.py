"""Layouts and shuffled channels: every listed hypothesis predicts what its sentence says, done by hand on arrays."""

import re
from dataclasses import replace

import numpy as np
import pytest

from naive_convolution import by_row, compute, make_integers, observe, predict
from samebits.mechanisms.positions.layout import list_layout_hypotheses
from samebits.problems import parse_problem_text

PROBLEMS = [
    "conv1d x=2x3x9 w=4x3x3 padding=1",
    "conv1d x=1x1x6 w=1x1x1",
    "conv2d x=2x6x4x5 w=6x3x2x2 groups=2 bias",
    "conv2d x=1x4x3x3 w=4x4x3x3 padding=1 then=relu",
    "conv2d x=4x4x4x4 w=4x4x2x2",
    "conv2d x=1x6x4x4 w=6x1x3x3 groups=6",
    "conv3d x=2x2x3x2x4 w=3x2x1x2x2",
    "conv1d.grad_weight x=2x6x9 w=2x3x3 groups=2",
    "conv2d.grad_weight x=2x4x4x4 w=6x2x2x2 groups=2",
    "conv2d.grad_input x=2x4x4x4 w=6x2x2x2 groups=2",
    "conv_transpose1d x=2x6x5 w=6x2x3 groups=3 bias",
    "conv_transpose1d.grad_weight x=2x6x5 w=6x2x3 groups=3",
    "conv_transpose2d.grad_input x=1x4x3x3 w=4x2x2x2 groups=2",
    "conv1d.grad_weight x=3x12x9 w=8x3x3 groups=4",
]


def axes_of(letters, declared):
    return [declared.index(letter) for letter in letters]


def lay_out(array, letters, declared):
    """The memory of an array laid out along `letters`, taken for one laid out as declared."""
    return np.ascontiguousarray(array.transpose(axes_of(letters, declared))).ravel().reshape(array.shape)


def take_for(array, letters, declared):
    """The memory of an array laid out as declared, taken for one laid out along `letters`."""
    order = axes_of(letters, declared)
    misread = array.ravel().reshape([array.shape[a] for a in order])
    return np.stack([misread]).transpose([0, *(1 + order.index(a) for a in range(array.ndim))])[0]


def shuffle(array, says, groups, axis):
    parts = np.moveaxis(array, axis, 0)
    size = len(parts) // groups
    if says.startswith("interleaves"):
        sequence = [g * size + i for i in range(size) for g in range(groups)]
    elif says.startswith("separates"):
        sequence = [i * groups + g for g in range(groups) for i in range(size)]
    else:
        assert says.endswith("with the groups in reverse")
        sequence = [g * size + i for g in reversed(range(groups)) for i in range(size)]
    return np.moveaxis(np.stack([parts[i] for i in sequence]), 0, axis)


def mirror(array, axes):
    return np.flip(array, [int(axis) for axis in axes.split(" and ")])


def change_operand(problem, array, name, says):
    declared = ("OI" if name == "w" else "NC") + {1: "W", 2: "HW", 3: "DHW"}[problem.rank]
    if match := re.fullmatch(rf"reads the memory of {name}, laid out as (\w+), as (\w+)", says):
        one, other = match.groups()
        return lay_out(array, one, declared) if other == declared else take_for(array, other, declared)
    if match := re.fullmatch(rf"exchanges (\w) and (\w) of {name}", says):
        return array.swapaxes(*axes_of("".join(match.groups()), declared))
    if match := re.fullmatch(rf"takes {name} mirrored along ax[ei]s ([\d and]+)", says):
        return mirror(array, match[1])
    if match := re.fullmatch(rf"reads {name} from its beginning again after every ([\d,]+) elements, .*", says):
        size = int(match[1].replace(",", ""))
        return np.array([array.flat[i % size] for i in range(array.size)]).reshape(array.shape)
    if match := re.fullmatch(rf"reads the rows of {name} (\d+) elements apart, where {array.shape[-1]} are", says):
        return read_apart(array, int(match[1]))
    if says == f"reads the first group's channels of {name} in every group":
        count = array.shape[1] // problem.groups
        return np.stack([array[:, i % count] for i in range(array.shape[1])], axis=1)
    plain = {
        f"uses the first of {name} for all (stride 0)": lambda: np.stack([array[0]] * len(array)),
        f"takes the next of {name} in place of each": lambda: np.concatenate([array[1:], array[:1]]),
        f"takes {name} in reverse": lambda: np.stack(list(array)[::-1]),
        f"takes the channels of {name} in reverse": lambda: np.flip(array, 1),
    }
    if says in plain:
        return plain[says]()
    return shuffle(array, says, problem.groups, 0 if name == "w" else 1)


def change_result(problem, result, says):
    declared = "OI" if problem.direction == "grad_weight" else "NC"
    declared += {1: "W", 2: "HW", 3: "DHW"}[problem.rank]
    if match := re.fullmatch(r"returns the result mirrored along ax[ei]s ([\d and]+)", says):
        return mirror(result, match[1])
    if match := re.fullmatch(r"returns the result turned by a quarter (.*) the clock", says):
        turned = np.swapaxes(result, -1, -2)
        # Against the clock the last column becomes the first row.
        return np.flip(turned, -2 if match[1] == "against" else -1)
    if match := re.fullmatch(r"returns the result with rows and columns exchanged in each tile of (\d+) x \d+", says):
        size, moved = int(match[1]), result.copy()
        for at in np.ndindex(result.shape):
            top, left = at[-2] // size * size, at[-1] // size * size
            moved[at] = result[(*at[:-2], top + at[-1] - left, left + at[-2] - top)]
        return moved
    if match := re.fullmatch(r"writes its result from the beginning again after every ([\d,]+) elements, .*", says):
        size, written = int(match[1].replace(",", "")), np.zeros(result.size, result.dtype)
        for i, value in enumerate(result.flat):
            written[i % size] = value
        return written.reshape(result.shape)
    if match := re.fullmatch(r"returns the phases of its dilation along (.*) one after the other, not inter.*", says):
        for letter in match[1].split(" and "):
            axis = 2 + declared[2:].index(letter.upper())
            step, size = problem.dilation[axis - 2], result.shape[axis]
            order = sorted(range(size), key=lambda i, step=step: (i % step, i))
            result = np.take(result, order, axis)
        return result
    if match := re.fullmatch(r"returns the result laid out as (\w+)", says):
        return lay_out(result, match[1], declared)
    if match := re.fullmatch(r"returns the result as if its memory were (\w+)", says):
        return take_for(result, match[1], declared)
    if match := re.fullmatch(r"exchanges axes (\d) and (\d) of the result", says):
        return result.swapaxes(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"returns the result shifted by (-?1) along axis (\d)", says):
        axis, size = int(match[2]), result.shape[int(match[2])]
        return np.take(result, [(i - int(match[1])) % size for i in range(size)], axis)
    assert "of the result" in says
    return shuffle(result, says, problem.groups, 0 if problem.direction == "grad_weight" else 1)


def compute_what_is_said(problem, operands, says):
    if "result" in says or "phases" in says:
        return change_result(problem, compute(problem, operands), says)
    if "the channels of all groups" in says:
        w = read_densely(operands["w"], problem, says)
        return compute(replace(problem, groups=1, w=w.shape), {**operands, "w": w})
    name = "w" if "the filters" in says else re.search(r"\b(?:of|takes) (x|w|dy)\b", says)[1]
    return compute(problem, {**operands, name: change_operand(problem, operands[name], name, says)})


def read_densely(w, problem, says):
    """Filter by filter and channel by channel: what a kernel without groups finds where it looks for a weight."""
    filters, own, *taps = w.shape
    channels, flat = own * problem.groups, list(w.ravel())
    dense = np.zeros((filters, channels, *taps), w.dtype)
    for number, at in enumerate(np.ndindex(dense.shape)):
        if says.endswith("own group"):
            dense[at] = w[(at[0], at[1] % own, *at[2:])]
        elif says.endswith("again and again"):
            dense[at] = flat[number % len(flat)]
        elif number < len(flat):
            dense[at] = flat[number]
    return dense


def read_apart(array, pitch):
    """Element by element: each plane from its own beginning, each row so far behind the one before."""
    read = np.empty_like(array)
    plane = array.shape[-1] * array.shape[-2]
    for at in np.ndindex(*array.shape):
        begin = int(np.ravel_multi_index(at[:-2], array.shape[:-2])) * plane
        read[at] = array.flat[(begin + at[-2] * pitch + at[-1]) % array.size]
    return read


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("conv1d x=1x4x9000 w=2x4x1", "reads x from its beginning again after every 32,768"),
        ("conv1d x=2x1x9000 w=4x1x1", "writes its result from the beginning again after every 65,536"),
        ("conv1d x=2x1x9000 w=4x1x1", "writes its result from the beginning again after every 32,768"),
        ("conv2d x=1x1x8x8 w=2x1x1x1", "returns the result with rows and columns exchanged in each tile of 4 x 4"),
        ("conv2d x=1x1x5x5 w=2x1x1x1", "returns the result turned by a quarter against the clock"),
    ],
)
def test_wraps_turns_and_tiles_do_what_they_say(text, what):
    problem, hypotheses = listed(text)
    operands = make_integers(problem)
    (hypothesis,) = (h for h in hypotheses if h.says.startswith(what))
    expected = (
        compute(problem, {**operands, "x": change_operand(problem, operands["x"], "x", hypothesis.says)})
        if what.startswith("reads")
        else change_result(problem, compute(problem, operands), hypothesis.says)
    )
    assert np.array_equal(predict(hypothesis, observe(problem, operands)), by_row(problem, expected))


def listed(text):
    problem = parse_problem_text(text)
    return problem, list(list_layout_hypotheses(problem))


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_hypothesis_predicts_what_it_says(text):
    problem, hypotheses = listed(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    for hypothesis in hypotheses:
        expected = compute_what_is_said(problem, operands, hypothesis.says)
        assert np.array_equal(predict(hypothesis, observation), by_row(problem, expected)), hypothesis.says


@pytest.mark.parametrize("text", PROBLEMS)
def test_misread_operands_in_the_problem_compute_the_prediction(text):
    problem, hypotheses = listed(text)
    observation = observe(problem, make_integers(problem))
    for hypothesis in hypotheses:
        assert (hypothesis.alter is None) == ("result" in hypothesis.says)
        if hypothesis.alter is None:
            continue
        other, arrays = hypothesis.alter(observation)
        if "all groups" in hypothesis.says:
            assert other == replace(problem, groups=1, w=arrays["w"].shape)
            continue
        assert other == problem
        assert {n: (a.shape, a.dtype) for n, a in arrays.items()} == {
            n: (a.shape, a.dtype) for n, a in observation.operands.items()
        }
        exact = compute(other, {n: a.astype(np.int64) for n, a in arrays.items()})
        assert np.array_equal(predict(hypothesis, observation), by_row(problem, exact)), hypothesis.says


@pytest.mark.parametrize("text", PROBLEMS)
def test_no_sentence_is_said_twice_and_no_two_do_the_same_to_one_array(text):
    problem, hypotheses = listed(text)
    said = [h.says for h in hypotheses]
    assert len(set(said)) == len(said)
    operands = {n: np.arange(np.prod(s)).reshape(s) for n, s in problem.operand_shapes.items()}
    result = np.arange(np.prod(problem.out_shape)).reshape(problem.out_shape)
    done = set()
    for says in said:
        if "all groups" in says:
            continue
        if "result" in says:
            name, before, after = "result", result, change_result(problem, result, says)
        else:
            name = "w" if "the filters" in says else re.search(r"\b(?:of|takes) (x|w|dy)\b", says)[1]
            before, after = operands[name], change_operand(problem, operands[name], name, says)
        assert (name, after.tobytes()) not in done, says
        assert not np.array_equal(before, after), f"{says}: nothing is changed"
        done.add((name, after.tobytes()))


def said_of(text):
    return {h.says for h in list_layout_hypotheses(parse_problem_text(text))}


def test_channels_last_memory_is_supposed_of_every_operand_and_the_result():
    said = said_of("conv2d x=2x3x4x5 w=6x3x2x2")
    assert {
        "reads the memory of x, laid out as NHWC, as NCHW",
        "reads the memory of x, laid out as NCHW, as NHWC",
        "reads the memory of w, laid out as HWIO, as OIHW",
        "reads the memory of w, laid out as OIHW, as HWIO",
        "returns the result laid out as NHWC",
        "returns the result as if its memory were NHWC",
    } <= said


X, DY, FILTERS, RESULT = "the channels of x", "the channels of dy", "the filters", "the channels of the result"


@pytest.mark.parametrize(
    ("text", "shuffled"),
    [
        ("conv1d x=2x6x9 w=4x3x3 groups=2", {X, FILTERS, RESULT}),
        ("conv1d x=2x2x9 w=4x1x3 groups=2", {FILTERS, RESULT}),
        ("conv1d.grad_input x=2x6x9 w=4x3x3 groups=2", {DY, FILTERS, RESULT}),
        ("conv1d.grad_weight x=2x6x9 w=4x3x3 groups=2", {X, DY, "the filters of the result"}),
        ("conv1d.grad_weight x=2x6x9 w=2x3x3 groups=2", {X}),
        ("conv_transpose1d x=2x6x9 w=6x3x3 groups=2", {X, FILTERS, RESULT}),
        ("conv_transpose1d.grad_weight x=2x6x9 w=6x1x3 groups=2", {X, "the filters of the result"}),
        ("conv1d x=2x6x9 w=4x6x3", set()),
        ("conv1d x=2x4x9 w=4x1x3 groups=4", set()),
    ],
)
def test_groups_are_shuffled_where_channels_of_several_groups_stand(text, shuffled):
    # As many channels as groups have nothing to shuffle but the groups, which is the channels in reverse.
    matches = [re.match(r"takes (.*) with the groups in reverse", says) for says in said_of(text)]
    assert {m[1] for m in matches if m} == shuffled


def test_one_element_leaves_nothing_to_misread():
    assert said_of("conv2d x=1x1x1x1 w=1x1x1x1") == set()


def test_the_lists_of_large_problems_end_and_read_no_array():
    said = said_of("conv2d x=64x256x56x56 w=256x256x3x3 padding=1")
    assert 20 < len(said) < 80
