"""Faults of a part of the result, known by its shape: every output of the problem is a sum of two ones, exactly 2."""

from dataclasses import replace

import numpy as np
import pytest

from cases_by_hand import convolve, make
from cases_by_hand import explain as explain_by_hand
from hand_made import observe
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.wrong_regions import find_box
from samebits.mechanisms.parts.partial_faults import explain_part, is_far_off
from samebits.mechanisms.search import hypothesis_search
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact
from samebits.sums.truth import compute_truth
from variants import make_variant

# 3 x 8 x 4 x 5 = 480 outputs; rows of 5, planes of 20, items of 160.
LAYER = "conv2d x=3x2x4x5 w=8x2x1x1 dtype=float32"
WITHIN = "all others are within theirs"


def explain(spoil, problem=LAYER):
    result = np.full(parse_problem_text(problem).out_shape, 2, np.float32)
    truth = float(parse_problem_text(problem).reduction_length)
    result[...] = truth
    spoil(result)
    return explain_part(observe(problem, truth, result, bound=2.0**-20, magnitudes=truth))


def put(index, value=5.0):
    def spoil(result):
        result[index] = value

    return spoil


def put_flat(first, last=None, value=5.0):
    def spoil(result):
        result.reshape(-1)[first:last] = value

    return spoil


def wrong(cause, says, evidence):
    return Mechanism(cause, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))


def cause_of(*arguments):
    found = explain(*arguments)
    return found and (found.cause, found.says)


PART, REST = CauseCode.SHAPE_SPECIFIC_KERNEL, CauseCode.INDEX_OVERFLOW
OTHER, ZEROS = "returns other values for a part of the result", "returns zeros for a part of the result"
FIRST_RIGHT = "computes batch item 0 right and returns {} for all others"
IMPOSSIBLE = "returns values that no sum of these products can have, as of memory that was never written"
ALL = slice(None)


def test_a_right_result_has_no_part_that_is_wrong():
    assert explain(lambda result: None) is None


def test_zeros_only_are_nothing_computed():
    assert explain(put(...,  0.0)) == wrong(
        None, "returns zeros only, as if nothing had been computed or written",
        "480 of 480 outputs are beyond their bound, and all are zero",
    )  # fmt: skip


def test_channels_that_are_off_are_a_part():
    assert explain(put((ALL, slice(6, None)))) == wrong(
        PART, OTHER,
        f"120 of 480 outputs are beyond their bound, only in c_out from 6 on (the tail); {WITHIN}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("index", "value", "expected"),
    [
        ((ALL, slice(6, None)), 0.0, (PART, ZEROS)),
        ((..., 4), 5.0, (PART, OTHER)),
        ((1,), 5.0, (PART, OTHER)),
        ((0,), 5.0, (PART, OTHER)),
        ((1, 2, 3, 4), 5.0, (PART, OTHER)),
        ((slice(1, None), 2), 5.0, (PART, OTHER)),
        ((slice(1, None),), 5.0, (CauseCode.STRIDED_VIEW, FIRST_RIGHT.format("other values"))),
        ((slice(1, None),), 0.0, (CauseCode.STRIDED_VIEW, FIRST_RIGHT.format("zeros"))),
        ((slice(0, 2),), 5.0, (PART, OTHER)),
        ((...,), 5.0, None),
    ],
)  # fmt: skip
def test_a_box_of_outputs_is_named_by_its_shape(index, value, expected):
    assert cause_of(put(index, value)) == expected


@pytest.mark.parametrize(
    ("channels", "factor", "shift", "says"),
    [
        ([3], 1.25, 0.0, "multiplies channel 3 by 1.25"),
        ([3], 1.0, 30.0, "adds 30 to channel 3"),
        ([0], 0.5, 2.0, "multiplies channel 0 by 0.5 and adds 2 to it"),
        ([1, 6], 3.0, 0.0, "multiplies channels 1 and 6 by 3"),
    ],
)
@pytest.mark.parametrize("then", ["", " then=relu"])
def test_channels_that_were_scaled_are_named_with_their_numbers(channels, factor, shift, says, then):
    problem = parse_problem_text(f"conv2d x=2x4x9x9 w=8x4x3x3 padding=1 bias{then}")
    operands = make_exact(problem, 3)
    sums = replace(problem, then=None)
    result = compute_truth(sums, operands).values
    result[:, channels] = result[:, channels] * np.float32(factor) + np.float32(shift)
    if then:
        result = np.maximum(result, 0)
    found = explain_part(observe(problem, compute_truth(problem, operands).values, result, bound=1e-3,
                                 magnitudes=100.0, operands=operands))  # fmt: skip
    assert (found.cause, found.says, found.verdict) == (CauseCode.FUSION, says, "wrong")


