"""The rule that makes verdicts, as a table: what was measured and what made it, against what is to be said."""

import numpy as np
import pytest

from samebits.findings import Difference, Evidence, ExactData
from samebits.findings.causes import CauseCode
from samebits.judging.judging_sentences import (
    say_another_function,
    say_beyond,
    say_inexact,
    say_right_on_integers,
    say_within,
    say_wrong_on_integers,
)
from samebits.judging.measuring import Distances
from samebits.judging.verdict_rules import Measured, Mechanism, judge_all, judge_side
from samebits.problems import parse_problem_text

PROBLEM = parse_problem_text("conv1d x=1x4x3 w=2x4x1 dtype=float32")
RIGHT = ExactData(0, 6, None, None, None, None)
OFF = ExactData(2, 6, "only in c_out = 1", [0, 1, 0], 3.0, 4.0)


def measure(share):
    """Distances whose first output uses so much of its bound; the others are true."""
    values = np.zeros((1, 2, 3))
    values[0, 0, 0] = share
    return Distances(values, values, values)


FAR = measure(9.0).absolute > 1
TRUE, EDGE, WITHIN, BEYOND = measure(0.0), measure(1.0), measure(0.5), measure(9.0)
ON_TRUE = Evidence("statistic", "every output is correctly rounded")
ON_WITHIN = Evidence("statistic", say_within(PROBLEM, WITHIN.over_bound))
ON_BEYOND = Evidence("statistic", say_beyond(PROBLEM, BEYOND.over_bound))
ON_FAR = Evidence("structure", say_another_function(PROBLEM, FAR))
ON_RIGHT = Evidence("structure", say_right_on_integers(RIGHT))
ON_INEXACT = Evidence("structure", say_inexact(OFF))
ON_WRONG = Evidence("structure", say_wrong_on_integers(OFF))


def mechanism(cause, verdict, fit, *, sampled=False):
    return Mechanism(cause, verdict, "does something", fit, sampled)


