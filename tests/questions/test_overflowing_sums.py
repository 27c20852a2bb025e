"""Partial sums that leave the declared range: an infinity or NaN is no fault there, and anywhere else it is one."""

import numpy as np
import pytest

import samebits
from samebits.problems.case_file import Case
from samebits.problems.terms import find_terms

# 3e38 + 3e38 is beyond float32, and so is -3e38 - 3e38; the five channels add up to 3e38.
SIGNS = (1, 1, -1, -1, 1)
PROBLEM = samebits.parse_problem_text("conv1d x=1x5x4 w=1x5x1")


def explain(result, scale=3e38, signs=SIGNS):
    x = (np.array(signs, np.float64).reshape(1, 5, 1) * np.full((1, 5, 4), scale)).astype(np.float32)
    operands = {"x": x, "w": np.ones((1, 5, 1), np.float32)}
    return samebits.explain(Case(PROBLEM, operands, {"side": np.asarray(result, np.float32).reshape(1, 1, 4)})).sides[0]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_an_order_that_overflows_is_rounding(value):
    side = explain([value] * 4)
    assert (side.verdict, side.cause) == ("rounding", "overflow")
    assert not any("bounds prove" in e.says for e in side.evidence)


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_terms_of_one_sign_overflow_to_its_infinity_and_to_nothing_else(value):
    right = explain([np.inf] * 4, 1e38, (1,) * 5)
    assert (right.verdict, right.certainty) == ("identical", "bits")
    side = explain([np.inf, np.inf, np.inf, value], 1e38, (1,) * 5)
    assert side.verdict in ("undecided", "wrong")


def test_some_outputs_in_an_order_that_overflows_are_rounding_too():
    assert explain([np.inf, np.float32(3e38), np.inf, np.float32(3e38)]).verdict == "rounding"


@pytest.mark.parametrize("value", [0.0, 1e38, -3e38])
def test_a_number_that_no_order_gives_is_a_fault_still(value):
    assert explain([value] * 4).verdict == "wrong"


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_without_overflow_infinities_are_a_fault(value):
    side = explain([value, 1.0, 1.0, 1.0], scale=1.0)
    assert side.verdict == "wrong"


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
@pytest.mark.parametrize("kind", ["conv2d", "conv2d.grad_weight", "conv_transpose2d"])
def test_plain_loops_over_large_numbers_are_never_at_fault(kind, order):
    """float32 sums in NumPy, one term after the other, of numbers whose squares are near the largest."""
    problem = samebits.parse_problem_text(f"{kind} x=2x3x5x5 w=3x3x2x2")
    random = np.random.default_rng(len(kind) + order[0])
    operands = {n: (random.standard_normal(s) * 1.5e19).astype(np.float32) for n, s in problem.operand_shapes.items()}
    terms = find_terms(problem)
    rows = terms.view_rows(operands[terms.rows_operand]).astype(np.float32)
    source = terms.view_source(operands[terms.source_operand])
    at = terms.locate_sources(np.arange(np.prod(terms.outputs)))
    result = np.zeros(problem.out_shape, np.float32)
    sums = np.zeros((terms.groups, terms.rows, terms.batch, len(at)), np.float32)
    with np.errstate(all="ignore"):
        for d in sorted(range(terms.depth), key=lambda d: (order[d % 3], d)):
            for v in range(terms.volume):
                read = np.where(at[:, v] >= 0, source[:, :, d][..., np.maximum(at[:, v], 0)], np.float32(0))
                sums += rows[:, :, d, v][:, :, None, None] * read[:, None]
    terms.view_result(result)[...] = sums
    side = samebits.explain(Case(problem, operands, {"side": result})).sides[0]
    assert side.verdict in ("rounding", "identical"), [e.says for e in side.evidence]
