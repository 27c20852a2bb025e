"""Bias and epilogue: every listed hypothesis predicts what its sentence says, computed with NumPy by hand."""

import re

import numpy as np
import pytest

from naive_convolution import by_row, compute, convolve, make_integers, observe, predict
from samebits.mechanisms.epilogue.epilogue import list_epilogue_hypotheses, list_fitted_hypotheses
from samebits.problems import parse_problem_text

PLAIN = "conv2d x=2x4x5x5 w=6x2x3x3 padding=1 groups=2"
PROBLEMS = [
    PLAIN,
    PLAIN + " bias",
    PLAIN + " bias then=relu",
    PLAIN + " bias then=clip(-20,30)",
    PLAIN + " bias then=clip(-inf,30)",
    PLAIN + " bias then=clip(-20,inf)",
    PLAIN + " then=clip(0,6)",
    "conv1d x=1x1x6 w=1x1x3 bias",
    "conv1d x=2x3x6 w=5x3x3 bias",
    "conv_transpose1d x=2x4x5 w=4x3x3 stride=2 groups=2 bias then=relu",
    "conv3d x=1x2x3x3x3 w=3x2x2x2x2 bias then=clip(-50,50)",
]


def compute_what_is_said(problem, operands, says):
    """By hand: sums, a bias for each channel, bounds."""
    sums = convolve(problem, operands).astype(np.float64)
    bias = operands.get("bias", np.zeros(problem.c_out, np.int64))
    changed = {
        "leaves the bias out": 0 * bias,
        "adds the bias twice": 2 * bias,
        "subtracts the bias": -bias,
        "adds the first bias to all channels": np.repeat(bias[0], len(bias)),
        "adds the bias of the channel +1 away": np.array([*bias[1:], bias[0]]),
        "adds the bias of the channel -1 away": np.array([bias[-1], *bias[:-1]]),
    }
    low, high = (problem.then.low, problem.then.high) if problem.then else (-np.inf, np.inf)
    shape = (1, -1) + (1,) * problem.rank
    if says in changed:
        return np.clip(sums + changed[says].reshape(shape), low, high)
    whole = sums + bias.reshape(shape)
    if says.startswith("adds the bias along"):
        axis = {"n": 0, "h": problem.rank, "w": problem.rank + 1}[says.split()[4].lstrip("o")]
        along = bias.reshape([-1 if i == axis else 1 for i in range(sums.ndim)])
        return np.clip(sums + along, low, high)
    if says == "adds the bias as if channels stood last in memory":
        return np.clip(sums + np.resize(bias, sums.size).reshape(sums.shape), low, high)
    if says == "adds the bias after the epilogue":
        return np.clip(sums, low, high) + bias.reshape(shape)
    if match := re.fullmatch(r"clips to (\S+) \.\.\. (\S+) in place of (\S+) \.\.\. (\S+)", says):
        assert (float(match[3]), float(match[4])) == (low, high)
        return np.clip(whole, float(match[1]), float(match[2]))
    bounds = {
        "leaves out the relu": (-np.inf, np.inf),
        "leaves out the clip": (-np.inf, np.inf),
        "loses the clip's upper bound": (low, np.inf),
        "loses the clip's lower bound": (-np.inf, high),
        "clips at 6 as well (relu6)": (0, 6),
        "applies a relu that was not asked for": (0, np.inf),
        "clips to 0 ... 6 unasked": (0, 6),
    }
    return np.clip(whole, *bounds[says])


