"""NaN, infinities and saturated values in place of the true ones: what each tells, for results written by hand."""

import numpy as np
import pytest

from hand_made import observe
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.mechanisms.parts.odd_values import explain_odd_values

INF, NAN = np.inf, np.nan
HALF = "conv1d x=1x1x6 w=1x1x1 dtype=float16"
SINGLE = "conv1d x=1x1x6 w=1x1x1 dtype=float32"
RELU = f"{SINGLE} then=relu"
CLIP = f"{SINGLE} then=clip(0,6)"
FINE = "all others are within their bound"
HUGE = 2.0**127


def explain(problem, truth, result, *, sums=None, nan_operand=False, **more):
    """Verdict, cause, sentence and evidence of one row of outputs; `sums` are its exact sums."""
    found = observe(problem, truth, result, **more)
    if sums is not None:
        found.cache["bare"] = np.broadcast_to(np.float64(sums), found.result.shape).copy()
    if nan_operand:
        found.operands["x"][0, 0, 0] = NAN
    mechanism = explain_odd_values(found)
    if mechanism is None:
        return None
    assert mechanism.fit == "bound"
    assert not mechanism.sampled
    (evidence,) = mechanism.evidence
    assert evidence == Evidence("structure", evidence.says)
    return mechanism.verdict, mechanism.cause, mechanism.says, evidence.says


@pytest.mark.parametrize(
    ("truth", "result"),
    [
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        ([1, 2, 3, 4, 5, 6], [9, 9, 9, 9, 9, 9]),
        ([INF, -INF, NAN, 4, 5, 6], [INF, -INF, NAN, 4, 9, 6]),
    ],
)
def test_finite_errors_and_values_that_are_as_they_should_be_are_not_odd(truth, result):
    assert explain(SINGLE, truth, result, sums=0.0) is None


@pytest.mark.parametrize(
    ("problem", "values", "words"), [(RELU, [0, 0], "0"), (CLIP, [0, 6], "0 or 6"), (CLIP, [6, 0.5], "0.5 or 6")]
)
def test_a_clip_that_turns_nan_into_a_number_is_named_with_its_numbers(problem, values, words):
    assert explain(problem, [1, NAN, 3, NAN, 5, 6], [1, values[0], 3, values[1], 5, 6]) == (
        "wrong",
        CauseCode.NAN_SEMANTICS,
        f"turns NaN into {words}: its clip or relu returns the operand that is a number",
        f"2 outputs, scattered over 33.3% of the outputs; {FINE}",
    )


@pytest.mark.parametrize(("problem", "result"), [(SINGLE, [1, 0, 3, 0, 5, 6]), (CLIP, [1, 0, 3, 6, 5, 3])])
def test_numbers_in_place_of_nan_without_a_clip_are_lost_nan_if_an_operand_is_none(problem, result):
    truth = [1, NAN, 3, NAN, 5, NAN if problem == CLIP else 6]
    count = int(np.isnan(truth).sum())
    where = "scattered over 33.3% of the outputs" if count == 2 else "only in ow 1..5, every 2"
    assert explain(problem, truth, result, nan_operand=True) == (
        "wrong", None, "loses NaN: returns numbers where the declared sum of these operands is NaN",
        f"{count} outputs, {where}",
    )  # fmt: skip
    assert explain(problem, truth, result) is None


@pytest.mark.parametrize(
    ("truth", "result"),
    [
        ([1, NAN, 3, 4, 5, 6], [1, 0, 9, 4, 5, 6]),
        ([1, NAN, 3, 4, 5, 6], [1, INF, 3, 4, 5, 6]),
        ([1, NAN, INF, 4, 5, 6], [1, 0, 0, 4, 5, 6]),
    ],
)
def test_nan_is_not_said_to_be_lost_where_more_is_wrong(truth, result):
    assert explain(RELU, truth, result, nan_operand=True, sums=[[[1, 1, HUGE * 4, 1, 1, 1]]]) is None