ORDER = mechanism(CauseCode.SUMMATION_ORDER, "rounding", "bits")
WINOGRAD = mechanism(CauseCode.WINOGRAD, "downgrade", "bits")
NEAR_WINOGRAD = mechanism(CauseCode.WINOGRAD, "downgrade", "nearness")
TF32 = mechanism(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", "bits")
SAMPLED_TF32 = mechanism(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", "bits", sampled=True)
NEAR_TF32 = mechanism(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", "nearness")
OVERFLOW = mechanism(CauseCode.OVERFLOW, "rounding", "bound")
LOST_RANGE = mechanism(CauseCode.OVERFLOW, "downgrade", "bound")
PADDING = mechanism(CauseCode.PADDING, "wrong", "bound")
REPLAYED_PADDING = mechanism(CauseCode.PADDING, "wrong", "bits")
UNNAMED = mechanism(None, "wrong", "bound")

EXACTLY, INSIDE = Measured(None, False, TRUE, False), Measured(None, False, WITHIN)
OUTSIDE, ELSEWHERE = Measured(None, False, BEYOND), Measured(None, False, BEYOND, True, FAR)
CUT = CauseCode.REDUCED_PRECISION_OPERANDS
PROVED_TRUE, PROVED_WRONG = ("identical", "bits", None, None), ("wrong", "bounds", None, None)
ROUNDS = ("rounding", "bounds", None, None)
OPEN = ("undecided", "open", None, None)
# Measured, mechanism -> verdict, certainty, cause, certainty of the cause; evidence.
TABLE = {
    "nothing known": (Measured(), None, OPEN, []),
    "only right integers": (Measured(RIGHT), None, OPEN, [ON_RIGHT]),
    "only inexact integers": (Measured(OFF), None, OPEN, [ON_INEXACT]),
    "wrong integers, nothing else": (Measured(OFF, True), None, PROVED_WRONG, [ON_WRONG]),
    "wrong integers outweigh a true result": (
        Measured(OFF, True, TRUE, False), ORDER, PROVED_WRONG, [ON_WRONG],
    ),
    "true": (EXACTLY, None, PROVED_TRUE, [ON_TRUE]),
    "true, integers too": (Measured(RIGHT, False, TRUE, False), None, PROVED_TRUE, [ON_RIGHT, ON_TRUE]),
    "true, but integers inexact": (Measured(OFF, False, TRUE, False), None, OPEN, [ON_INEXACT, ON_TRUE]),
    "true needs no mechanism": (EXACTLY, TF32, PROVED_TRUE, [ON_TRUE]),
    "within": (INSIDE, None, ROUNDS, [ON_WITHIN]),
    "within, integers right": (Measured(RIGHT, False, WITHIN), None, ROUNDS, [ON_RIGHT, ON_WITHIN]),
    "within, integers inexact": (Measured(OFF, False, WITHIN), None, OPEN, [ON_INEXACT, ON_WITHIN]),
    "on the bound": (
        Measured(None, False, EDGE), None, ROUNDS,
        [Evidence("statistic", say_within(PROBLEM, EDGE.over_bound))],
    ),
    "within, replayed order": (
        INSIDE, ORDER, ("rounding", "bounds", CauseCode.SUMMATION_ORDER, "bits"), [ON_WITHIN],
    ),
    "within, a transform rounds": (
        Measured(OFF, False, WITHIN), WINOGRAD, ("rounding", "bounds", CauseCode.WINOGRAD, "bits"),
        [ON_INEXACT, ON_WITHIN],
    ),
    "within, a transform inferred": (
        INSIDE, NEAR_WINOGRAD, ("rounding", "bounds", CauseCode.WINOGRAD, "statistics"), [ON_WITHIN],
    ),
    "within, operands rounded all the same": (
        INSIDE, TF32, ("downgrade", "bits", CUT, "bits"), [ON_WITHIN],
    ),
    "within, operands rounded, seen in a sample": (
        INSIDE, SAMPLED_TF32,
        ("downgrade", "statistics", CUT, "statistics"), [ON_WITHIN],
    ),
    "within, operands rounded, inferred": (
        INSIDE, NEAR_TF32,
        ("downgrade", "statistics", CUT, "statistics"), [ON_WITHIN],
    ),
    "within, partial sums overflow": (
        INSIDE, OVERFLOW, ("rounding", "bounds", CauseCode.OVERFLOW, "statistics"), [ON_WITHIN],
    ),
    "within, range lost": (
        INSIDE, LOST_RANGE, ("downgrade", "statistics", CauseCode.OVERFLOW, "statistics"), [ON_WITHIN],
    ),
    "within, a fault without a name": (
        INSIDE, UNNAMED, ("wrong", "statistics", None, "statistics"), [ON_WITHIN],
    ),
    "beyond": (OUTSIDE, None, OPEN, [ON_BEYOND]),
    "beyond, integers right": (Measured(RIGHT, False, BEYOND), None, OPEN, [ON_RIGHT, ON_BEYOND]),
    "beyond, none of it another function": (Measured(None, False, BEYOND, True, ~FAR & FAR), None, OPEN, [ON_BEYOND]),
    "beyond all arithmetic": (ELSEWHERE, None, PROVED_WRONG, [ON_FAR]),
    "beyond, replayed": (
        OUTSIDE, TF32, ("downgrade", "bits", CUT, "bits"), [ON_BEYOND],
    ),
    "beyond, a transform": (
        OUTSIDE, WINOGRAD, ("downgrade", "bits", CauseCode.WINOGRAD, "bits"), [ON_BEYOND],
    ),
    "beyond, a fault inferred": (
        OUTSIDE, PADDING, ("wrong", "statistics", CauseCode.PADDING, "statistics"), [ON_BEYOND],
    ),
    "beyond all arithmetic, a fault inferred": (
        ELSEWHERE, PADDING, ("wrong", "bounds", CauseCode.PADDING, "statistics"), [ON_FAR],
    ),
    "beyond all arithmetic, a fault replayed": (
        ELSEWHERE, REPLAYED_PADDING, ("wrong", "bounds", CauseCode.PADDING, "bits"), [ON_FAR],
    ),
    "beyond all arithmetic, but replayed as a loss": (
        ELSEWHERE, TF32,
        ("downgrade", "bits", CUT, "bits"), [ON_FAR],
    ),
    "beyond all arithmetic, a sample takes nothing back": (
        ELSEWHERE, SAMPLED_TF32,
        ("wrong", "bounds", None, None), [ON_FAR],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_verdict_follows_the_rule(case):
    measured, made_by, expected, evidence = TABLE[case]
    judged = judge_side(PROBLEM, measured, made_by)
    assert (judged.verdict, judged.certainty, judged.cause, judged.cause_certainty) == expected
    assert judged.evidence == evidence


def test_another_function_is_proved_by_any_marked_output():
    assert not Measured().is_another_function
    assert not Measured(another_function=np.array([False, False])).is_another_function
    assert Measured(another_function=np.array([False, True])).is_another_function


def test_a_side_differs_in_bits_unless_told_otherwise():
    assert judge_side(PROBLEM, Measured(distances=TRUE)).verdict == "rounding"


@pytest.mark.parametrize(
    ("verdicts", "differing", "expected"),
    [
        ([], [], "undecided"),
        (["identical"], [], "identical"),
        (["rounding"], [], "rounding"),
        (["rounding", "rounding"], [0], "identical"),
        (["identical", "rounding"], [0, 3], "rounding"),
        (["identical", "identical"], [1], "rounding"),
        (["identical", "downgrade"], [0], "downgrade"),
        (["rounding", "undecided", "downgrade"], [0, 0, 0], "undecided"),
        (["rounding", "undecided", "wrong"], [0, 0, 0], "wrong"),
    ],
)
def test_all_sides_agree_only_bit_for_bit(verdicts, differing, expected):
    differences = [Difference("a", "b", count, None, None) for count in differing]
    assert judge_all(verdicts, differences) == expected