def said_of(text):
    return [h.says for h in list_epilogue_hypotheses(parse_problem_text(text))]


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_hypothesis_predicts_what_it_says(text):
    problem = parse_problem_text(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    for hypothesis in list_epilogue_hypotheses(problem):
        expected = compute_what_is_said(problem, operands, hypothesis.says)
        assert np.array_equal(predict(hypothesis, observation), by_row(problem, expected)), hypothesis.says
        assert hypothesis.verdict == "wrong"


@pytest.mark.parametrize("text", PROBLEMS)
def test_another_bias_in_the_problem_computes_the_prediction(text):
    problem = parse_problem_text(text)
    observation = observe(problem, make_integers(problem))
    for hypothesis in list_epilogue_hypotheses(problem):
        elsewhere = any(words in hypothesis.says for words in ("after the epilogue", "bias along", "bias as if"))
        assert (hypothesis.alter is None) == ("bias" not in hypothesis.says or elsewhere)
        if hypothesis.alter is None:
            continue
        other, arrays = hypothesis.alter(observation)
        assert other == problem
        exact = compute(other, {n: a.astype(np.int64) for n, a in arrays.items()})
        assert np.array_equal(predict(hypothesis, observation), by_row(problem, exact)), hypothesis.says


@pytest.mark.parametrize("text", PROBLEMS)
def test_no_sentence_is_said_twice(text):
    assert len(set(said_of(text))) == len(said_of(text))


def test_only_what_is_there_can_be_lost():
    assert said_of("conv1d x=1x1x6 w=1x1x3") == ["applies a relu that was not asked for", "clips to 0 ... 6 unasked"]
    assert said_of("conv1d x=1x1x6 w=1x1x3 bias")[:3] == [
        "leaves the bias out",
        "adds the bias twice",
        "subtracts the bias",
    ]
    # One channel has no other's bias.
    assert not [s for s in said_of("conv1d x=1x1x6 w=1x1x3 bias") if "channel" in s]
    assert said_of("conv1d x=1x1x6 w=1x1x3 then=relu") == ["leaves out the relu", "clips at 6 as well (relu6)"]


def test_a_clip_loses_the_bound_that_leaves_another():
    both = said_of("conv1d x=1x1x6 w=1x1x3 then=clip(-1,6)")
    assert both[:3] == ["leaves out the clip", "loses the clip's upper bound", "loses the clip's lower bound"]
    assert both[3:] == [
        f"clips to {bounds} in place of -1 ... 6"
        for bounds in ("0 ... 6", "-1 ... 1", "0 ... 1", "0 ... inf", "-6 ... 6")
    ]
    # With one bound only, losing it is leaving out the clip; losing the other is nothing.
    assert said_of("conv1d x=1x1x6 w=1x1x3 then=clip(-inf,6)")[0] == "leaves out the clip"


@pytest.mark.parametrize("direction", ["grad_input", "grad_weight"])
def test_gradients_have_no_epilogue(direction):
    problem = parse_problem_text(f"conv1d.{direction} x=1x2x6 w=3x2x3")
    assert list(list_epilogue_hypotheses(problem)) == []
    assert list(list_fitted_hypotheses(problem)) == []


def fit(text, change, seed=0):
    """What a factor and a shift per channel predict, of a result that is the exact one changed."""
    problem = parse_problem_text(text)
    operands = make_integers(problem, seed)
    exact = compute(problem, operands).astype(np.float64)
    observation = observe(problem, operands, change(exact))
    # Without a bias in the problem a shift alone comes first.
    *_, hypothesis = list_fitted_hypotheses(problem)
    return by_row(problem, change(exact)), predict(hypothesis, observation)


def test_a_factor_and_a_shift_for_every_channel_are_found():
    factors, shifts = np.array([1, 2, 0.5, -1, 4, 3]), np.array([0, 1, -7, 2, 5, 100])

    def change(values):
        return values * factors[:, None, None] + shifts[:, None, None]

    given, predicted = fit("conv2d x=2x4x5x5 w=6x2x3x3 groups=2 bias dtype=float64", change)
    # The solver's rounding: its sums of squares have 18 terms of at most 2^10 each; 2^-36 of the largest is generous.
    assert np.abs(given - predicted).max() <= 2.0**-36 * np.abs(given).max()


def test_a_fit_of_few_outputs_or_of_a_constant_is_none():
    assert fit("conv1d x=1x2x9 w=3x2x3", lambda v: 2 * v)[1] is None
    assert fit("conv1d x=1x2x20 w=3x2x3", lambda v: 0 * v + 5)[1] is None
    assert fit("conv1d x=1x2x20 w=3x2x3", lambda v: 2 * v)[1] is not None


def test_noise_is_not_fitted():
    random = np.random.default_rng(1)
    given, predicted = fit("conv1d x=1x2x40 w=3x2x3", lambda v: random.permuted(v, axis=-1))
    assert not np.array_equal(given, predicted)
