"""A side as a finding: everything that was measured stands in it, and its verdict is the rule's."""

import numpy as np
import pytest

from hand_made import WHOLE
from samebits.engines.runner import Identity
from samebits.findings import Error, Evidence, ExactData, Failure, WorstElement
from samebits.findings.causes import CauseCode
from samebits.judging.references import Reference, list_few_values
from samebits.judging.sides import Attribution, Recorded, describe_side, measure_result
from samebits.judging.verdict_rules import Measured, Mechanism
from samebits.problems import parse_problem_text
from samebits.sums.recipes import parse_recipe

# Two channels of two outputs, three products each.
PROBLEM = parse_problem_text("conv1d x=1x3x2 w=2x3x1 dtype=float32")
TRUTH = np.array([[[4, 8], [2, 0]]], np.float32)
REFERENCE = Reference(PROBLEM, TRUTH, np.full((1, 2, 2), 0.25), np.ones((1, 2, 2)), {})
RIGHT = ExactData(0, 4, None, None, None, None)
OFF = ExactData(4, 4, "everywhere", [0, 0, 0], 1.0, 2.0)
IDENTITY = Identity("odd:threads=1", "odd", "1.5", "CPU", {"threads": "1"}, ("one note", "another"))


def with_error(index, error):
    result = TRUTH.copy()
    result[index] += np.float32(error)
    return result


def describe(result, *, attribution=None, exact=None, exact_beyond=False, **recorded):
    measured = measure_result(REFERENCE, result, exact, exact_beyond=exact_beyond)
    return describe_side(REFERENCE, Recorded("a", result, **recorded), measured, attribution)


def test_a_missing_result_leaves_what_is_known_of_exact_integers():
    assert measure_result(REFERENCE, None) == Measured(None, False)
    assert measure_result(REFERENCE, None, OFF, exact_beyond=True) == Measured(OFF, True)
    assert measure_result(REFERENCE, None, OFF) == Measured(OFF, False)


def test_a_result_is_measured_against_truth_and_bound():
    found = measure_result(REFERENCE, with_error((0, 1, 0), 0.125), RIGHT, exact_beyond=True)
    assert found.exact is RIGHT
    assert found.exact_beyond_rounding
    assert found.distances is not None
    assert found.distances.over_bound.tolist() == [[[0, 0], [0.5, 0]]]
    assert found.differs_in_bits
    assert not measure_result(REFERENCE, TRUTH.copy()).differs_in_bits
    assert not measure_result(REFERENCE, TRUTH.copy()).exact_beyond_rounding


def test_zeros_of_another_sign_differ_in_bits():
    result = TRUTH.copy()
    result[0, 1, 1] = -0.0
    assert measure_result(REFERENCE, result).differs_in_bits


def test_only_what_bfloat16_throughout_could_not_give_is_another_function():
    # n + 3 = 6 roundings of 2^-8 each, 4 products that may be lost below 2^-14, and 4 roundings of the result.
    growth = 6 * 2.0**-8 / (1 - 6 * 2.0**-8)
    summed = growth + 4 * 2.0**-14
    limit = summed + 4 * 2.0**-8 * (2 + summed) + 2 * 2.0**-149
    for error, beyond in ((limit * 0.999, False), (limit * 1.001, True)):
        found = measure_result(REFERENCE, with_error((0, 1, 0), error))
        assert found.another_function is not None
        assert found.another_function.tolist() == [[[False, False], [beyond, False]]]


def test_noise_that_a_transform_spreads_over_a_channel_is_no_other_function():
    # 2^8 unit roundoffs of a channel's largest magnitude, 2^20: 16 for both of its outputs.
    magnitudes = np.array([[[1, 1], [2.0**20, 0]]])
    reference = Reference(PROBLEM, TRUTH, np.full((1, 2, 2), 0.25), magnitudes, {})
    for error, beyond in ((15.9, False), (16.1, True)):
        result = TRUTH.copy()
        result[0, :, 1] += np.float32(error)
        found = measure_result(reference, result)
        assert found.another_function is not None
        assert found.another_function.tolist() == [[[False, True], [False, beyond]]]