def test_channels_of_which_each_was_changed_otherwise_get_no_common_number():
    problem = parse_problem_text("conv2d x=2x4x9x9 w=8x4x3x3 padding=1")
    operands = make_exact(problem, 3)
    truth = compute_truth(problem, operands).values
    result = truth.copy()
    result[:, 1] *= 3
    result[:, 6] += 30
    found = explain_part(observe(problem, truth, result, bound=1e-3, magnitudes=100.0, operands=operands))
    assert found.says == "scales and shifts channels 1 and 6 by numbers of their own"


@pytest.mark.parametrize("stray", [1, 4])
def test_a_channel_that_a_clip_hides_is_not_called_scaled(stray):
    problem = parse_problem_text("conv2d x=2x4x9x9 w=8x4x3x3 padding=1 then=relu")
    operands = make_exact(problem, 3)
    truth = compute_truth(problem, operands).values
    result = truth.copy()
    result[:, 3] = 0
    result[0, 3, 4, :stray] = 17 * np.arange(1, stray + 1)
    found = explain_part(observe(problem, truth, result, bound=1e-3, magnitudes=100.0, operands=operands))
    assert found.cause == CauseCode.SHAPE_SPECIFIC_KERNEL


def test_channels_of_other_values_are_not_called_scaled():
    problem = parse_problem_text("conv2d x=2x4x9x9 w=8x4x3x3 padding=1")
    operands = make_exact(problem, 3)
    truth = compute_truth(problem, operands).values
    for other in (np.roll(truth[:, 3], 1, axis=1), truth[:, 4], np.random.default_rng(0).permutation(truth[:, 3])):
        result = truth.copy()
        result[:, 3] = other
        found = explain_part(observe(problem, truth, result, bound=1e-3, magnitudes=100.0, operands=operands))
        assert found is None or found.cause != CauseCode.FUSION


def test_other_items_than_the_first_are_counted():
    evidence = f"320 of 480 outputs are beyond their bound, only in n from 1 on (the tail); {WITHIN}"
    expected = wrong(CauseCode.STRIDED_VIEW, FIRST_RIGHT.format("other values"), evidence)
    assert explain(put((slice(1, None),))) == expected


def test_one_other_item_of_two_is_a_part():
    assert cause_of(put((1,)), LAYER.replace("3x2x4x5", "2x2x4x5")) == (PART, OTHER)


def test_the_first_axis_of_a_weight_gradient_is_no_batch():
    # Sums of 3 * 2 ones; 3 x 4 x 5 results.
    assert cause_of(put((slice(1, None),)), "conv1d.grad_weight x=3x4x6 w=3x4x5 dtype=float32") == (PART, OTHER)


def test_mostly_zeros_are_called_zeros():
    def spoil(share):
        def set_values(result):
            values = np.full(60, 5.0, np.float32)
            values[: round(60 * share)] = 0
            result[:, 7] = values.reshape(3, 4, 5)

        return set_values

    assert cause_of(spoil(0.75)) == (PART, OTHER)
    assert cause_of(spoil(0.8)) == (PART, ZEROS)


SOME = "returns other values only in c_out = 7"


@pytest.mark.parametrize(("count", "expected"), [(45, (PART, OTHER)), (44, (None, SOME))])
def test_a_box_is_a_part_from_three_quarters_on_and_fewer_are_single_outputs(count, expected):
    def spoil(result):
        # Every index of 3 x 1 x 4 x 5 occurs among the first ones.
        mask = np.ones(60, bool)
        mask[5 : 5 + 60 - count] = False
        values = np.where(mask, 5.0, 2.0).reshape(3, 4, 5)
        result[:, 7] = values

    assert cause_of(spoil) == expected


