"""Kernels of plain NumPy whose faults may touch nothing but padding: conditions that no further problem refutes."""

import numpy as np
import pytest

import samebits
from samebits.questions.reduce.condition_search import FoundCondition
from samebits.questions.reduce.conditions import Atom, Condition

# An upper limit, which a machine at work must not reach.
MOST_S = 240


def convolve(x, w, stride, pads, dilation):
    """One group, added tap by tap in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *pads))
    reach = [(size - 1) * d + 1 for size, d in zip(w.shape[2:], dilation, strict=True)]
    out = [max((size - r) // s + 1, 0) for size, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for a, b in np.ndindex(*w.shape[2:]):
        at = tuple(
            slice(i * d, i * d + size * s, s) for i, d, size, s in zip((a, b), dilation, out, stride, strict=True)
        )
        y += np.einsum("nihw,oi->nohw", x[(..., *at)][:, :, : out[0], : out[1]], w[:, :, a, b])
    return y


def read(problem, operands):
    if problem.groups > 1:
        raise NotImplementedError("one group")
    pads = [(axis.pad_begin, axis.pad_end) for axis in problem.axes]
    given = {"x": operands["x"], "w": operands["w"], "stride": problem.stride, "pads": pads}
    return {**given, "dilation": problem.dilation}


def fit(result, shape):
    """A result of another size in an array of zeros."""
    whole = np.zeros(shape)
    at = tuple(slice(0, min(pair)) for pair in zip(result.shape, shape, strict=True))
    whole[at] = result[at]
    return whole


def lose_corner(problem, operands):
    """In tiles of two by two: the last one of odd sizes is not written."""
    y = convolve(**read(problem, operands))
    if y.shape[2] % 2 and y.shape[3] % 2:
        y[:, :, -1, -1] = 0
    return y


def take_one_stride(problem, operands):
    """The height's for both axes."""
    given = read(problem, operands)
    return fit(convolve(**{**given, "stride": (problem.stride[0],) * 2}), problem.y_shape)


def pad_as_before(problem, operands):
    """What is before an axis on both of its ends."""
    given = read(problem, operands)
    return fit(convolve(**{**given, "pads": [(before, before) for before, _ in given["pads"]]}), problem.y_shape)


def keep_twenty(problem, operands):
    """A buffer for a padded row that holds twenty numbers."""
    given = read(problem, operands)
    x = np.pad(operands["x"], ((0, 0), (0, 0), (0, 0), given["pads"][1]))
    x[..., 20:] = 0
    return convolve(**{**given, "x": x, "pads": [given["pads"][0], (0, 0)]})


@pytest.mark.parametrize(
    ("kernel", "start", "conditions"),
    [
        (lose_corner, "conv2d x=1x3x9x9 w=4x3x3x3 padding=1", {"the number of positions of an output channel is odd"}),
        (
            take_one_stride,
            "conv2d x=1x3x9x12 w=4x3x3x3 stride=1x2 padding=1",
            {"output width > 1", "stride along the height differs from stride along the width"},
        ),
        (
            pad_as_before,
            "conv2d x=1x3x9x9 w=4x3x3x3 padding=0:1x1:2",
            {"kernel positions > 1", "padding after, on some axis, > before it"},
        ),
        (
            keep_twenty,
            "conv2d x=1x3x9x25 w=4x3x3x3 padding=1",
            {"padded input width >= 21"},
        ),
    ],
)
def test_every_clause_is_the_faults(kernel, start, conditions):
    def run(problem, operands):
        return kernel(problem, operands).astype(np.float32)

    found = samebits.reduce(start, [run], most_time_s=MOST_S)
    # A product of two numbers is odd where both are.
    said = found.condition.replace(
        "output height is odd and output width is odd", "the number of positions of an output channel is odd"
    )
    assert set(said.split(" and ")) == conditions


def test_of_many_clauses_a_sentence_has_the_first():
    """By construction: six things have to be so, each of which is a size of its own."""

    def run(problem, operands):
        y = convolve(**read(problem, operands))
        kernel, (high, wide) = problem.w[2:], y.shape[2:]
        if problem.x[0] > 2 and high > 2 and wide > 3 and kernel[0] > 1 and kernel[1] > 2 and problem.w[0] > 4:
            y[0, 0, 0, 0] += 1
        return y.astype(np.float32)

    found = samebits.reduce("conv2d x=4x1x12x12 w=6x1x3x4", [run], most_time_s=MOST_S)
    assert len(found.condition.split(" and ")) == 6
    assert found.summary.endswith(", and 2 more things are true of the problem")
    assert found.summary.count(" and ") == 5


@pytest.mark.parametrize("text", ["linear x=1x37 w=1x37", "linear x=4x133 w=9x133"])
def test_what_is_left_of_steps_of_eight_is_a_condition(text):
    """A loop in steps of eight, then one step of four, forgets what is left of that."""

    def run(problem, operands):
        x, w = operands["x"], operands["w"]
        kept = x.shape[1] // 8 * 8 + 4 if x.shape[1] % 8 >= 4 else x.shape[1]
        return x[:, :kept] @ w[:, :kept].T

    found = samebits.reduce(text, [run], most_time_s=MOST_S)
    assert (found.problem, found.condition) == ("linear x=1x5 w=1x5 dtype=float32", "terms (K) modulo 8 >= 5")


def drop_the_rest(x, w):
    kept = x.shape[1] // 8 * 8
    return x[:, :kept] @ w[:, :kept].T


def drop_the_last_row(x, w):
    y = x @ w.T
    y[-1] = 0 if len(y) % 4 else y[-1]
    return y


@pytest.mark.parametrize(
    ("multiply", "condition"),
    [
        (drop_the_rest, "the number of terms (K) is no multiple of 8"),
        (drop_the_last_row, "the number of rows is no multiple of 4"),
    ],
)
def test_a_fault_is_told_apart_from_a_bias_that_is_not_known(multiply, condition):
    """A kernel that adds no bias is wrong with one however many terms there are."""

    def run(problem, operands):
        return multiply(operands["x"], operands["w"])

    found = samebits.reduce("linear x=10x301 w=12x301", [run], most_time_s=MOST_S)
    assert (found.problem, found.condition) == ("linear x=1x1 w=1x1 dtype=float32", condition)
    assert "with one it is not right where it is right without" in " ".join(e.says for e in found.evidence)


def test_padding_before_and_after_goes_together_where_a_kernel_takes_no_other():
    def run(problem, operands):
        if any(begin != end for begin, end in problem.padding):
            raise ValueError("pads alike on both sides")
        y = convolve(**read(problem, operands))
        y[..., -1] += 1
        return y.astype(np.float32)

    found = samebits.reduce("conv2d x=1x2x9x9 w=3x2x3x3 padding=1", [run], most_time_s=MOST_S)
    assert (found.problem, found.is_smallest) == ("conv2d x=1x1x1x1 w=1x1x1x1 dtype=float32", True)


@pytest.mark.parametrize(
    ("counts", "settled", "simple"),
    [([1, 1, 1], False, True), ([2, 2, 1], False, True), ([1] * 6, True, True), ([1] * 6, False, False),
     ([2, 2, 1, 1, 1], True, False)],
)  # fmt: skip
def test_of_many_comparisons_only_exact_ones_without_alternatives_are_said(counts, settled, simple):
    clauses = tuple(tuple(Atom("k", ">=", n, 1.0) for n in range(count)) for count in counts)
    assert FoundCondition(Condition(clauses), 90, 30, settled).is_simple == simple
