"""Explaining recorded results: what stands in the finding beside the mechanism, and what the whole comes to."""

from collections import Counter

import numpy as np
import pytest

from hand_made import WHOLE, make_side, observe
from samebits.errors import CaseFileError
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.findings.settings_advice import advise
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.explanation_sentences import (
    say_alternatives,
    say_excluded,
    say_others,
    say_what_to_do,
    summarize_explained,
)
from samebits.mechanisms.search import recorded_case
from samebits.mechanisms.search.mechanism_finding import Found
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.progress import ignore_progress
from samebits.sums.recipes import parse_recipe
from samebits.sums.tiles.magnitudes import sum_magnitudes
from samebits.sums.truth import compute_truth

PROBLEM = parse_problem_text("conv1d x=1x2x4 w=1x2x1 dtype=float32")
DATA = {"x": np.float32([[[1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]]]), "w": np.ones((1, 2, 1), np.float32)}
TRUTH = compute_truth(PROBLEM, DATA).values
# So far that no operands of four bits go there.
NEAR, FAR = np.nextafter(TRUTH, np.float32(9)), TRUTH + np.float32(9)
OTHER_NEAR = np.nextafter(TRUTH, np.float32(-9))


def explain(monkeypatch, mechanism=None, tried=None, **results):
    found = Found(mechanism, Counter(tried or {}))
    asked = []

    def find(observation, progress, recalled):
        asked.append(observation)
        assert observation.operands is DATA
        assert (observation.bound > 0).all()
        assert observation.magnitudes.tolist() == sum_magnitudes(PROBLEM, DATA).tolist()
        return found

    monkeypatch.setattr(recorded_case, "find_mechanism", find)
    return explain_case(Case(PROBLEM, DATA, results)), asked


def test_a_case_without_results_is_refused():
    with pytest.raises(CaseFileError, match="no result to explain"):
        explain_case(Case(PROBLEM, DATA, {}))


def test_the_truth_is_not_searched(monkeypatch):
    found, asked = explain(monkeypatch, a=TRUTH)
    assert asked == []
    (side,) = found.sides
    assert (found.verdict, found.cause, side.verdict, side.cause) == ("identical", None, "identical", None)
    assert found.fixes == []
    assert [e.says for e in side.evidence] == ["every output is correctly rounded"]
    assert (found.outputs, found.reduction_length, found.data) == (4, 2, "recorded")
    assert found.truth == TRUTH.ravel().tolist()


def test_a_result_inside_its_bound_needs_no_mechanism(monkeypatch):
    found, _ = explain(monkeypatch, a=NEAR, truth=TRUTH)
    side = found.sides[0]
    assert (side.verdict, side.cause, side.cause_certainty) == ("rounding", CauseCode.SUMMATION_ORDER, "statistics")
    assert (found.verdict, found.cause) == ("rounding", CauseCode.SUMMATION_ORDER)
    assert found.fixes == advise([CauseCode.SUMMATION_ORDER])
    assert (found.differences[0].a, found.differences[0].b, found.differences[0].differing) == ("a", "truth", 4)


def test_where_nothing_fits_what_was_tried_and_what_to_do_are_said(monkeypatch):
    tried = Counter({"layout": 3})
    slightly = TRUTH * np.float32(1 + 2.0**-12)
    found, asked = explain(monkeypatch, tried=tried, a=slightly)
    (side,) = found.sides
    assert len(asked) == 1
    assert (side.verdict, side.cause, side.cause_certainty) == ("undecided", None, None)
    assert side.evidence[-2:] == [
        Evidence("statistic", say_excluded(tried)),
        Evidence("statistic", say_what_to_do()),
    ]
    wrong, _ = explain(monkeypatch, tried=tried, a=FAR)
    assert wrong.verdict == "wrong"
    assert wrong.sides[0].evidence[-1] == Evidence("statistic", say_excluded(tried))


def test_a_mechanism_is_said_with_what_it_excludes_and_cannot_be_told_from(monkeypatch):
    own = Evidence("statistic", "fits")
    mechanism = Mechanism(
        CauseCode.PADDING, "wrong", "pads elsewhere", "bound", alternatives=("crops",), evidence=(own,), tried=7
    )
    found, _ = explain(monkeypatch, mechanism, a=FAR)
    (side,) = found.sides
    assert (side.verdict, side.says, side.cause, side.cause_certainty) == (
        "wrong", "pads elsewhere", CauseCode.PADDING, "statistics",
    )  # fmt: skip
    assert side.evidence[1:] == [
        own,
        Evidence("statistic", say_others("statistics", 7, ("crops",))),
        Evidence("statistic", say_alternatives(("crops",))),
    ]
    assert (found.verdict, found.cause) == ("wrong", CauseCode.PADDING)
    assert found.fixes == advise([CauseCode.PADDING])


