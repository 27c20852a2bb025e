"""Accepting hypotheses: every output within the rounding bound of the prediction, then replay where a recipe can."""

from dataclasses import replace

import numpy as np
import pytest

from hand_made import observe
from samebits import thresholds
from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.acceptance import accept, find_by_bits, is_sampled, prove, replays_all
from samebits.mechanisms.evidence.explanation_sentences import say_consistent, say_replayed
from samebits.mechanisms.facts.observation import Hypothesis
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

# One product per output; the result is 3 beyond the truth at the second output and right elsewhere.
ROW = "conv1d x=1x1x4 w=1x1x1 dtype=float32"
TRUTH, RESULT = [1, 1, 1, 1], [1, 4, 1, 1]
TWO = "conv1d x=1x1x2 w=2x1x1 dtype=float32"


def assume(values, cause=CauseCode.PADDING, verdict="wrong", **more):
    """A hypothesis that predicts these values; None of what it cannot predict."""
    predicted = None if values is None else np.array(values, np.float64).reshape(-1, np.shape(values)[-1])
    return Hypothesis(cause, verdict, "pads elsewhere", lambda observation, sample: predicted, **more)


def observe_row(**more):
    return observe(ROW, TRUTH, RESULT, **{"bound": 0.5, "magnitudes": 1.0, **more})


def test_a_hypothesis_whose_prediction_is_the_result_is_accepted_with_its_ties():
    ties = [replace(assume(RESULT), says="reads elsewhere"), replace(assume(RESULT), says="flips")]
    assert accept(observe_row(), assume(RESULT), ties) == Mechanism(
        CauseCode.PADDING,
        "wrong",
        "pads elsewhere",
        "bound",
        sampled=False,
        alternatives=("reads elsewhere", "flips"),
        evidence=(Evidence("statistic", say_consistent(4, 4, 1)),),
    )


def test_what_predicts_nothing_explains_nothing():
    assert accept(observe_row(), assume(None), []) is None


@pytest.mark.parametrize("at", range(4))
def test_one_output_that_is_not_as_predicted_refutes(at):
    values = [float(v) for v in RESULT]
    values[at] += 2.0**-10
    assert accept(observe_row(), assume(values), []) is None


