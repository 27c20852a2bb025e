"""Verdicts on planted faults and on their healthy twins."""

import numpy as np
import pytest

import samebits
from planted_runners import CrashingRunner, PlantedRunner, add_in_float32, round_operands_to_bfloat16
from samebits.errors import ResourceLimitError, SamebitsError
from samebits.findings import Comparison, finding_from_json, json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal

TEXT = "conv2d x=3x8x10x12 w=16x8x3x3 padding=1"
GROUPED = "conv2d x=3x8x10x12 w=16x4x3x3 padding=1 groups=2"


def zero_at(*index):
    def spoil(problem, result):
        result[index] = 0
        return result

    return spoil


def shift_columns(problem, result):
    return np.ascontiguousarray(np.roll(result, 1, axis=-1))


def clip_high(problem, result):
    return np.minimum(result, 1.0)


HEALTHY = [
    ("forwards", lambda terms: terms),
    ("backwards", lambda terms: terms[::-1]),
    ("taps outermost", lambda terms: sorted(terms, key=lambda t: t[1:])),
    ("shuffled", lambda terms: [terms[i] for i in np.random.default_rng(0).permutation(len(terms))]),
]
FAULTS = [
    ("everywhere", TEXT, shift_columns, "scattered|everywhere|only"),
    ("a batch item", TEXT, zero_at(2), r"n from 2 on|n = 2"),
    ("tail channels", TEXT, zero_at(slice(None), slice(12, None)), "c_out from 12 on"),
    ("tail columns", TEXT, zero_at(..., slice(11, None)), "borders|ow = 11"),
    ("one group", GROUPED, zero_at(slice(None), slice(8, None)), r"group 1 of 2 \(channels 8\.\.15\)"),
    ("one element", TEXT, zero_at(1, 5, 4, 7), r"n = 1, c_out = 5, oh = 4, ow = 7"),
    ("upper bound", TEXT, clip_high, "scattered|everywhere"),
]


@pytest.mark.parametrize(("name", "order"), HEALTHY)
def test_any_order_of_float32_additions_is_rounding(name, order):
    found = samebits.compare(TEXT, [PlantedRunner(name, compute=add_in_float32(order))])
    (side,) = found.sides
    assert side.verdict == "rounding"
    assert side.exact_data.differing == 0
    assert side.error.max_over_bound <= 1
    assert side.error.max_ulp >= 1


@pytest.mark.parametrize(("name", "text", "spoil", "where"), FAULTS)
def test_a_planted_fault_is_wrong_and_located(name, text, spoil, where):
    found = samebits.compare(text, [PlantedRunner(name, spoil), PlantedRunner("healthy")])
    faulty, healthy = found.sides
    assert found.verdict == faulty.verdict == "wrong"
    assert healthy.verdict == "identical"
    import re

    assert re.search(where, faulty.exact_data.where), faulty.exact_data.where
    assert faulty.exact_data.where in found.summary


def test_a_border_fault_is_located_at_the_borders():
    def spoil(problem, result):
        result[..., 0, :] += 1
        result[..., -1, :] += 1
        result[..., 0] += 1
        return result

    found = samebits.compare(TEXT, [PlantedRunner("border", spoil)])
    assert found.sides[0].exact_data.where == "only in borders, where the window reaches outside"


def test_less_precision_than_declared_is_not_called_wrong_but_undecided():
    found = samebits.compare(TEXT, [PlantedRunner("bfloat16", compute=round_operands_to_bfloat16)])
    (side,) = found.sides
    assert side.exact_data.differing == 0
    assert side.verdict == found.verdict == "undecided"
    assert side.error.max_over_bound > 1


def test_sides_with_the_same_bits_are_identical_even_if_not_correctly_rounded():
    runners = [PlantedRunner(n, compute=add_in_float32(lambda terms: terms)) for n in ("one", "two")]
    found = samebits.compare(TEXT, runners)
    assert found.verdict == "identical"
    assert [s.verdict for s in found.sides] == ["rounding", "rounding"]
    assert found.differences[0].differing == 0


def test_the_truth_against_itself_is_identical():
    found = samebits.compare(TEXT, ["truth"])
    assert (found.verdict, found.sides[0].error.max_ulp) == ("identical", 0)


def test_a_crash_costs_its_own_side_only():
    found = samebits.compare(TEXT, [CrashingRunner(), PlantedRunner("healthy")])
    crashed, healthy = found.sides
    assert crashed.failure.kind == "crash"
    assert crashed.verdict == "undecided"
    assert healthy.verdict == found.verdict == "identical"


def test_a_wrong_result_on_exact_data_stays_wrong_though_the_next_run_crashes():
    class WrongThenCrashing(CrashingRunner):
        def run(self, problem, operands):
            return super().run(problem, operands) + np.float32(1)

    (side,) = samebits.compare(TEXT, [WrongThenCrashing()]).sides
    assert side.verdict == "wrong"
    assert side.failure.kind == "crash"


def test_recorded_results_of_a_case_are_sides():
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    true = samebits.compute_truth(problem, operands).values
    off = true.copy()
    off[0, 0, 0, 0] = np.nextafter(off[0, 0, 0, 0], np.float32(np.inf))
    found = samebits.compare(Case(problem, operands, {"theirs": true, "ours": off}))
    assert [s.verdict for s in found.sides] == ["identical", "rounding"]
    assert found.sides[1].worst.index == [0, 0, 0, 0]
    assert found.sides[1].worst.window == {"x": [[0, 1], [0, 8], [0, 2], [0, 2]]}
    assert found.verdict == "rounding"
    assert found.differences[0].differing == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_result_that_is_not_finite_where_the_truth_is_is_undecided(bad):
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    spoiled = samebits.compute_truth(problem, operands).values
    spoiled[1, 2, 3, 4] = bad
    (side,) = samebits.compare(Case(problem, operands, {"a": spoiled})).sides
    assert side.verdict == "undecided"
    assert side.worst.index == [1, 2, 3, 4]


def test_nan_operands_are_compared_by_where_nan_must_be():
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    operands["x"][0, 0, 0, 0] = np.nan
    true = samebits.compute_truth(problem, operands).values
    hidden = np.where(np.isnan(true), np.float32(0), true)
    sides = samebits.compare(Case(problem, operands, {"kept": true, "hidden": hidden})).sides
    assert [s.verdict for s in sides] == ["identical", "undecided"]


def test_findings_survive_json():
    found = samebits.compare(TEXT, [PlantedRunner("faulty", shift_columns), CrashingRunner()])
    assert finding_from_json(json_from_finding(found), Comparison) == found


def test_a_problem_too_large_for_this_machine_is_refused_before_anything_runs():
    with pytest.raises(ResourceLimitError, match="GiB"):
        samebits.compare("conv2d x=1x3x99999x99999 w=64x3x3x3", ["truth"])


def test_two_runners_of_one_text_get_two_names():
    found = samebits.compare(TEXT, ["truth", "truth"])
    assert [s.name for s in found.sides] == ["truth", "truth #2"]


def test_a_bad_runner_among_good_ones_opens_nothing():
    with pytest.raises(SamebitsError):
        samebits.compare(TEXT, ["truth", "nonsense"])