@pytest.mark.parametrize(
    ("value", "share", "impossible"),
    [(8.0, 1.0, False), (8.1, 1.0, True), (-8.1, 1.0, True), (8.1, 0.5, False), (8.1, 0.6, True)],
)
def test_values_beyond_four_sums_of_magnitudes_are_memory_never_written(value, share, impossible):
    def spoil(result):
        values = np.full(60, 5.0, np.float32)
        values[: round(60 * share)] = value
        result[:, 7] = values.reshape(3, 4, 5)

    assert cause_of(spoil) == ((CauseCode.UNINITIALIZED_MEMORY, IMPOSSIBLE) if impossible else (PART, OTHER))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_value_that_is_no_number_makes_a_part_impossible(value):
    def spoil(result):
        result[:, 7] = 5
        result[0, 7, 0, 0] = value

    evidence = f"60 of 480 outputs are beyond their bound, only in c_out = 7; {WITHIN}"
    assert explain(spoil) == wrong(CauseCode.UNINITIALIZED_MEMORY, IMPOSSIBLE, evidence)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (put_flat(103), (REST, "returns other values from output 103 of 480 on")),
        (put_flat(103, value=0.0), (REST, "returns zeros from output 103 of 480 on")),
        (put_flat(48), (REST, "returns other values from output 48 of 480 on")),
        (put_flat(47), None),  # Less than a tenth is right before it, and its box is everything.
        (put_flat(320), (PART, OTHER)),  # Where an item begins ...
        (put_flat(460), (PART, OTHER)),  # ... or a plane ...
        (put_flat(475), (PART, OTHER)),  # ... or a row.
        (put_flat(477), (REST, "returns other values from output 477 of 480 on")),
        (put_flat(380, 456), (PART, OTHER)),  # 76 of the 100 that follow, but from the begin of a plane.
        (put_flat(104, 386), (REST, "returns other values from output 104 of 480 on")),  # Just three quarters.
        (put_flat(381, 456), (REST, "returns other values from output 381 of 480 on")),
        (put_flat(381, 455), (PART, OTHER)),  # Less than three quarters of the 99 that follow.
    ],
)
def test_a_fault_from_the_middle_of_a_part_to_the_end_is_an_index_that_overflowed(spoil, expected):
    assert cause_of(spoil) == expected


def test_at_least_twenty_outputs_are_right_before_an_index_overflows():
    row = "conv1d x=1x2x50 w=1x2x1 dtype=float32"
    assert cause_of(put_flat(20), row) == (REST, "returns other values from output 20 of 50 on")
    assert cause_of(put_flat(19), row) == (PART, OTHER)


def test_parts_of_one_output_are_none_and_parts_of_two_are():
    single = "conv1d x=3x2x1 w=50x2x1 dtype=float32"
    assert cause_of(put_flat(73), single) == (REST, "returns other values from output 73 of 150 on")
    double = "conv1d x=1x2x2 w=50x2x1 dtype=float32"
    assert cause_of(put_flat(40), double) == (PART, OTHER)
    assert cause_of(put_flat(41), double) == (REST, "returns other values from output 41 of 100 on")


def test_the_rest_must_be_as_good_as_a_plain_sum():
    def disturb(index, size):
        def spoil(result):
            result[:, 7] = 5
            result[index] += np.float32(size)

        return spoil

    # Within the bound, but a plain sum of ones is exact.
    assert explain(disturb((0, 0, 0, 0), 2.0**-21)) is None
    assert explain(disturb((0, 7, 0, 0), 2.0**-21)) is not None

    def spoil_tail(result):
        result.reshape(-1)[103:] = 5
        result[0, 0, 0, 0] += np.float32(2.0**-21)

    assert explain(spoil_tail) is None


def test_a_small_loss_is_no_fault_of_a_part():
    # A sixteenth of the size of the results, and a little more.
    assert explain(put((ALL, slice(6, None)), 2 * (1 + 2.0**-4))) is None
    assert explain(put((ALL, slice(6, None)), 2 * (1 + 2.0**-4) + 2.0**-18)) is not None


def test_outputs_far_off_are_off_by_their_own_size_and_above_the_noise_of_transforms():
    marked = np.array([[[True, True, False]]])
    row = "conv1d x=1x1x3 w=1x1x1 dtype=float32"

    def is_far(truth, result, magnitudes=0.0):
        return is_far_off(observe(row, truth, result, magnitudes=magnitudes), marked)

    assert is_far([3, 4, 0], [np.nan, 4, 0])
    assert is_far([3, 4, 0], [3, np.inf, 0])
    assert not is_far([3, 4, 0], [3, 4, np.inf])
    assert not is_far([3, 4, 0], [3, 4 + 5 / 16, 0])
    assert is_far([3, 4, 0], [3, 4 + 5.01 / 16, 0])
    assert is_far([3, 4, 0], [3, 4 - 5.01 / 16, 0])
    # 2^8 unit roundoffs of 2^-24 of 2^16 are 1.
    assert not is_far([3, 4, 0], [4, 4, 0], magnitudes=2.0**16)
    assert is_far([3, 4, 0], [4.01, 4, 0], magnitudes=2.0**16)
    assert not is_far([0, 0, 0], [0, 0, 9])


