"""The format that a recipe says its sums end in: every result that emulation gives has only numbers of it."""

import numpy as np
import pytest

from samebits.errors import RecipeError
from samebits.mechanisms.arithmetic.arithmetic import list_recipe_hypotheses
from samebits.mechanisms.evidence.nearness import measure_nearness
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.search.hypothesis_search import HypothesisSearch
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case, lower_case
from samebits.problems.operands import make_normal
from samebits.progress import ignore_progress
from samebits.sums.bounds import bound_errors
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.tiles.magnitudes import sum_magnitudes
from samebits.sums.truth import compute_truth

PROBLEMS = (
    "linear x=6x70 w=5x70",
    "linear x=6x70 w=5x70 bias then=relu",
    "conv2d x=1x9x6x6 w=4x9x3x3 bias padding=1",
    "conv_transpose1d x=1x6x7 w=6x4x3 stride=2 bias",
)
# So many of the low bits of float32 are zero in the numbers of each format; float16 has fewer exponents, too.
LACKING = {"bfloat16": 16, "float16": 13, "tf32": 13, "e8m13": 10, "float32": 0}


def are_numbers_of(values, name):
    codes = np.ascontiguousarray(values, np.float32).view(np.uint32)
    fits = (codes & ((1 << LACKING[name]) - 1)) == 0
    return fits & (values.astype(np.float16).astype(np.float32) == values) if name == "float16" else fits


def make(text, seed):
    """The problem as hypotheses see it, and normal operands."""
    problem = parse_problem_text(text)
    case = lower_case(Case(problem, make_normal(problem, seed), {}))
    return case.problem, case.operands


@pytest.mark.parametrize("text", PROBLEMS)
def test_all_results_are_numbers_of_the_format(text):
    problem, operands = make(text, 3)
    seen = set()
    for hypothesis in list_recipe_hypotheses(problem):
        recipe = hypothesis.recipe
        name = recipe and recipe.find_last_format(has_bias=problem.bias)
        if not name:
            continue
        try:
            result = emulate(problem, recipe, operands)
        except RecipeError:
            continue
        seen.add(name)
        assert are_numbers_of(result, name).all(), hypothesis.says
    assert {"float16", "bfloat16"} <= seen


@pytest.mark.parametrize(
    ("text", "has_bias", "name"),
    [
        ("direct acc=float16", False, "float16"),
        ("direct acc=bfloat16 bias=first", True, "bfloat16"),
        # A bias added to what is already a result leaves it anywhere.
        ("direct acc=float16 bias=rounded", True, None),
        ("direct acc=float16 bias=after/3", True, None),
        ("direct order=chain@float16:k/8|k", False, "float16"),
        # The bias is added last, in the accumulator.
        ("direct order=chain@float16:k/8|k bias=last", True, "float32"),
        ("direct order=chain@float16:k/8|k bias=first", True, "float16"),
        ("direct order=k/8|chain@float16:k", False, "float32"),
        ("direct acc=float32 via=bfloat16", False, "bfloat16"),
        ("direct acc=float32 via=bfloat16 bias=rounded", True, None),
        ("direct order=k;pairs:k where=c(0*2,1*2)", False, None),
        ("winograd(4)", False, None),
    ],
)
def test_the_format_follows_from_the_last_rounding(text, has_bias, name):
    assert parse_recipe(text).find_last_format(has_bias=has_bias) == name


@pytest.mark.parametrize("text", PROBLEMS)
@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4, 1e-2])
def test_what_is_left_out_could_not_have_come_close(text, noise):
    """No recipe that is not emulated is nearer to a noisy result than is said of the nearest numbers of its format."""
    problem, operands = make(text, 5)
    truth = compute_truth(problem, operands).values
    rng = np.random.default_rng(6)
    result = (truth + noise * rng.standard_normal(truth.shape)).astype(np.float32)
    magnitudes = sum_magnitudes(problem, operands)
    bound = bound_errors(problem, operands, truth, magnitudes=magnitudes)
    observation = Observation(problem, operands, result, truth, bound, magnitudes)
    search, sample = HypothesisSearch(observation, ignore_progress), observation.choose_sample()
    for hypothesis in list_recipe_hypotheses(problem):
        search._may_come_close(hypothesis, sample, 1.0)
        ends = hypothesis.recipe and hypothesis.recipe.find_last_format(has_bias=problem.bias)
        predicted = hypothesis.predict(observation, sample) if ends in search._nearest_of else None
        if predicted is not None:
            assert measure_nearness(observation, sample, predicted) >= search._nearest_of[ends] * (1 - 1e-12)
    assert search._nearest_of


def explain_side(text, recipe, operands):
    problem = parse_problem_text(text)
    case = Case(problem, operands, {"mine": emulate(problem, parse_recipe(recipe), operands)})
    return explain_case(case).sides[0]


def test_bits_prove_what_few_outputs_inside_their_bound_do_not_show():
    text = "linear x=2x16384 w=8x16384"
    side = explain_side(
        text, "direct order=chain@float16:k/8192|chain@float16:k/8192|k", make_normal(parse_problem_text(text), 0)
    )
    assert (side.verdict, side.cause, side.cause_certainty) == ("downgrade", "low-precision-accumulator", "bits")


def test_bits_prove_what_a_sample_of_exact_numbers_does_not_show():
    """Small whole numbers, which bfloat16 holds, but in the channels that no sample of a few rows has."""
    text, rng = "linear x=40x64 w=24x64", np.random.default_rng(1)
    x, w = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((40, 64), (24, 64)))
    w[[3, 6, 9, 13, 16]] *= rng.integers(100, 200, (5, 64))
    side = explain_side(text, "direct acc=bfloat16 order=k", {"x": x, "w": w})
    assert (side.verdict, side.cause, side.cause_certainty) == ("downgrade", "low-precision-accumulator", "bits")
