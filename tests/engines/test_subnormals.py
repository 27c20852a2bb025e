"""Subnormal operands and results, kept or flushed to zero by runners in plain NumPy."""

import pytest

from numpy_runners import FailingRunner, NanRunner, PlainRunner, flush
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.subnormals import Subnormals, find_subnormals
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text

LAYER = "conv2d x=1x2x5x5 w=4x2x3x3"


def find(runner, text=LAYER, term=4, position=0, **limits):
    return find_subnormals(ProbeSession(runner, parse_problem_text(text), **limits), term, position)


@pytest.mark.parametrize(
    ("runner", "expected", "says"),
    [
        (PlainRunner(), Subnormals(True, True, True), "kept"),
        (PlainRunner(fused=True), Subnormals(True, True, True), "kept"),
        (PlainRunner(reads={"w": flush}), Subnormals(False, True, True), "operands flushed"),
        (PlainRunner(reads={"x": flush}), Subnormals(True, False, True), "operands flushed"),
        (PlainRunner(reads={"all": flush}), Subnormals(False, False, True), "operands flushed"),
        (PlainRunner(result=flush), Subnormals(True, True, False), "results flushed"),
        (PlainRunner(reads={"all": flush}, result=flush), Subnormals(False, False, False), "flushed"),
        (PlainRunner(reads={"w": flush}, result=flush), Subnormals(False, True, False), "flushed"),
    ],
)
def test_what_is_flushed_is_found_and_said(runner, expected, says):
    found = find(runner)
    assert found == expected
    assert found.says == says


@pytest.mark.parametrize(
    ("text", "rows", "source", "term", "position"),
    [
        ("conv2d.grad_input x=1x4x5x5 w=8x4x3x3 padding=1", "w", "dy", 13, 12),
        ("conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 groups=2", "dy", "x", 3, 5),
        ("conv_transpose1d x=1x4x5 w=4x8x3", "w", "x", 4, 3),
        ("conv_transpose1d.grad_weight x=1x4x5 w=4x8x3", "x", "dy", 4, 3),
    ],
)
def test_every_direction_knows_which_operand_is_flushed(text, rows, source, term, position):
    assert find(PlainRunner(), text, term, position) == Subnormals(True, True, True)
    assert find(PlainRunner(reads={rows: flush}), text, term, position) == Subnormals(False, True, True)
    assert find(PlainRunner(reads={source: flush}), text, term, position) == Subnormals(True, False, True)


@pytest.mark.parametrize("then", [" bias", " then=relu", " then=clip(0,6)"])
def test_bias_and_epilogue_hide_nothing(then):
    assert find(PlainRunner(), LAYER + then) == Subnormals(True, True, True)
    assert find(PlainRunner(result=flush), LAYER + then) == Subnormals(True, True, False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_formats_as_wide_as_float32_or_wider_are_read(dtype):
    own = PlainRunner() if dtype == "bfloat16" else PlainRunner(accumulator=lambda v: v)
    assert find(own, f"{LAYER} dtype={dtype}") == Subnormals(True, True, True)


def test_flushed_bfloat16_operands_are_found():
    assert find(PlainRunner(reads={"all": flush}), LAYER + " dtype=bfloat16") == Subnormals(False, False, True)


def test_float16_subnormals_are_normal_in_float32_and_kept():
    assert find(PlainRunner(reads={"all": flush}), LAYER + " dtype=float16") == Subnormals(True, True, True)


def test_a_subnormal_float64_result_of_float32_operands_is_out_of_their_reach():
    # 2^-1024 is no product of float32 numbers whose factors are normal.
    found = find(PlainRunner(accumulator=lambda v: v), LAYER + " out=float64")
    assert found == Subnormals(True, True, None)
    assert found.says == "kept"


def test_nan_is_no_subnormal_that_survived():
    assert find(NanRunner()) == Subnormals(False, False, False)


def test_three_calls_are_made_and_failures_come_through():
    runner = PlainRunner()
    find(runner)
    assert runner.calls == 3
    with pytest.raises(EngineFailure):
        find(FailingRunner(at=3))
    with pytest.raises(ProbeStopped):
        find(PlainRunner(), most_calls=2)