def test_a_proof_alone_needs_no_more_words(monkeypatch):
    recipe = parse_recipe("direct order=c")
    mechanism = Mechanism(CauseCode.SUMMATION_ORDER, "rounding", "adds", "bits", recipe=recipe, replay=WHOLE, tried=1)
    found, _ = explain(monkeypatch, mechanism, a=NEAR)
    assert (found.sides[0].recipe, found.sides[0].replay) == ("direct product=fused acc=float32 order=c", WHOLE)
    assert found.sides[0].values == NEAR.ravel().tolist()
    assert found.summary == summarize_explained("rounding", found.sides)
    assert [e.kind for e in found.sides[0].evidence] == ["statistic"]


def test_equal_results_are_explained_once_under_their_own_names(monkeypatch):
    found, asked = explain(monkeypatch, a=NEAR, b=NEAR.copy(), c=FAR, d=FAR.copy())
    assert len(asked) == 2
    assert [s.name for s in found.sides] == ["a", "b", "c", "d"]
    assert [s.verdict for s in found.sides] == ["rounding", "rounding", "wrong", "wrong"]
    assert found.verdict == "wrong"
    equal, _ = explain(monkeypatch, a=NEAR, b=NEAR.copy())
    assert (equal.verdict, equal.cause, equal.fixes) == ("identical", None, [])


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        (("run 1", "run 2"), True),
        (("torch #1", "torch #2"), True),
        (("torch", "torch #2"), True),
        (("torch", "torch (b)"), True),
        (("torch run 1", "torch run 12"), True),
        (("torch", "jax"), False),
        (("fp16", "fp32"), False),
        (("torch", "torch2"), False),
        (("torch #1", "jax #2"), False),
    ],
)
def test_runs_of_one_engine_that_differ_are_nondeterminism(monkeypatch, names, runs):
    found, _ = explain(monkeypatch, **dict(zip(names, (NEAR, OTHER_NEAR), strict=True)))
    assert found.verdict == "rounding"
    assert found.cause == (CauseCode.NONDETERMINISM if runs else CauseCode.SUMMATION_ORDER)
    says = "the same engine differs from itself on the same operands, run to run"
    assert found.evidence == ([Evidence("statistic", says)] if runs else [])
    assert found.fixes == advise([found.cause])


def test_one_run_or_equal_or_wrong_runs_are_no_nondeterminism(monkeypatch):
    for results in ({"run 1": NEAR}, {"run 1": NEAR, "run 2": NEAR.copy()}, {"run 1": NEAR, "run 2": FAR}):
        found, _ = explain(monkeypatch, **results)
        assert found.cause != CauseCode.NONDETERMINISM
        assert found.evidence == []


@pytest.mark.parametrize(("lost", "cancels"), [(2.0**-12, False), (1.01 * 2.0**-12, True)])
def test_a_result_that_lost_half_its_digits_within_the_bound_is_ill_conditioned(lost, cancels):
    # 24 digits: the norm of 1, 2, 2 is 3, off by a share of it at one output.
    row = "conv1d x=1x1x3 w=1x1x1 dtype=float32"
    found = observe(row, [1, 2, 2], [1, 2, 2 + 3 * lost])
    assert recorded_case._cancels(found) is cancels
    side = make_side("a", "rounding", 0.5)
    measured = recorded_case.measure_result(_reference(found), found.result)
    finished = recorded_case._finish(side, found, measured, Found.nothing())
    assert finished.cause == (CauseCode.ILL_CONDITIONED if cancels else CauseCode.SUMMATION_ORDER)


def _reference(found):
    from samebits.judging.references import Reference

    return Reference(found.problem, found.truth, found.bound, found.magnitudes, {})


def test_long_names_are_cut_in_reports_of_progress(monkeypatch):
    heard = []

    def find(observation, progress, recalled):
        progress("trying", 0.5)
        return Found.nothing()

    monkeypatch.setattr(recorded_case, "find_mechanism", find)
    explain_case(Case(PROBLEM, DATA, {"n" * 50: NEAR}), progress=lambda what, share: heard.append(what))
    assert f"{'n' * 40}: trying" in heard
    assert explain_case(Case(PROBLEM, DATA, {"a": NEAR}), progress=ignore_progress).verdict == "rounding"
