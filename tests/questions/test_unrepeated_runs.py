"""Functions whose bits differ from run to run: seen by a second run, never called rounding of one order."""

import numpy as np

import samebits
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
    found = samebits.compare(PROBLEM, make_shuffled())
    (side,) = found.sides
    assert (found.verdict, side.cause, side.repeats) == ("rounding", CauseCode.NONDETERMINISM, False)
    assert side.recipe is None
    assert "gives other bits when run again. Nothing is wrong" in found.summary
    (said,) = (e.says for e in side.evidence if "run again" in e.says)
    rng = np.random.default_rng(3)
    operands = samebits.problems.operands.make_normal(samebits.parse_problem_text(PROBLEM), 0)
    # The runs are: exact integers, the operands, the operands again.
    first, second = [add_in(rng.permutation(64), operands["x"], operands["w"]) for _ in range(3)][1:]
    assert said.startswith(f"run again on the same operands, {(first != second).sum()} of 128 outputs")


def test_whichever_run_is_wrong_counts():
    # Exact integers are the first run, the operands the second and third.
    for at in (2, 3):
        found = samebits.compare(PROBLEM, make_racing(at))
        assert found.verdict == "wrong", at
        assert found.sides[0].repeats is False
        assert found.sides[0].where == "only in batch = 2"
        assert "racing gives other bits when run again." in found.summary


def test_what_repeats_says_so_and_a_first_look_does_not_ask():
    found = samebits.compare(PROBLEM, [in_order, "numpy"])
    assert [s.repeats for s in found.sides] == [True, True]
    assert CauseCode.NONDETERMINISM not in {s.cause for s in found.sides}
    assert samebits.compare(PROBLEM, make_shuffled(), attributes=False).sides[0].repeats is None
    assert samebits.compare(PROBLEM, "truth").sides[0].repeats is None