def test_the_largest_number_in_place_of_infinity_is_saturation():
    result = [65504, -65504, 3, 4, 5, INF]
    assert explain(HALF, [INF, -INF, 3, 4, 5, INF], result, sums=[[[1e5, -1e5, 3, 4, 5, 1e5]]]) == (
        "downgrade",
        CauseCode.OVERFLOW,
        "saturates at 65504 where the result is infinite",
        f"2 outputs, only in ow up to 1; {FINE}",
    )


@pytest.mark.parametrize(
    ("truth", "result"),
    [
        ([INF, 2, 3, 4, 5, 6], [60000, 2, 3, 4, 5, 6]),
        ([INF, 2, 3, 4, 5, 6], [65504, 9, 3, 4, 5, 6]),
        ([INF, INF, 3, 4, 5, 6], [65504, 1, 3, 4, 5, 6]),
        ([INF, 2, 3, 4, 5, 6], [NAN, 2, 3, 4, 5, 6]),
        ([INF, NAN, 3, 4, 5, 6], [65504, 65504, 3, 4, 5, 6]),
    ],
)
def test_other_values_in_place_of_infinity_are_no_saturation(truth, result):
    assert explain(HALF, truth, result, sums=1e5) is None


# Half an ulp beyond the largest half number rounds to infinity; adding 1 product in float32 may be off by 3 * 2^-24 S.
EDGE = 65504 * (1 + 2.0**-11)


@pytest.mark.parametrize(
    ("sums", "magnitudes", "saturates"),
    [
        (EDGE, 0, False),
        (EDGE + 1, 0, True),
        (-EDGE - 1, 0, True),
        (EDGE + 3 * 2.0**-24 * 2.0**20, 2.0**20, False),
        (EDGE + 3 * 2.0**-24 * 2.0**20 + 0.01, 2.0**20, True),
    ],
)
def test_the_largest_number_is_saturation_only_for_sums_well_beyond_it(sums, magnitudes, saturates):
    largest = 65504 if sums > 0 else -65504
    truth, result = [np.sign(sums) * INF, 2, 3, 4, 5, 6], [largest, 2, 3, 4, 5, 6]
    found = explain(HALF, truth, result, sums=[[[sums, 2, 3, 4, 5, 6]]], magnitudes=magnitudes)
    assert (found is not None) is saturates


def test_the_bias_belongs_to_the_sum():
    problem = "conv1d x=1x1x6 w=2x1x1 bias dtype=float16"
    truth = np.ones((1, 2, 6))
    result = truth.copy()
    truth[0, 1, 0], result[0, 1, 0] = INF, 65504
    bias = np.array([0, 60000], np.float16)
    operands = {"x": np.ones((1, 1, 6), np.float16), "w": np.ones((2, 1, 1), np.float16), "bias": bias}
    found = explain(problem, truth, result, sums=6000.0, operands=operands)
    assert found is not None
    assert found[2] == "saturates at 65504 where the result is infinite"
    assert explain(problem, truth, result, sums=5000.0, operands=operands) is None


def test_sums_that_can_leave_float32_are_rounding():
    # Positive and negative terms alone, each half of the magnitudes, reach the largest number.
    edge = float(np.finfo(np.float32).max) * 2
    given = explain(SINGLE, [1, 2, 3, 4, 5, 6], [INF, NAN, 3, 4, 5, 6], magnitudes=[[[edge, edge, 1, 1, 1, 1]]])
    assert given == (
        "rounding",
        CauseCode.OVERFLOW,
        "adds in an order whose partial sums leave the range of the declared formats",
        "NaN or infinite: 2 outputs, only in ow up to 1; another order may be finite",
    )
    below = explain(SINGLE, [1, 2, 3, 4, 5, 6], [INF, NAN, 3, 4, 5, 6], magnitudes=[[[edge, edge * 0.99, 1, 1, 1, 1]]])
    assert below is not None
    assert below[0] == "wrong"


def test_single_outputs_that_a_half_sum_could_not_hold_are_its_overflow():
    found = explain(SINGLE, [1, 2, 3, 4, 5, 6], [1, INF, 3, 4, 5, 6], magnitudes=[[[1, 65505, 3, 40000, 5, INF]]])
    assert found == (
        "downgrade",
        CauseCode.OVERFLOW,
        "lets intermediate sums overflow float16's range (65,504)",
        "NaN or infinite: 1 outputs, only in ow = 1; the magnitudes they add reach 6.55e+04, those of the others 4e+04",
    )