def test_a_recorded_result_within_its_bound_is_said_in_numbers():
    side = describe(with_error((0, 1, 0), 0.125))
    assert (side.name, side.engine, side.version, side.device, side.settings) == ("a", None, None, None, {})
    assert (side.verdict, side.certainty, side.cause, side.cause_certainty) == ("rounding", "bounds", None, None)
    assert (side.says, side.recipe, side.replay, side.where, side.failure, side.exact_data) == (None,) * 6
    # 1/8 at 2: 2^-3 / 2^-22; the norm of 4, 8, 2, 0 is the root of 84.
    assert side.error == Error(0.125, 2.0**19, 0.125 / float(np.linalg.norm([4, 8, 2, 0])), 0.5)
    assert side.values == [4, 8, 2.125, 0]
    window = {"x": [[0, 1], [0, 3], [0, 1]]}
    assert side.worst == WorstElement([0, 1, 0], 2.125, 2.0, 2.0**19, 0.5, window)
    assert [e.kind for e in side.evidence] == ["statistic"]


def test_outputs_beyond_their_bound_are_located_and_those_on_it_are_not():
    result = with_error((0, 1, 0), 4)
    result[0, 0] += np.float32(1 / 32)
    reference = Reference(PROBLEM, TRUTH, np.full((1, 2, 2), 1 / 32), np.ones((1, 2, 2)), {})
    side = describe_side(reference, Recorded("a", result), measure_result(reference, result))
    assert side.verdict == "wrong"
    assert side.where == "only in c_out = 1, ow = 0"
    assert side.evidence[0].says.startswith(
        "bounds prove that no sum of these products gives this, not even in bfloat16: 1 of 4 outputs"
    )


def test_an_engine_is_said_with_what_it_says_of_itself():
    side = describe(TRUTH.copy(), exact=RIGHT, engine="odd:threads=1", identity=IDENTITY)
    assert (side.engine, side.version, side.device, side.settings) == ("odd:threads=1", "1.5", "CPU", {"threads": "1"})
    assert (side.verdict, side.certainty, side.worst, side.where) == ("identical", "bits", None, None)
    assert side.exact_data is RIGHT
    assert [e.kind for e in side.evidence] == ["structure", "statistic", "setting", "setting"]
    assert side.evidence[2:] == [Evidence("setting", "one note"), Evidence("setting", "another")]


@pytest.mark.parametrize(
    ("exact", "beyond", "verdict"), [(OFF, True, "wrong"), (OFF, False, "undecided"), (RIGHT, False, "undecided")]
)
def test_a_failure_leaves_only_a_proven_fault(exact, beyond, verdict):
    failure = Failure("crash", "ended")
    side = describe(None, exact=exact, exact_beyond=beyond, failure=failure)
    assert (side.verdict, side.failure) == (verdict, failure)
    assert (side.error, side.values, side.worst, side.where) == (None,) * 4
    # Even of a result that was returned before.
    assert describe(TRUTH.copy(), failure=failure).verdict == "undecided"


def test_an_attribution_is_said_with_its_recipe_and_its_evidence():
    recipe, proof = parse_recipe("direct x=tf32"), Evidence("replay", "all of it")
    mechanism = Mechanism(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", "rounds x", "bits")
    side = describe(
        with_error((0, 1, 0), 0.125),
        attribution=Attribution(recipe, WHOLE, mechanism, (proof,)),
        identity=IDENTITY,
    )
    assert (side.verdict, side.certainty, side.says) == ("downgrade", "bits", "rounds x")
    assert (side.cause, side.cause_certainty) == (CauseCode.REDUCED_PRECISION_OPERANDS, "bits")
    assert (side.recipe, side.replay) == ("direct x=tf32 product=fused acc=float32", WHOLE)
    assert [e.kind for e in side.evidence] == ["statistic", "replay", "setting", "setting"]
    partly = describe(with_error((0, 1, 0), 0.125), attribution=Attribution(recipe, WHOLE, None))
    assert (partly.verdict, partly.cause, partly.says) == ("rounding", None, None)
    assert partly.recipe == side.recipe


def test_up_to_sixteen_values_are_shown_one_by_one():
    problem = parse_problem_text("conv1d x=1x1x1 w=1x1x1")
    assert list_few_values(problem, None) is None
    assert list_few_values(problem, np.arange(16, dtype=np.float16).reshape(4, 4)) == list(range(16))
    assert list_few_values(problem, np.arange(17)) is None
