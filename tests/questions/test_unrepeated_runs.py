"""Functions whose bits differ from run to run: seen by a second run, never called rounding of one order."""

import numpy as np
import pytest

import samebits
from samebits.errors import ArgumentError
from samebits.findings.causes import CauseCode

PROBLEM = "linear x=8x64 w=16x64"


def add_in(order, x, w):
    total = np.zeros((x.shape[0], w.shape[0]), np.float32)
    for k in order:
        total = total + x[:, k, None] * w[None, :, k]
    return total


def make_shuffled():
    """Adds in another order each time."""
    rng = np.random.default_rng(3)
    return lambda problem, operands: add_in(rng.permutation(64), operands["x"], operands["w"])


def in_order(problem, operands):
    return add_in(range(64), operands["x"], operands["w"])


def make_racing(at):
    """Right, but for a row that is far off in one run: the `at`th."""
    runs = []

    def racing(problem, operands):
        runs.append(1)
        result = in_order(problem, operands)
        if len(runs) == at:
            result[2] += 1000
        return result

    return racing


def test_an_order_that_changes_is_rounding_and_named():
    found = samebits.compare(PROBLEM, make_shuffled(), calls=2)
    (side,) = found.sides
    assert (found.verdict, side.cause, side.repeats) == ("rounding", CauseCode.NONDETERMINISM, False)
    assert side.recipe is None
    rng = np.random.default_rng(3)
    operands = samebits.problems.operands.make_normal(samebits.parse_problem_text(PROBLEM), 0)
    # The runs are: exact integers, the operands, the operands again; on integers every order gives the same.
    first, second = [add_in(rng.permutation(64), operands["x"], operands["w"]) for _ in range(3)][1:]
    varying = side.varying
    assert (varying.calls, varying.other, varying.faulty) == (2, 1, 0)
    assert (varying.outputs, varying.elements) == ((first != second).sum(), 128)
    assert "gives other bits in 1 of 2 calls on the same operands" in found.summary
    assert "Nothing is wrong" in found.summary


def test_whichever_run_is_wrong_counts():
    # Exact integers are the first run, the operands the next ones, then come the integers again.
    for at in (2, 3, 50, 180):
        found = samebits.compare(PROBLEM, make_racing(at), calls=100)
        assert found.verdict == "wrong", at
        (side,) = found.sides
        assert (side.repeats, side.varying.calls, side.varying.other, side.varying.faulty) == (False, 100, 1, 1)
        assert (side.varying.outputs, side.varying.where) == (16, "only in batch = 2")
        assert "racing is wrong in 1 of 100 calls on the same operands, and right in the others" in found.summary


def test_so_many_calls_as_are_asked_for_and_a_few_more_than_two_where_they_take_no_time():
    runs = []

    # As many as are cheap: on a machine that is busy fewer.
    for calls, least, most in ((1, 2, 2), (7, 14, 14), (None, 4, 400)):
        runs.clear()
        found = samebits.compare("linear x=1x2 w=1x2", lambda p, o: (runs.append(1), o["x"] @ o["w"].T)[1], calls=calls)
        assert found.sides[0].repeats is (None if calls == 1 else True)
        assert least <= len(runs) <= most
        assert found.sides[0].calls == (None if calls == 1 else len(runs))
    with pytest.raises(ArgumentError, match="calls must be a whole number from 1"):
        samebits.compare(PROBLEM, in_order, calls=0)


def test_a_fault_that_is_rare_is_found_by_reduce():
    """Once in fifty calls five columns of a row are not written."""
    runs = []

    def rare(problem, operands):
        runs.append(1)
        result = in_order(problem, operands)
        if len(runs) % 50 == 33:
            result[2, 11:] = 0
        return result

    found = samebits.reduce(PROBLEM, [rare], calls=100)
    assert (found.fault, found.repeats, found.is_smallest) == ("wrong", False, None)
    assert "in 2 of 100 calls on the same operands" in found.summary
    assert found.where == "only in batch = 2, column from 11 on (the tail)"


def test_what_repeats_says_so_and_a_first_look_does_not_ask():
    found = samebits.compare(PROBLEM, [in_order, "numpy"])
    assert [s.repeats for s in found.sides] == [True, True]
    assert CauseCode.NONDETERMINISM not in {s.cause for s in found.sides}
    assert samebits.compare(PROBLEM, make_shuffled(), attributes=False).sides[0].repeats is None
    assert samebits.compare(PROBLEM, "truth").sides[0].repeats is None