def test_inside_the_declared_bound_nothing_is_called_another_function():
    near = observe_row(bound=4.0)
    assert accept(near, assume(RESULT), []) is None
    found = accept(near, assume(RESULT, CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade"), [])
    assert found is not None
    assert (found.verdict, found.fit) == ("downgrade", "nearness")
    assert found.evidence == (Evidence("statistic", say_consistent(4, 4, 0)),)


def bound_of(size, *, summed, unit=0.0, largest_size=None, result_unit=2.0**-24, smallest=2.0**-149):
    """The error of summing, of two roundings to the result, of a rounding of the hypothesis' own, and underflow."""
    beside = 2 * unit * (size if largest_size is None else largest_size)
    return summed + 2 * result_unit * size + beside + 2 * smallest


@pytest.mark.parametrize("unit", [0.0, 2.0**-8])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bound_of_a_prediction_is_kept_and_reached(unit, sign):
    # K + 2 = 3 roundings of float32, and of the float64 that predicts, of magnitudes of 2.
    summed = 3 * (2.0**-24 + 2.0**-52) * 2
    given = observe(ROW, 1.0, 4.0, bound=0.5, magnitudes=2.0)
    for share, fits in ((0.999, True), (1.001, False)):
        # The distance that is asked for depends on the prediction itself; two steps settle it.
        away = share * bound_of(
            4 + share * bound_of(4 + summed, summed=summed, unit=unit) * sign + summed, summed=summed, unit=unit
        )
        found = accept(given, assume([4 + sign * away] * 4, unit=unit), [])
        assert (found is not None) is fits


def test_the_largest_magnitude_of_a_row_stands_for_all_of_it_and_no_other_row():
    magnitudes = np.array([[[2.0**10, 0], [2.0**-3, np.inf]]])
    given = observe(TWO, 5.0, 0.0, bound=0.5, magnitudes=magnitudes)
    wide, narrow = 3 * 2.0**-24 * 2**10, 3 * 2.0**-24 * 2.0**-3
    rows = ((0, 1, wide, True), (0, 1, 1.1 * wide, False), (1, 0, narrow, True), (1, 0, 1.1 * narrow, False))
    for row, at, error, fits in rows:
        values = np.zeros((2, 2))
        values[row, at] += error
        assert (accept(given, assume(values), []) is not None) is fits


def test_sums_of_float64_are_predicted_in_float64_too():
    # (K + 2) (2^-53 + 2^-52): the error of the engine's sum and that of the prediction's.
    given = observe(ROW.replace("float32", "float64"), 5.0, 0.0, bound=0.5, magnitudes=2.0**53)
    for error, fits in ((3 * 3, True), (3 * 3 * 1.01, False)):
        assert (accept(given, assume([error] * 4), []) is not None) is fits


def test_two_of_the_smallest_numbers_are_within_and_three_are_not():
    given = observe(ROW, 5.0, 0.0, bound=0.5, magnitudes=0.0)
    for steps, fits in ((2, True), (3, False)):
        assert (accept(given, assume([steps * 2.0**-149] * 4), []) is not None) is fits


def test_on_its_bound_nothing_is_beyond():
    for bound, says in ((3.0, None), (2.9, "pads elsewhere"), (1.6, "pads elsewhere")):
        found = accept(observe_row(bound=bound), assume(RESULT), [])
        assert (found and found.says) == says


def test_a_rounding_of_its_own_counts_by_the_largest_value_of_the_row():
    given = observe(TWO, 0.0, np.array([[[1, 256], [1, 1]]]), bound=0.5, magnitudes=0.0)
    for row, error, fits in ((0, 2 * 2.0**-8 * 256, True), (0, 2.01 * 2.0**-8 * 256, False), (1, 2.1 * 2.0**-8, False)):
        values = np.array([[1.0, 256.0], [1.0, 1.0]])
        values[row, 0] += error
        found = accept(given, assume(values, unit=2.0**-8), [])
        assert (found is not None) is fits


def test_predictions_that_are_no_numbers_must_be_met_as_such():
    given = observe(ROW, TRUTH, [1, np.inf, np.nan, 1], bound=0.5)
    assert accept(given, assume([1, np.inf, np.nan, 1]), []) is not None
    assert accept(given, assume([1, np.inf, 1, 1]), []) is None


LAYER = parse_problem_text("conv1d x=2x16x12 w=6x16x3 bias dtype=float32")
DATA = make_normal(LAYER, 3)
USUAL, LOWER, ODD = (parse_recipe(f"direct {t}") for t in ("order=kw,c", "x=tf32 w=tf32 order=kw,c", "order=-k%7|-k"))


def recorded(recipe, problem=LAYER, operands=DATA):
    truth = compute_truth(LAYER, DATA).values
    return observe(LAYER, truth, emulate(problem, recipe, operands), bound=1e-9, magnitudes=16.0, operands=DATA)


def test_the_first_recipe_that_reproduces_every_bit_is_found():
    found = recorded(USUAL)
    assert find_by_bits(found, [ODD, USUAL, parse_recipe("direct order=kw,c bias=last")]) is USUAL
    assert find_by_bits(found, [ODD]) is None
    assert find_by_bits(found, []) is None
    assert not replays_all(found, ODD)
    assert replays_all(found, USUAL)


def test_one_bit_anywhere_refutes_a_recipe():
    found = recorded(USUAL)
    for index in ((0, 0, 0), (1, 5, 9), (0, 3, 4)):
        spoiled = found.result.copy()
        spoiled[index] = np.nextafter(spoiled[index], np.float32(np.inf))
        assert not replays_all(replace(found, result=spoiled), USUAL)
        assert find_by_bits(replace(found, result=spoiled), [USUAL]) is None


def test_a_recipe_that_cannot_be_executed_reproduces_nothing():
    assert not replays_all(recorded(USUAL), parse_recipe("winograd(4)"))
    assert find_by_bits(recorded(USUAL), [parse_recipe("direct order=n"), USUAL]) is USUAL


def test_a_proof_says_what_was_replayed_and_keeps_other_evidence():
    found = recorded(USUAL)
    first = Mechanism(CauseCode.SUMMATION_ORDER, "rounding", "adds", "bound", evidence=(Evidence("statistic", "near"),))
    proof = Evidence("replay", say_replayed(USUAL, 120, 120))
    assert prove(found, first, USUAL) == replace(
        first, fit="bits", recipe=USUAL, replay=Replay(1.0, 120), evidence=(proof, *first.evidence)
    )


def test_rounded_operands_are_proved_by_a_recipe_that_rounds_them_so():
    found = recorded(LOWER)
    rounds = assume(
        found.result[:, :, :].transpose(1, 0, 2).reshape(6, -1),
        CauseCode.REDUCED_PRECISION_OPERANDS,
        "downgrade",
        recipe=parse_recipe("direct x=tf32 w=tf32"),
    )
    accepted = accept(found, rounds, [])
    assert accepted is not None
    assert accepted.fit == "bits"
    assert accepted.recipe is not None
    assert accepted.recipe.x == accepted.recipe.w == LOWER.x
    assert replays_all(found, accepted.recipe)


def test_another_function_is_proved_by_replaying_the_altered_problem():
    declared, moved = (
        parse_problem_text(f"conv1d x=2x16x10 w=6x16x3 padding={p} bias dtype=float32") for p in ("1", "2:0")
    )
    operands = make_normal(declared, 3)
    truth = compute_truth(declared, operands).values
    given = emulate(moved, USUAL, operands)
    found = observe(declared, truth, given, bound=1e-9, magnitudes=16.0, operands=operands)
    predicted = given.transpose(1, 0, 2).reshape(6, -1)
    no_bias = {**operands, "bias": np.zeros_like(operands["bias"])}
    for altered, fit in (
        ((moved, operands), "bits"),
        ((declared, operands), "bound"),
        ((moved, no_bias), "bound"),
        (None, "bound"),
    ):
        accepted = accept(found, assume(predicted, alter=lambda observation, a=altered: a), [])
        assert accepted is not None
        assert accepted.fit == fit
        assert (accepted.replay == Replay(1.0, 120)) is (fit == "bits")


def test_of_a_small_problem_every_output_counts(monkeypatch):
    found = recorded(USUAL)
    sample = found.choose_sample().thin(2, 3)
    monkeypatch.setattr(type(found), "choose_sample", lambda self: sample)
    assert prove(found, Mechanism(None, "rounding", "adds", "bound"), USUAL).replay == Replay(1.0, 120)
    predicted = found.result.transpose(1, 0, 2).reshape(6, -1).copy()
    assert accept(found, assume(predicted, CauseCode.SUBNORMALS, "downgrade"), []) is not None
    found.result[tuple(np.argwhere(~sample.mark())[0])] += 1
    assert not replays_all(found, USUAL)
    assert accept(found, assume(predicted, CauseCode.SUBNORMALS, "downgrade"), []) is None


def test_of_a_large_problem_a_sample_is_held_against_and_replayed(monkeypatch):
    found = recorded(USUAL)
    # 2 * 6 * 10 outputs of 48 products each.
    monkeypatch.setattr(thresholds, "MOST_REPLAYED_PRODUCTS", 5760)
    assert not is_sampled(found)
    monkeypatch.setattr(thresholds, "MOST_REPLAYED_PRODUCTS", 5759)
    assert is_sampled(found)
    sample = found.choose_sample().thin(2, 3)
    monkeypatch.setattr(type(found), "choose_sample", lambda self: sample)
    outside = tuple(np.argwhere(~sample.mark())[0])
    found.result[outside] += 1
    assert replays_all(found, USUAL)
    proved = prove(found, Mechanism(None, "rounding", "adds", "bound"), USUAL)
    assert (proved.sampled, proved.replay) == (True, Replay(1.0, 6))
    assert proved.evidence == (Evidence("replay", say_replayed(USUAL, 6, 120)),)
    accepted = accept(found, assume(sample.pick(found.result), CauseCode.SUBNORMALS, "downgrade"), [])
    assert accepted is not None
    assert accepted.sampled
    assert accepted.evidence[0].says.startswith("all 6 sampled of 120 outputs")
