"""The probe session: calls and time counted and limited, failures passed on, rows and positions the right ones."""

import numpy as np
import pytest

from numpy_runners import FailingRunner, PlainRunner
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineRaised, ProbeStopped
from samebits.problems import parse_problem_text

FORWARD = "conv1d x=2x4x5 w=6x2x3 groups=2 bias"
SMALL = parse_problem_text(FORWARD)


class Returns(PlainRunner):
    """Returns the same thing whatever it is asked."""

    def __init__(self, result):
        super().__init__()
        self.returned = result

    def run(self, problem, operands):
        return self.returned


def test_calls_and_time_are_counted():
    session = ProbeSession(PlainRunner(), SMALL)
    assert (session.calls, session.time_s) == (0, 0.0)
    for n in (1, 2):
        before = session.time_s
        session.ask(session.make_operands())
        assert session.calls == session.runner.calls == n
        assert session.time_s > before


def test_beyond_the_calls_allowed_no_runner_is_called():
    session = ProbeSession(PlainRunner(), SMALL, most_calls=2)
    for _ in range(2):
        session.ask(session.make_operands())
    with pytest.raises(ProbeStopped, match="stopped after 2 calls"):
        session.ask(session.make_operands())
    assert session.runner.calls == 2


def test_beyond_the_time_allowed_no_runner_is_called():
    session = ProbeSession(PlainRunner(), SMALL, most_time_s=0.0)
    with pytest.raises(ProbeStopped, match="stopped after 0 s and 0 calls"):
        session.ask(session.make_operands())
    assert session.runner.calls == 0


def test_a_runner_that_fails_raises_its_own_failure_and_the_call_counts():
    session = ProbeSession(FailingRunner(at=1), SMALL)
    with pytest.raises(EngineRaised, match="out of order"):
        session.ask(session.make_operands())
    assert session.calls == 1


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (np.zeros((2, 6, 4), np.float32), "shape"),
        (np.zeros((2, 6, 3), np.float64), "dtype"),
        ([[0.0] * 3], "a list"),
    ],
)
def test_what_is_no_result_of_the_problem_is_a_failure_of_the_runner(result, says):
    session = ProbeSession(Returns(result), SMALL)
    with pytest.raises(EngineRaised, match=says):
        session.ask(session.make_operands())


@pytest.mark.parametrize(
    ("text", "source", "rows"),
    [
        (FORWARD, "x", "w"),
        ("conv1d.grad_input x=2x4x5 w=6x2x3 groups=2", "dy", "w"),
        ("conv1d.grad_weight x=2x4x5 w=6x2x3 groups=2", "x", "dy"),
        ("conv_transpose1d x=2x4x5 w=4x3x3 groups=2 bias", "x", "w"),
        ("conv_transpose1d.grad_input x=2x4x5 w=4x3x3 groups=2", "dy", "w"),
        ("conv_transpose1d.grad_weight x=2x4x5 w=4x3x3 groups=2", "dy", "x"),
    ],
)
def test_operands_are_a_filled_source_and_rows_of_zeros_that_a_view_writes(text, source, rows):
    problem = parse_problem_text(text)
    session = ProbeSession(PlainRunner(), problem)
    operands = session.make_operands(3.0)
    assert {n: a.shape for n, a in operands.items()} == problem.operand_shapes
    assert all(a.dtype == np.float32 for a in operands.values())
    assert (operands[source] == 3.0).all()
    assert all((a == 0.0).all() for n, a in operands.items() if n != source)
    session.view_rows(operands)[...] = 5.0
    assert (operands[rows] == 5.0).all()


def test_answers_stand_by_output_channel_and_by_batch_item_then_place():
    shape = SMALL.out_shape
    result = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    answers = ProbeSession(Returns(result), SMALL).ask_by_row({})
    assert answers.dtype == np.float64
    for n, c, i in np.ndindex(shape):
        assert answers[c, n * shape[2] + i] == result[n, c, i]


def test_answers_of_a_weight_gradient_stand_by_filter_and_by_channel_then_tap():
    problem = parse_problem_text("conv1d.grad_weight x=2x4x5 w=6x2x3 groups=2")
    result = np.arange(36, dtype=np.float32).reshape(problem.w)
    answers = ProbeSession(Returns(result), problem).ask_by_row({})
    for o, c, k in np.ndindex(problem.w):
        assert answers[o, c * 3 + k] == result[o, c, k]


def test_a_row_holds_the_factors_of_its_own_sums():
    problem = parse_problem_text(FORWARD)
    session = ProbeSession(PlainRunner(), problem)
    operands = session.make_operands()
    view = session.view_rows(operands)
    rows = np.arange(36.0).reshape(6, 6)
    view[...] = rows.reshape(view.shape)
    # All sources are 1, and no output lacks a term: every output is the sum of its row.
    assert (session.ask_by_row(operands) == rows.sum(axis=1)[:, None]).all()
