"""Parts of a result whose operands were rounded, beside sound ones; and results stored in part beside a transform."""

import ml_dtypes
import numpy as np
import pytest

import plain_sums as plain
import plain_transforms as transforms
from cases_by_hand import convolve, explain, make
from samebits.problems import parse_problem_text
from variant_making import Making

# Left out of `make quick`.
pytestmark = pytest.mark.slow

TEXT = "conv2d x=5x16x12x12 w=37x16x3x3"


def brain(values):
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def tf32(values):
    bits = values.view(np.uint32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize(
    ("rounded", "part", "says"),
    [
        (tf32, np.s_[:, :32], "rounds x and w to tf32 before it multiplies, only in c_out up to 31"),
        (brain, np.s_[4:], "rounds x and w to bfloat16 before it multiplies, only in n = 4"),
        (brain, np.s_[:, :, :, 8:], "rounds x and w to bfloat16 before it multiplies"),
    ],
)
def test_the_part_that_multiplies_rounded_operands_is_named(rounded, part, says):
    operands, _ = make(TEXT, 1)
    x, w = operands["x"], operands["w"]
    result = convolve(x, w)
    result[part] = convolve(rounded(x), rounded(w))[part]
    side = explain(TEXT, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert side.says.startswith(says)


def test_a_part_of_noise_is_not_called_rounded_operands():
    operands, rng = make(TEXT, 2)
    result = convolve(operands["x"], operands["w"])
    result[4:] *= (1 + rng.normal(size=result[4:].shape) * 2.0**-9).astype(np.float32)
    assert explain(TEXT, operands, result).cause != "reduced-precision-operands"


def test_sound_results_are_no_parts():
    operands, _ = make(TEXT, 3)
    assert explain(TEXT, operands, convolve(operands["x"], operands["w"])).verdict == "rounding"


@pytest.mark.parametrize("axis", [1, 3])
def test_a_transform_whose_result_is_stored_in_part_is_a_downgrade(axis):
    text = "conv2d x=1x24x18x18 w=16x24x3x3 padding=1"
    operands, rng = make(text, 7)
    result = transforms.winograd(2, plain.f16)(Making(parse_problem_text(text), operands, rng)).astype(np.float32)
    places = np.moveaxis(result, axis, 0)
    places[-(len(places) // 2) :] = plain.bf16(places[-(len(places) // 2) :])
    assert explain(text, operands, result).verdict == "downgrade"
