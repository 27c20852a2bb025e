"""Results of another shape: which setting gives it. Shapes are the formulas' of ONNX's Conv and ConvTranspose."""

import numpy as np
import pytest

from samebits.errors import CaseFileError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import load_case
from samebits.problems.operands import make_normal
from samebits.problems.other_shapes import explain_shape

UP = "conv_transpose2d x=1x4x28x28 w=4x8x3x3 stride=2 padding=1 output_padding=1"


@pytest.mark.parametrize(
    ("text", "shape", "says"),
    [
        (UP, (1, 8, 55, 55), "output_padding=0"),
        (UP, (1, 8, 56, 56), ""),
        (UP, (1, 56, 56, 8), "channels last"),
        (UP, (1, 8, 58, 58), "padding=0"),
        ("conv2d x=1x8x73x73 w=8x8x3x3", (1, 8, 73, 73), "padding=same_upper"),
        ("conv2d x=1x8x73x73 w=8x8x5x5", (1, 8, 71, 71), "padding=1"),
        ("conv2d x=1x8x20x20 w=8x8x3x3 stride=2x1 padding=1", (1, 8, 20, 10), "its strides exchanged"),
        ("conv2d x=1x8x20x20 w=8x8x3x3 dilation=3", (1, 8, 18, 18), "dilation=1"),
        ("conv2d x=1x8x20x20 w=8x8x3x3 padding=1:0x1:0", (1, 8, 18, 18), "padding=0"),
        ("conv2d x=1x8x20x20 w=8x8x3x3", (1, 8, 9, 31), ""),
        ("conv2d x=1x8x20x20 w=8x8x3x3", (8,), ""),
        ("conv2d.grad_weight x=1x8x20x20 w=6x8x3x3", (6, 3, 3, 8), "channels last"),
        ("linear x=5x7 w=3x7", (3, 5), "the last two axes exchanged"),
        ("linear x=5x7 w=3x7", (5, 3, 1), ""),
        ("linear.grad_weight x=5x7 w=3x7", (7, 3), "the last two axes exchanged"),
        ("matmul x=2x5x7 w=7x3", (2, 3, 5), "the last two axes exchanged"),
        ("matmul x=2x5x7 w=7x3", (5, 2, 3), ""),
        ("linear x=7 w=3x7", (1, 3), ""),
        ("matmul x=7 w=7", (1,), ""),
        ("matmul x=7 w=7", (1, 1), ""),
    ],
)
def test_one_change_that_gives_the_shape_is_named(text, shape, says):
    found = explain_shape(parse_problem_text(f"{text} dtype=float32"), shape)
    assert found.endswith(says)
    assert bool(found) == bool(says)


def test_the_case_file_says_so(tmp_path):
    problem = parse_problem_text(f"{UP} dtype=float32")
    np.savez(
        tmp_path / "c.npz",
        problem=f"{UP} dtype=float32",
        a=np.zeros((1, 8, 55, 55), np.float32),
        **make_normal(problem),
    )
    with pytest.raises(CaseFileError, match="it would have that shape with output_padding=0"):
        load_case(tmp_path / "c.npz")
