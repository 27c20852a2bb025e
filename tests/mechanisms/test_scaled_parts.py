"""A part of a result that is multiplied by one number; results of plain NumPy, and controls."""

import ml_dtypes
import numpy as np
import pytest

import samebits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

TEXT = "linear x=24x64 w=40x64"


def explain(change, text=TEXT):
    problem = parse_problem_text(text)
    draw = np.random.default_rng(7)
    operands = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in problem.operand_shapes.items()}
    right = operands["x"] @ operands["w"].T
    return samebits.explain(Case(problem, operands, {"theirs": right, "mine": change(right.copy())})).sides[1]


def scale(part, factor):
    def change(result):
        result[part] *= np.float32(factor)
        return result

    return change


@pytest.mark.parametrize("factor", [1.001, 0.5, 1.5, -1.0, 1e-3])
@pytest.mark.parametrize(
    ("part", "where", "cause"),
    [
        ((slice(None), 8), "only in column 8", "fusion"),
        ((5,), "only in batch = 5", "shape-specific-kernel"),
        ((slice(None), slice(32, None)), "only in column from 32 on", "fusion"),
    ],
)
def test_the_factor_and_its_place_are_named(part, where, cause, factor):
    side = explain(scale(part, factor))
    assert side.verdict == "wrong"
    assert f"returns {factor:g} times the sums" in side.says
    assert where in side.says
    assert side.cause == cause
    assert side.cause_certainty == "statistics"


def round_column(result):
    result[:, 8] = result[:, 8].astype(ml_dtypes.bfloat16).astype(np.float32)
    return result


def shift_column(result):
    result[:, 8] += np.float32(0.25)
    return result


def disturb_column(result):
    noise = np.random.default_rng(3).uniform(0.9, 1.1, len(result)).astype(np.float32)
    result[:, 8] *= noise
    return result


def exchange_columns(result):
    result[:, [8, 9]] = result[:, [9, 8]]
    return result


@pytest.mark.parametrize("change", [lambda r: r, round_column, shift_column, disturb_column, exchange_columns])
def test_what_is_no_factor_is_not_called_one(change):
    side = explain(change)
    assert "times the sums" not in (side.says or "")


def test_a_short_column_is_told_by_how_near_all_of_it_is():
    side = explain(scale((slice(None), 7), 0.99), "linear x=12x40 w=10x40")
    assert "returns 0.99 times the sums only in column 7" in side.says


def test_few_sums_tell_no_factor():
    # To one output any factor fits.
    side = explain(scale((3, 4), 1.5))
    assert "times the sums" not in (side.says or "")
