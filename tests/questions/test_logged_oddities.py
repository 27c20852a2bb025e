"""Logs whose numbers cannot be, and logs that say the same again and again: sentences, no traceback, no warning."""

import itertools

import numpy as np
import pytest

import samebits
from samebits.findings import json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.explain.logged import logged_mismatch, logged_simulation

# Left out of `make quick`.
pytestmark = pytest.mark.slow

SMALL = "conv2d x=1x4x6x6 w=4x4x3x3 dtype=float32"
XLA_END = "E gpu_conv_algorithm_picker.cc:545] Results mismatch between different convolution algorithms"
VALUES = (
    "0", "-0", "1", "-1", "36.5", "nan", "-nan", "inf", "-inf", "5e-324", "-5e-324", "1e308", "-1e308", "1e999",
    "1e-999", "9" * 400,
)  # fmt: skip
PROBLEMS = (
    "",
    "conv1d x=1x2x6 w=2x2x3 dtype=float64",
    "conv1d x=1x2x6 w=2x2x3 dtype=float16",
    "conv1d x=1x2x6 w=2x2x3 dtype=float8_e4m3fn",
    "conv1d x=1x2x6 w=2x2x3 dtype=bfloat16 out=float32",
    # Most windows lie in the padding.
    "conv1d x=1x2x2 w=2x2x3 padding=9 dtype=float32",
    "conv1d x=1x2x6 w=2x2x3 dtype=float32 then=clip(0,0)",
    "conv1d x=1x2x6 w=2x2x3 dtype=float32 then=clip(-7,-5)",
    "conv1d x=1x2x6 w=2x2x3 dtype=float64 then=clip(1e+308,inf)",
    "conv1d x=1x2x6 w=2x2x3 dtype=float64 then=clip(inf,inf)",
    "conv1d.grad_weight x=3x2x6 w=2x2x3 dtype=float16",
)


def explain_text(tmp_path, text):
    path = tmp_path / "some.log"
    path.write_text(text)
    found = samebits.explain(path)
    json_from_finding(found)
    for one in (found, *found.more):
        assert one.summary.endswith(".")
        assert len(one.summary) < 600
    return found


def say_all(found):
    evidence = [*found.evidence, *(e for s in found.sides for e in s.evidence)]
    return " ".join([found.summary, *(e.says for e in evidence)])


def write_pairs(problem, first, second, names=""):
    """A mismatch of four lines, of five with names."""
    lines = [f"Difference at {i}: {first} vs {second}" for i in range(2)]
    if names:
        lines.append(f"%c = f32[1] convolution(f32[1] %a){names}")
    return "\n".join([problem, *lines, XLA_END, ""])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_pairs_of_any_values_are_explained_in_sentences(tmp_path, monkeypatch, problem):
    monkeypatch.setattr(logged_mismatch, "_MOST_MISMATCHES", 1000)
    log = "".join(write_pairs("", a, b) for a, b in itertools.product(VALUES, VALUES))
    found = explain_text(tmp_path, f"{problem}\n{log}")
    assert len(found.more) > len(VALUES) ** 2 / 2
    assert all(len(one.sides) == 2 for one in (found, *found.more))
    assert all((problem or "no problem") in one.problem for one in (found, *found.more))


@pytest.mark.parametrize("problem", ["", SMALL])
def test_statistics_of_any_values_are_explained_in_sentences(tmp_path, monkeypatch, problem):
    monkeypatch.setattr(logged_mismatch, "_MOST_MISMATCHES", 1000)
    means = itertools.cycle(["0", "-1", "nan", "inf", "5e-324", "1e308", "-0"])
    log = "".join(
        f"Accuracy Comparison | a vs. b\n"
        f"y | Stats: mean=0, min=-1, max={value}\n"
        f"Absolute Difference | Stats: mean={mean}, min=0, max={largest}\n"
        f"Relative Difference | Stats: mean={mean}, min=0, max={largest}\n"
        for (largest, value), mean in zip(itertools.product(VALUES, VALUES), means, strict=False)
    )
    found = explain_text(tmp_path, f"{problem}\n{log}")
    assert len(found.more) > len(VALUES) ** 2 / 2


@pytest.mark.parametrize("names", [" for A vs A", " for A vs B"])
def test_an_impossible_side_is_named_where_both_have_one_name(tmp_path, names):
    found = explain_text(tmp_path, write_pairs("", "nan", "36", names))
    assert [s.verdict for s in found.sides] == ["wrong", "undecided"]
    assert found.sides[0].name != found.sides[1].name


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("Mismatched elements: 5 / 3\n", "5 mismatches among 3 elements, which cannot be"),
        ("Mismatched elements: 0 / 0\n", "compares no elements"),
        ("Mismatched elements: 1 / 32\n", "compares 32 elements, but the problem in line 1 has 64 outputs"),
        ("Mismatched elements: 1 / 64\nGreatest absolute difference: -1 at\n", "the largest difference is -1"),
        ("Mismatched elements: 1 / 64\nGreatest absolute difference: nan at\n", "a side holds NaN or an infinity"),
        ("Mismatched elements: 1 / 64\nMax relative difference: -inf\n", "relative difference is -inf"),
        ("Difference at 64: 1 vs 2\n", "compares an element 64, but the problem in line 1 has 64 outputs"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, lines, says):
    assert says in say_all(explain_text(tmp_path, f"{SMALL}\n{lines}"))


