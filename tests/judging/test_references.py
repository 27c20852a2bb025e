"""What results are compared with, and the document that is begun with it."""

import numpy as np
import pytest

from hand_made import make_side
from samebits.findings import Difference
from samebits.judging.references import Reference, list_differences, make_reference, start_document
from samebits.problems import parse_problem_text
from samebits.progress import ignore_progress
from samebits.sums.bounds import bound_errors
from samebits.sums.tiles.magnitudes import sum_magnitudes
from samebits.sums.truth import compute_truth
from samebits.version import VERSION

PROBLEM = parse_problem_text("conv1d x=1x2x3 w=2x2x1 bias dtype=float16")
DATA = {
    "x": np.float16([[[1, 2, 3], [0.1, 0.2, 0.3]]]),
    "w": np.float16([[[1], [1]], [[1], [-1]]]),
    "bias": np.float16([0.5, 0]),
}


@pytest.mark.parametrize("rounds", [True, False])
def test_a_reference_is_truth_bound_and_magnitudes(rounds):
    heard = []
    found = make_reference(PROBLEM, DATA, lambda what, share: heard.append(what), rounds=rounds)
    truth = compute_truth(PROBLEM, DATA)
    assert found.truth.tobytes() == truth.values.tobytes()
    assert found.settled == truth.settled
    assert found.magnitudes.tolist() == sum_magnitudes(PROBLEM, DATA).tolist()
    bound = bound_errors(PROBLEM, DATA, truth.values, magnitudes=found.magnitudes, rounds_result=rounds)
    assert found.bound.tolist() == bound.tolist()
    assert len(set(heard)) > 1


def test_results_are_rounded_unless_told_otherwise():
    rounded, exact = (make_reference(PROBLEM, DATA, ignore_progress, rounds=r).bound for r in (True, False))
    assert make_reference(PROBLEM, DATA, ignore_progress).bound.tolist() == rounded.tolist()
    assert (exact < rounded).all()


def test_every_two_results_that_are_there_are_compared():
    one, two = np.zeros((1, 2, 3), np.float16), np.ones((1, 2, 3), np.float16)
    found = list_differences(PROBLEM, [("a", one), ("none", None), ("b", two), ("c", one.copy())])
    assert [(d.a, d.b, d.differing) for d in found] == [("a", "b", 6), ("a", "c", 0), ("b", "c", 6)]


def test_a_document_begins_open():
    truth = np.float16([[[1, 2, 3], [4, 5, 6]]])
    side, difference = make_side("a", "rounding"), Difference("a", "b", 1, 1.0, 1.0)
    reference = Reference(PROBLEM, truth, np.ones(truth.shape), np.ones(truth.shape), {"one float64 sum": 6})
    found = start_document(reference, [side], [difference], "recorded")
    assert (found.verdict, found.summary, found.cause, found.evidence) == ("undecided", "", None, [])
    assert found.problem == "conv1d x=1x2x3 w=2x2x1 bias dtype=float16"
    assert (found.data, found.outputs, found.reduction_length) == ("recorded", 6, 2)
    assert (found.truth, found.settled) == ([1, 2, 3, 4, 5, 6], {"one float64 sum": 6})
    assert (found.sides, found.differences, found.samebits_version) == ([side], [difference], VERSION)