@pytest.mark.parametrize(
    ("result", "magnitudes", "overflow"),
    [
        ([1, INF, 3, 4, 5, 6], 1e5, True),
        ([NAN] * 6, 1e5, True),
        ([1, INF, 3, 4, 5, 6], 65504, False),
        ([70000, INF, 3, 4, 5, 6], 1e5, False),
        ([-70000, INF, 3, 4, 5, 6], 1e5, False),
        ([9, NAN, NAN, 4, 5, 6], 1e5, True),
        ([65504, INF, 3, 4, 5, 6], 1e5, True),
    ],
)
def test_half_overflow_needs_magnitudes_that_reach_it_and_results_that_do_not(result, magnitudes, overflow):
    truth = [v if abs(v) in (65504, 70000) else i + 1 for i, v in enumerate(result)]
    found = explain(SINGLE, truth, result, magnitudes=magnitudes, bound=2.0)
    assert (found is not None and found[1] == CauseCode.OVERFLOW) is overflow


@pytest.mark.parametrize(
    ("first", "second", "overflow"),
    [
        ("x.....", ".x....", True),  # Half of the box around them.
        ("xx....", ".x....", False),  # Three quarters: a part that some kernel handled by itself.
        ("xxxxx.", "xxxx..", False),  # Nine of twelve outputs.
        ("xxxxxx", "xxxxx.", True),  # Eleven of twelve: nearly everything.
    ],
)
def test_a_part_that_fills_its_box_while_the_rest_is_right_was_not_summed_in_half(first, second, overflow):
    marked = np.array([[list(first), list(second)]]) == "x"
    found = explain("conv1d x=1x1x6 w=2x1x1 dtype=float32", 1.0, np.where(marked, INF, 1.0), magnitudes=1e5)
    assert found is not None
    assert found[1] == (CauseCode.OVERFLOW if overflow else CauseCode.UNINITIALIZED_MEMORY)


def test_nine_tenths_of_all_outputs_are_no_part():
    result = np.where(np.arange(10) < 9, INF, 1.0)
    found = explain("conv1d x=1x1x10 w=1x1x1 dtype=float32", 1.0, result, magnitudes=1e5)
    assert found is not None
    assert found[1] == CauseCode.OVERFLOW


def test_nan_beside_right_values_is_memory_that_was_never_written():
    assert explain(SINGLE, [1, 2, 3, 4, 5, 6], [NAN, INF, 3, 4, 5, 6]) == (
        "wrong",
        CauseCode.UNINITIALIZED_MEMORY,
        "returns NaN or infinities as of memory that was never written, or lets NaN leak in from it",
        f"NaN or infinite: 2 outputs, only in ow up to 1; {FINE}",
    )


def test_nothing_is_said_where_nothing_is_right():
    assert explain(SINGLE, [1, 2, 3, 4, 5, 6], [NAN, 9, 3, 4, 5, 6]) is None
    assert explain(SINGLE, [1, 2, 3, 4, 5, 6], [NAN] * 6) is None
    assert explain(SINGLE, [INF, 2, 3, 4, 5, 6], [-INF, NAN, 3, 4, 5, 6], sums=[[[HUGE * 4, 2, 3, 4, 5, 6]]]) is None


@pytest.mark.parametrize("is_by_size", [True, False])
def test_infinities_wherever_a_half_cannot_hold_the_result_are_overflow(is_by_size):
    rng = np.random.default_rng(1)
    truth = np.float32(rng.uniform(20_000, 120_000, 200) * rng.choice([-1, 1], 200))
    marked = np.abs(truth) > 65_520
    if not is_by_size:
        marked = np.arange(200) < 60
    problem = "conv1d x=1x1x200 w=1x1x1 dtype=float32"
    result = np.where(marked, np.copysign(INF, truth), truth)
    verdict, cause, *_ = explain(problem, truth, result, sums=truth, magnitudes=np.abs(truth))
    assert (verdict, cause) == (
        ("downgrade", CauseCode.OVERFLOW) if is_by_size else ("wrong", CauseCode.UNINITIALIZED_MEMORY)
    )
