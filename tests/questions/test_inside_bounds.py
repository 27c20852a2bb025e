"""Results inside their bound whose errors are larger than independent roundings make them: neither right nor proved."""

import numpy as np
import pytest

from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

PROBLEM = parse_problem_text("matmul x=24x400 w=400x12")


def record(change, *, sides=1):
    """Products of random operands by BLAS; one column of the first side is changed."""
    random = np.random.default_rng(5)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((24, 400), (400, 12)))
    changed = x @ w
    changed[:, 3] += np.float32(change)
    results = {"a": changed, "b": x @ w}
    return Case(PROBLEM, {"x": x, "w": w}, dict(list(results.items())[:sides]))


@pytest.mark.slow
def test_a_shift_that_the_bound_leaves_room_for_is_named_and_not_proved():
    found = explain_case(record(0.002))
    side = found.sides[0]
    assert side.error.max_over_bound < 1 < side.error.max_over_likely
    assert (side.verdict, side.certainty, side.cause) == ("rounding", "bounds", None)
    assert "a is not shown to be wrong" in found.summary
    said = " ".join(e.says for e in side.evidence)
    assert "adds a number of its own to each channel" in said
    assert "of the squared error" in said
    assert "nothing proves it" in said
    assert "excluded" not in said


@pytest.mark.parametrize("sides", [1, 2])
def test_what_only_rounds_is_called_right(sides):
    found = explain_case(record(0.0, sides=sides))
    assert all(s.error.max_over_likely <= 1 for s in found.sides)
    assert "not shown" not in found.summary
    assert "shown to be" not in found.summary
    assert all(s.cause == "summation-order" for s in found.sides)


@pytest.mark.slow
def test_of_two_sides_none_is_called_right_that_is_not_likely():
    found = explain_case(record(0.002, sides=2))
    assert found.summary.startswith("None is shown to be wrong")


def test_sums_of_few_values_round_alike_and_a_shift_of_them_does_not():
    """Beyond the likely bound for the data's sake: the same sums in turn are there, too; a shifted column is not."""
    random = np.random.default_rng(6)
    x, w = (
        random.choice(v, s).astype(np.float32) for v, s in (([0.1, 0.3, 0.7], (24, 2000)), ([0.1, 0.3], (2000, 12)))
    )
    total = np.zeros((24, 12), np.float32)
    for k in random.permutation(2000):
        total = total + x[:, k, None] * w[None, k]
    shifted = total.copy()
    shifted[:, 3] += np.float32(0.004)
    found = explain_case(
        Case(parse_problem_text("matmul x=24x2000 w=2000x12"), {"x": x, "w": w}, {"a": total, "b": shifted})
    )
    assert all(s.error.max_over_likely > 1 > s.error.max_over_bound for s in found.sides)
    assert [s.cause for s in found.sides] == ["summation-order", None]
