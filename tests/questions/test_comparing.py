"""Verdicts on injected faults and on their fault-free controls."""

import re

import ml_dtypes
import numpy as np
import pytest

import samebits
from injected_runners import CrashingRunner, InjectedRunner, add_in_float32, round_operands_to_bfloat16
from samebits.errors import ResourceLimitError, SamebitsError
from samebits.findings import Comparison, finding_from_json, json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.progress import FirstVerdict

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


FAULT_FREE = [
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


@pytest.mark.parametrize(("name", "order"), FAULT_FREE)
def test_any_order_of_float32_additions_is_rounding(name, order):
    found = samebits.compare(TEXT, [InjectedRunner(name, compute=add_in_float32(order))])
    (side,) = found.sides
    assert side.verdict == "rounding"
    assert side.exact_data.differing == 0
    assert side.error.max_over_bound <= 1
    assert side.error.max_ulp >= 1


@pytest.mark.parametrize(("name", "text", "spoil", "where"), FAULTS)
def test_an_injected_fault_is_wrong_and_located(name, text, spoil, where):
    found = samebits.compare(text, [InjectedRunner(name, spoil), InjectedRunner("fault-free")], attributes=False)
    faulty, fault_free = found.sides
    assert found.verdict == faulty.verdict == "wrong"
    assert fault_free.verdict == "identical"

    assert re.search(where, faulty.exact_data.where), faulty.exact_data.where
    assert faulty.exact_data.where in found.summary


def test_a_border_fault_is_located_at_the_borders():
    def spoil(problem, result):
        result[..., 0, :] += 1
        result[..., -1, :] += 1
        result[..., 0] += 1
        return result

    found = samebits.compare(TEXT, [InjectedRunner("border", spoil)])
    assert found.sides[0].exact_data.where == "only in borders, where the window reaches outside"


def test_less_precision_than_declared_is_not_called_wrong_but_named():
    found = samebits.compare(TEXT, [InjectedRunner("bfloat16", compute=round_operands_to_bfloat16)])
    (side,) = found.sides
    assert side.exact_data.differing == 0
    assert side.verdict == found.verdict == "downgrade"
    assert (side.cause, side.cause_certainty) == ("reduced-precision-operands", "bits")
    assert side.error.max_over_bound > 1
    quick = samebits.compare(TEXT, [InjectedRunner("bfloat16", compute=round_operands_to_bfloat16)], attributes=False)
    assert quick.verdict == "undecided"


def test_sides_with_the_same_bits_are_identical_even_if_not_correctly_rounded():
    runners = [InjectedRunner(n, compute=add_in_float32(lambda terms: terms)) for n in ("one", "two")]
    found = samebits.compare(TEXT, runners)
    assert found.verdict == "identical"
    assert [s.verdict for s in found.sides] == ["rounding", "rounding"]
    assert found.differences[0].differing == 0


def test_the_truth_against_itself_is_identical():
    found = samebits.compare(TEXT, ["truth"])
    assert (found.verdict, found.sides[0].error.max_ulp) == ("identical", 0)


def test_a_crash_costs_its_own_side_only():
    found = samebits.compare(TEXT, [CrashingRunner(), InjectedRunner("fault-free")])
    crashed, fault_free = found.sides
    assert crashed.failure.kind == "crash"
    assert crashed.verdict == "undecided"
    assert fault_free.verdict == found.verdict == "identical"


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
def test_a_result_that_is_not_finite_where_the_truth_is_is_wrong(bad):
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    spoiled = samebits.compute_truth(problem, operands).values
    spoiled[1, 2, 3, 4] = bad
    (side,) = samebits.compare(Case(problem, operands, {"a": spoiled})).sides
    assert side.verdict == "wrong"
    assert side.worst.index == [1, 2, 3, 4]


def test_nan_operands_are_compared_by_where_nan_must_be():
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    operands["x"][0, 0, 0, 0] = np.nan
    true = samebits.compute_truth(problem, operands).values
    hidden = np.where(np.isnan(true), np.float32(0), true)
    sides = samebits.compare(Case(problem, operands, {"kept": true, "hidden": hidden})).sides
    assert [s.verdict for s in sides] == ["identical", "wrong"]


def test_findings_survive_json():
    found = samebits.compare(TEXT, [InjectedRunner("faulty", shift_columns), CrashingRunner()])
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


@pytest.mark.parametrize(
    "result", [np.zeros((1, 2), np.float32), np.zeros((3, 16, 10, 12)), np.zeros((3, 16, 10, 12), ">f4"), None, "text"]
)
def test_a_runner_that_returns_something_else_is_a_finding_of_its_side(result):
    runner = InjectedRunner("odd")
    runner.run = lambda problem, operands: result
    odd, fault_free = samebits.compare(TEXT, [runner, InjectedRunner("fault-free")]).sides
    assert odd.failure.kind == "error"
    assert fault_free.verdict == "identical"


@pytest.mark.parametrize(
    "arguments",
    [
        {"seed": -1},
        {"seed": 0.5},
        {"data": "bogus"},
        {"on": b"torch"},
        {"on": [3]},
        {"on": None},
        {"time_limit_s": float("nan")},
        {"time_limit_s": "a"},
        {"subject": 3},
    ],
)
def test_arguments_that_are_none_are_refused(arguments):
    with pytest.raises(SamebitsError):
        samebits.compare(**{"subject": TEXT, "on": ["truth"], **arguments})


def drop_padding(problem, operands):
    bare = parse_problem_text("conv2d x=3x8x12x14 w=16x8x3x3")
    x = np.pad(operands["x"], ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    return samebits.compute_truth(bare, {"x": x, "w": operands["w"]}).values


RECORDED_FAULTS = [
    ("padded by the edge", drop_padding, "borders"),
    ("shifted", lambda p, o: np.roll(samebits.compute_truth(p, o).values, 1, -1), ""),
    (
        "batch item zero",
        lambda p, o: samebits.compute_truth(p, o).values * np.float32([1, 0, 1]).reshape(3, 1, 1, 1),
        "n = 1",
    ),
    ("flipped kernel", lambda p, o: samebits.compute_truth(p, {**o, "w": o["w"][:, :, ::-1, ::-1]}).values, ""),
]


@pytest.mark.parametrize(("name", "compute", "where"), RECORDED_FAULTS)
def test_a_recorded_result_of_another_function_is_wrong_and_located(name, compute, where):
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    (side,) = samebits.compare(Case(problem, operands, {name: compute(problem, operands)})).sides
    assert side.verdict == "wrong"
    assert side.exact_data is None
    assert where in side.where


def test_nothing_is_said_of_exact_integers_where_none_were_run():
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    recorded = {"bfloat16": round_operands_to_bfloat16(problem, operands)}
    found = samebits.compare(Case(problem, operands, recorded))
    assert found.verdict == "downgrade"
    assert "on exact integers" not in found.summary


def test_bfloat16_throughout_is_not_taken_for_another_function():
    """The narrowest arithmetic there is, added one by one: far from the truth, but never called wrong."""

    def compute(problem, operands):
        x, w = (operands[n].astype(ml_dtypes.bfloat16) for n in ("x", "w"))
        total = np.zeros(problem.out_shape, ml_dtypes.bfloat16)
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        for c in range(8):
            for i in range(3):
                for j in range(3):
                    window = x[:, None, c, i : i + 10, j : j + 12]
                    total = total + window * w[None, :, c, i, j, None, None]
        return total.astype(np.float32)

    for seed in range(5):
        (side,) = samebits.compare(TEXT, [InjectedRunner("bfloat16", compute=compute)], seed=seed).sides
        assert side.verdict in ("undecided", "downgrade")


def test_overflow_at_the_edge_of_the_format_is_within_the_bound():
    problem = parse_problem_text("conv1d x=1x3x1 w=1x3x1 dtype=float16")
    operands = {
        "x": np.array([65504, 16, -(2.0**-12)], np.float16).reshape(1, 3, 1),
        "w": np.ones((1, 3, 1), np.float16),
    }
    (side,) = samebits.compare(Case(problem, operands, {"float32": np.full((1, 1, 1), np.inf, np.float16)})).sides
    assert side.verdict == "rounding"
    (side,) = samebits.compare(Case(problem, operands, {"lower": np.full((1, 1, 1), -np.inf, np.float16)})).sides
    assert side.verdict == "undecided"


def test_an_infinite_weight_over_padding_leaves_a_bound():
    problem = parse_problem_text("conv1d x=1x1x4 w=1x1x3 padding=1")
    operands = {
        "x": np.float32([1, 0.1, 0.3, 0.7]).reshape(1, 1, 4),
        "w": np.float32([np.inf, 0.1, 0.3]).reshape(1, 1, 3),
    }
    result = samebits.compute_truth(problem, operands).values
    result[0, 0, 0] = np.nextafter(result[0, 0, 0], np.float32(1))
    (side,) = samebits.compare(Case(problem, operands, {"near": result})).sides
    assert side.verdict == "rounding"


def test_a_term_that_is_lost_is_proved_on_further_integers_where_the_first_ones_are_zero_there():
    """One output of a long sum: most of its terms are 0 on exact integers, the lost one among them."""

    def last_lost(problem, operands):
        return operands["x"][:, :-1] @ operands["w"][:, :-1].T

    found = samebits.compare("linear x=1x133 w=1x133", [last_lost])
    assert found.sides[0].verdict == "wrong"
    assert found.sides[0].exact_data.differing == 1


def test_a_first_verdict_is_said_before_it_is_found_out_how_sides_add():
    forwards, backwards = (InjectedRunner(n, compute=add_in_float32(o)) for n, o in FAULT_FREE[:2])
    wrong = InjectedRunner("w", compute=add_in_float32(FAULT_FREE[0][1]), spoil=shift_columns)
    for runners, verdict in (([forwards, backwards], "rounding"), ([forwards, wrong], "wrong")):
        heard = []
        found = samebits.compare(TEXT, runners, progress=lambda what, share, heard=heard: heard.append(what))
        (first,) = (what for what in heard if isinstance(what, FirstVerdict))
        assert first.startswith(f"so far {verdict}: ")
        assert found.verdict == verdict
        assert any("probing" in what for what in heard[heard.index(first) :])
        assert not any("probing" in what for what in heard[: heard.index(first)])
    heard = []
    samebits.compare(TEXT, [forwards, backwards], attributes=False, progress=lambda what, share: heard.append(what))
    assert not any(isinstance(what, FirstVerdict) for what in heard)
