"""What operands are rounded to before they are multiplied, found on runners in plain NumPy that do so by bit masks."""

import numpy as np
import pytest

from numpy_runners import (
    FailingRunner,
    NanRunner,
    PlainRunner,
    keep_bits,
    round_to_bfloat16,
    to_bfloat16_cut,
    to_bfloat16_if_odd,
    to_float16,
    to_float32,
    to_float64,
    to_tf32_cut,
)
from samebits.engines.probes.operand_rounding import find_operand_roundings
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text

LAYER = "conv2d x=1x4x10x10 w=8x4x3x3"
# Positions of a 6x6 plane that are no border.
INNER = tuple(6 * i + j for i in range(1, 5) for j in range(1, 5))
NOTHING = (None, None, True)


def round_away(bits):
    return keep_bits(bits, lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v))


def find(runner, text=LAYER, term=4, positions=range(64), **limits):
    session = ProbeSession(runner, parse_problem_text(text), **limits)
    found = find_operand_roundings(session, term, np.array(list(positions)))
    return {n: (r.format, r.mode, r.known) for n, r in found.items()}


@pytest.mark.parametrize(
    ("round_", "format_", "mode"),
    [
        (to_bfloat16_cut, "bfloat16", "toward_zero"),
        (round_to_bfloat16, "bfloat16", "nearest_even"),
        (to_tf32_cut, "tf32", "toward_zero"),
        (keep_bits(11), "tf32", "nearest_even"),
        (round_away(11), "tf32", "nearest_away"),
        (to_float16, "float16", "nearest_even"),
        (to_bfloat16_if_odd, "bfloat16", "nearest_if_odd"),
    ],
)
@pytest.mark.parametrize("names", [("x", "w"), ("x",), ("w",)])
def test_either_operand_or_both_show_format_and_mode(round_, format_, mode, names):
    found = find(PlainRunner(reads=dict.fromkeys(names, round_)))
    assert found == {n: (format_, mode, True) if n in names else NOTHING for n in ("x", "w")}


@pytest.mark.parametrize(
    ("text", "names", "term", "positions"),
    [
        (
            "conv2d.grad_input x=1x4x6x6 w=8x4x3x3 padding=1",
            ("w", "dy"),
            31,
            INNER,
        ),
        ("conv2d.grad_weight x=2x4x6x6 w=6x2x3x3 groups=2 padding=1", ("dy", "x"), 7, range(18)),
        ("conv_transpose1d x=1x4x6 w=4x6x3", ("w", "x"), 4, (1, 2, 3)),
        ("conv_transpose1d.grad_input x=1x4x6 w=4x6x3", ("w", "dy"), 4, (1, 2, 3)),
        ("conv_transpose1d.grad_weight x=2x4x6 w=4x6x3", ("x", "dy"), 4, (1, 2, 3)),
    ],
)
def test_every_direction_shows_which_operand_is_rounded(text, names, term, positions):
    assert find(PlainRunner(), text, term, positions) == dict.fromkeys(names, NOTHING)
    for rounded in names:
        found = find(PlainRunner(reads={rounded: to_bfloat16_cut}), text, term, positions)
        assert found == {n: ("bfloat16", "toward_zero", True) if n == rounded else NOTHING for n in names}


def test_float64_operands_may_be_read_as_float32():
    text = LAYER + " dtype=float64"
    assert find(PlainRunner(reads={"all": to_float32}, accumulator=to_float64), text) == {
        "w": ("float32", "nearest_even", True),
        "x": ("float32", "nearest_even", True),
    }


@pytest.mark.parametrize("order", [tuple(range(36)), tuple(range(35, -1, -1))])
@pytest.mark.parametrize("then", ["", " then=relu", " then=clip(0,6)", " then=clip(0,0.5)", " bias"])
def test_fault_free_runners_round_nothing(order, then):
    for fused in (False, True):
        assert find(PlainRunner(order, fused=fused), LAYER + then) == {"w": NOTHING, "x": NOTHING}


@pytest.mark.parametrize("then", [" then=relu", " then=clip(0,6)", " then=clip(0,0.5)"])
def test_an_epilogue_hides_no_rounding(then):
    assert find(PlainRunner(reads={"w": to_tf32_cut}), LAYER + then) == {
        "w": ("tf32", "toward_zero", True),
        "x": NOTHING,
    }


def test_a_narrow_result_is_no_rounding_of_operands():
    assert find(PlainRunner(), LAYER + " out=bfloat16") == {"w": NOTHING, "x": NOTHING}
    assert find(PlainRunner(), LAYER + " dtype=float16") == {"w": NOTHING, "x": NOTHING}


def test_a_rounding_to_nothing_known_is_said_to_be_unknown():
    assert find(PlainRunner(reads={"x": keep_bits(16)})) == {"w": NOTHING, "x": (None, None, False)}


def test_a_result_that_is_nan_is_unknown():
    assert find(NanRunner()) == {"w": (None, None, False), "x": (None, None, False)}


def test_failures_and_spent_budgets_come_through():
    with pytest.raises(EngineFailure):
        find(FailingRunner())
    with pytest.raises(ProbeStopped):
        find(PlainRunner(), most_calls=1)


def test_one_value_seen_in_many_outputs_is_not_taken_for_many():
    """A single source value may be a number of several formats; 64 rows show nothing but it."""
    found = find(PlainRunner(reads={"x": round_to_bfloat16}), "conv2d x=1x40x1x1 w=64x40x1x1", positions=[0])
    assert found["x"] == ("bfloat16", "nearest_even", True)