def test_a_box_holds_every_combination_of_the_indices_that_occur():
    marked = np.zeros((2, 3, 4), bool)
    marked[0, 1, 2] = marked[0, 2, 0] = True
    box = find_box(marked)
    assert np.argwhere(box).tolist() == [[0, 1, 0], [0, 1, 2], [0, 2, 0], [0, 2, 2]]
    assert not find_box(np.zeros((2, 2), bool)).any()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_bits_are_memory_that_was_never_written(seed):
    text = "conv2d x=1x12x16x16 w=16x12x3x3"
    operands, rng = make(text, seed)
    result = np.ascontiguousarray(convolve(operands["x"], operands["w"]))
    bits = rng.integers(0, 2**32, 150, dtype=np.uint64).astype(np.uint32).view(np.float32)
    result.reshape(-1)[-150:] = np.where(np.isfinite(bits), bits, np.float32(0))
    side = explain_by_hand(text, operands, result)
    assert (side.verdict, side.cause) == ("wrong", "uninitialized-memory")


@pytest.mark.parametrize("zero", [True, False])
def test_rows_of_zeros_are_seen_where_the_bounds_of_half_formats_leave_room_for_most_of_them(zero):
    text = "conv2d x=2x16x14x14 w=16x16x3x3 dtype=float16"
    operands, _ = make(text, 31)
    operands = {"x": np.maximum(operands["x"], 0).astype(np.float16), "w": (operands["w"] / 12).astype(np.float16)}
    result = convolve(operands["x"].astype(np.float32), operands["w"].astype(np.float32)).astype(np.float16)
    if zero:
        result[:, :, 10:] = 0
    side = explain_by_hand(text, operands, result)
    if zero:
        assert (side.verdict, side.cause) == ("wrong", "shape-specific-kernel")
        assert side.says.startswith("returns zeros")
    else:
        assert side.verdict in ("identical", "rounding")


@pytest.mark.slow
def test_zeros_beside_a_transform_in_half_precision_are_a_fault():
    made = make_variant("remainder rows zero", "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias dtype=float16", 255)
    (side,) = explain_case(made.case).sides
    assert (side.verdict, side.cause) == ("wrong", "shape-specific-kernel")


def multiply(text):
    operands, _ = make(text, 7)
    w = operands["w"] if text.startswith("matmul") else operands["w"].T
    return operands, (operands["x"].astype(np.float64) @ w.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize(("keep", "lost"), [(np.triu, "below"), (np.tril, "above")])
@pytest.mark.parametrize("text", ["matmul x=40x24 w=24x40 dtype=float32", "linear x=31x24 w=37x24 dtype=float32"])
def test_half_of_a_matrix_that_was_never_computed(keep, lost, text):
    operands, product = multiply(text)
    side = explain_by_hand(text, operands, keep(product))
    assert (side.verdict, side.says) == ("wrong", f"returns zeros {lost} the diagonal")


def leave_block(product):
    product[40:, :20] = 0


def leave_tail(product):
    product.reshape(-1)[2500:] = 0


@pytest.mark.parametrize("leave", [leave_block, leave_tail])
def test_what_is_left_zero_is_seen_before_anything_is_fitted(leave, monkeypatch):
    """Hypotheses that fit numbers to operands are many hundreds, and give zeros nowhere."""

    def refuse(*given):
        raise AssertionError("numbers were fitted")

    for name in ("list_quantized_hypotheses", "list_searched_hypotheses", "list_recipe_hypotheses"):
        monkeypatch.setattr(hypothesis_search, name, refuse)
    text = "matmul x=64x96 w=96x64 dtype=float32"
    operands, product = multiply(text)
    leave(product)
    assert explain_by_hand(text, operands, product).verdict == "wrong"


def test_an_activation_leaves_no_part_zero():
    text = "matmul x=64x96 w=96x64 dtype=float32"
    operands, product = multiply(text)
    assert "relu" in str(explain_by_hand(text, operands, np.maximum(product, 0)).says)
