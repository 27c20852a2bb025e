"""What all listed hypotheses have in common, over every kind of list and many shapes."""

import dataclasses

import numpy as np
import pytest

from naive_convolution import by_row, compute, make_integers, observe, predict
from samebits.findings.causes import CauseCode
from samebits.mechanisms.arithmetic.arithmetic import (
    list_operand_hypotheses,
    list_order_hypotheses,
    list_recipe_hypotheses,
    list_transform_hypotheses,
)
from samebits.mechanisms.epilogue.epilogue import list_epilogue_hypotheses, list_fitted_hypotheses
from samebits.mechanisms.facts.observation import Hypothesis
from samebits.mechanisms.positions.geometry import list_geometry_hypotheses
from samebits.mechanisms.positions.layout import list_layout_hypotheses
from samebits.problems import parse_problem_text

LISTS = {
    "operand": list_operand_hypotheses,
    "epilogue": list_epilogue_hypotheses,
    "geometry": list_geometry_hypotheses,
    "layout": list_layout_hypotheses,
    "order": list_order_hypotheses,
    "transform": list_transform_hypotheses,
    "recipe": list_recipe_hypotheses,
    "fitted": list_fitted_hypotheses,
}
PREDICTED_AS_SUMS = ("operand", "epilogue", "geometry", "layout")
PROBLEMS = [
    "conv1d x=1x1x1 w=1x1x1",
    "conv1d x=1x1x5 w=1x1x1 bias then=relu",
    "conv1d.grad_weight x=2x6x9 w=2x3x3 groups=2",
    "conv1d.grad_weight x=1x1x4 w=1x1x4",
    "conv1d.grad_input x=2x6x9 w=4x3x3 groups=2",
    "conv2d x=1x3x4x4 w=3x1x3x3 groups=3 padding=same_upper",
    "conv2d x=2x4x5x5 w=6x2x1x1 stride=2 groups=2 bias dtype=float16",
    "conv2d.grad_weight x=1x4x5x5 w=4x1x3x3 groups=4 padding=1 dtype=float64",
    "conv3d x=1x1x2x2x2 w=1x1x2x2x2 padding=1 dtype=bfloat16",
    "conv3d.grad_weight x=1x4x3x3x3 w=2x2x2x2x2 groups=2",
    "conv_transpose1d x=1x6x4 w=6x1x2 groups=3 stride=3",
    "conv_transpose1d.grad_weight x=2x6x4 w=6x1x2 groups=3",
    "conv_transpose2d.grad_input x=1x4x3x3 w=4x2x3x2 stride=2x1 output_padding=1x0 groups=2",
    "conv_transpose3d x=1x2x2x2x2 w=2x1x1x1x1 out=float16",
    # Some outputs have no term at all.
    "conv_transpose1d x=1x2x4 w=2x1x1 stride=3",
    "conv1d x=1x1x1 w=4x1x1 padding=2 stride=2",
]


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("text", PROBLEMS)
def test_every_list_holds_complete_hypotheses_and_ends(text, kind):
    found = list(LISTS[kind](parse_problem_text(text)))
    for hypothesis in found:
        assert isinstance(hypothesis, Hypothesis)
        assert isinstance(hypothesis.cause, CauseCode)
        assert hypothesis.says == hypothesis.says.strip() != ""
        assert hypothesis.says[0].islower()
        assert not hypothesis.says.endswith(".")
        assert hypothesis.verdict in {"wrong", "downgrade", "rounding"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in LISTS if k not in ("fitted", "recipe")])
@pytest.mark.parametrize("text", PROBLEMS)
def test_every_prediction_is_one_number_for_each_output(text, kind):
    problem = parse_problem_text(text)
    observation = observe(problem, make_integers(problem))
    shape = by_row(problem, observation.truth).shape
    for hypothesis in LISTS[kind](problem):
        predicted = predict(hypothesis, observation)
        if predicted is not None:
            assert (predicted.shape, predicted.dtype) == (shape, np.float64), hypothesis.says


@pytest.mark.parametrize("kind", PREDICTED_AS_SUMS)
@pytest.mark.parametrize("text", PROBLEMS)
def test_a_sample_is_predicted_as_the_whole_is(text, kind):
    problem = parse_problem_text(text)
    observation = observe(problem, make_integers(problem))
    whole = observation.whole()
    sample = dataclasses.replace(whole, rows=whole.rows[::-2], positions=whole.positions[::2])
    for hypothesis in LISTS[kind](problem):
        every, some = hypothesis.predict(observation, whole), hypothesis.predict(observation, sample)
        if every is None:
            assert some is None
        else:
            assert np.array_equal(some, every[::-2, ::2]), hypothesis.says


@pytest.mark.parametrize("kind", ["operand", "layout", "geometry", "epilogue"])
@pytest.mark.parametrize("text", PROBLEMS)
def test_predicting_changes_no_operand(text, kind):
    problem = parse_problem_text(text)
    operands = make_integers(problem)
    observation = observe(problem, operands)
    for array in (*observation.operands.values(), observation.truth, observation.result):
        array.flags.writeable = False
    for hypothesis in LISTS[kind](problem):
        predict(hypothesis, observation)
    assert all(np.array_equal(observation.operands[n].astype(np.int64), a) for n, a in operands.items())


def test_a_hypothesis_is_frozen_and_needs_no_more_than_a_prediction():
    problem = parse_problem_text(PROBLEMS[0])
    nothing = Hypothesis(CauseCode.FUSION, "wrong", "says nothing", lambda observation, sample: None)
    assert (nothing.alter, nothing.recipe, nothing.unit) == (None, None, 0.0)
    assert predict(nothing, observe(problem, make_integers(problem))) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        nothing.says = "something"


def test_the_declared_function_is_what_the_observations_of_these_tests_hold():
    problem = parse_problem_text("conv1d x=1x1x3 w=1x1x2 bias then=relu")
    operands = {"x": np.array([[[1, 2, -5]]]), "w": np.array([[[3, 4]]]), "bias": np.array([1])}
    assert compute(problem, operands).tolist() == [[[12, 0]]]