def test_what_can_be_is_not_called_odd(tmp_path):
    lines = "Mismatched elements: 64 / 64\nGreatest absolute difference: 0.5 at\nGreatest relative difference: inf at\n"
    assert explain_text(tmp_path, f"{SMALL}\n{lines}").evidence == []
    assert explain_text(tmp_path, f"{SMALL}\nDifference at 63: 1 vs 2\n").evidence == []


def test_a_logged_share_suggests_the_mechanism_whose_own_is_nearest(tmp_path):
    # bfloat16 keeps 8 bits of each operand: errors of some 2^-9 of the largest output.
    stats = "y | Stats: mean=0, min=-1, max=1\nAbsolute Difference | Stats: mean=1e-3, min=0, max=2e-3\n"
    found = explain_text(tmp_path, f"{SMALL}\n{stats}Relative Difference | Stats: mean=1, min=0, max=2\n")
    assert found.cause == "reduced-precision-operands"


def count_calls(monkeypatch, module, name):
    calls = []
    own = getattr(module, name)

    def counted(*args, **kwargs):
        calls.append(args)
        return own(*args, **kwargs)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_what_a_log_repeats_is_explained_once_and_says_where(tmp_path, monkeypatch):
    rebuilt = count_calls(monkeypatch, logged_simulation, "rebuild")
    other = write_pairs("", "36", "1")
    block = write_pairs("", "36", "30")
    found = explain_text(tmp_path, f"{SMALL}\n" + block * 12 + other + block)
    (second,) = found.more
    # Blocks of four lines, the first of them empty.
    assert (found.line, second.line) == (3, 51)
    assert "again from lines 7, 11, 15, 19, 23, 27, 31, 35 and 4 more on" in found.evidence[0].says
    assert second.evidence == []
    assert len(rebuilt) == 1


def test_different_mismatches_of_one_problem_share_its_simulations(tmp_path, monkeypatch):
    listed = count_calls(monkeypatch, logged_simulation, "list_recipe_hypotheses")
    sums = 36 * 0.25
    values = [(sums, sums * (0.3 + 0.01 * i)) for i in range(9)]
    # Each block of one problem stands before one of the other.
    blocks = [write_pairs(p, *v) for v in values for p in (SMALL, "conv1d x=1x36x6 w=2x36x1 dtype=float32")]
    found = explain_text(tmp_path, "".join(blocks))
    assert len(found.more) == len(blocks) - 1
    # Usual ones and thorough ones, of two problems.
    assert 2 <= len(listed) <= 4
    lines = [f.line for f in (found, *found.more)]
    assert lines == sorted(lines)


def test_what_is_left_out_of_a_long_log_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(logged_mismatch, "_MOST_MISMATCHES", 3)
    blocks = [write_pairs("", 36, 30 + i) for i in (1, 2, 3, 4, 1, 5, 4)]
    found = explain_text(tmp_path, "".join(blocks))
    assert len(found.more) == 2
    says = " ".join(e.says for e in found.evidence)
    assert "again from line 18 on" in says
    # 4 (its block begins in line 13), 5 and 4 again: three mismatches.
    assert "3 more mismatches of the log are not explained, from line 14 on: only the first 3" in says
    assert all(f.evidence == [] for f in found.more)


def test_one_other_hypothesis_is_one(tmp_path, monkeypatch):
    own = logged_simulation._simulate_ratios

    def keep_two(*args, **kwargs):
        first, second, *_ = own(*args, **kwargs)
        ratios = ((0.5, first.hypothesis), (0.9, second.hypothesis))
        return [logged_simulation.Simulated(ratio, 0.0, hypothesis) for ratio, hypothesis in ratios]

    monkeypatch.setattr(logged_simulation, "_simulate_ratios", keep_two)
    # 36 products of 1/4 on average.
    found = explain_text(tmp_path, write_pairs(SMALL, 9, 4.5))
    assert "1 other hypothesis does not fit" in say_all(found)


def test_averages_of_the_largest_numbers_stay_finite():
    values = np.full(3, 1.5e308)
    assert logged_simulation.average(values) == 1.5e308
    assert logged_simulation.measure_spread(values) == 0.0
    assert logged_simulation.average(np.array([1.0, 3.0, 8.0])) == 4.0
    assert logged_simulation.measure_spread(np.array([2.0, 4.0])) == 1.0


def test_a_case_of_odd_values_warns_of_nothing():
    problem = parse_problem_text("conv1d x=1x4x9 w=2x4x3 dtype=float32")
    odd = (np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 0.0)
    # A warning is an error here (pyproject.toml).
    for inside in odd:
        for value in odd:
            operands = make_normal(problem, 1)
            operands["x"][0, 0, 4] = inside
            result = np.full(problem.out_shape, value, np.float32)
            result[0, 0, 0] = 1
            samebits.explain(Case(problem, operands, {"a": result, "b": -result}))
