"""MIOpenDriver lines: published ones and hand-worked shapes, with the defaults of driver/conv_driver.hpp."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problem_lines import mutated_lines, read_with, refusal_of, try_to_read
from samebits.problems.languages.miopen import parse_miopen

# github.com/ROCm/rocm-libraries/pull/2734: all long names, depth options present though there are two axes.
LONG_NAMES = (
    '"./bin/MIOpenDriver conv --batchsize 2 --spatial_dim 2 --pad_h 0 --pad_w 0 --pad_d 0 --conv_stride_h 2 '
    "--conv_stride_w 2 --conv_stride_d 0 --dilation_h 1 --dilation_w 1 --dilation_d 0 --group_count 1 --mode conv "
    "--pad_mode default --trans_output_pad_h 0 --trans_output_pad_w 0 --trans_output_pad_d 0 --out_layout NCHW "
    "--in_layout NCHW --fil_layout NCHW --in_d 1 --in_h 79 --in_w 49 --fil_d 1 --fil_h 1 --fil_w 1 "
    '--in_channels 1024 --out_channels 512 --forw 2"'
)
# github.com/lcskrishna/nn-tools, miopen-scripts/dmnet.sh
SHORT_NAMES = (
    "./bin/MIOpenDriver conv -F 1 -m conv  -c  3 -H  1024 -W  2048 -k  64 -y  7 -x  7 -p  3 -q  3 -u  2 -v  2 "
    "-l  1 -j  1 -b 1 -n 1"
)
THREE_DIMENSIONAL = (
    "MIOpenDriver convfp16 -_ 3 -n 1 -c 4 -! 6 -H 7 -W 8 -k 2 -@ 1 -y 2 -x 3 -# 1 -u 2 -v 1 -$ 0 -p 1 -q 2 -^ 1 -l 1 "
    "-j 2 -g 2 -F 4"
)
TRANSPOSED = "MIOpenDriver convbfp16 -m trans -n 1 -c 4 -H 5 -W 5 -k 6 -u 2 -v 2 -p 1 -q 1 -Y 1 -X 1 -g 2 -F 1"
LINES = (LONG_NAMES, SHORT_NAMES, THREE_DIMENSIONAL, TRANSPOSED)


def read(line: str) -> str:
    return read_with(parse_miopen, line)


def refusal(line: str) -> str:
    return refusal_of(parse_miopen, line)


def test_a_published_line_of_long_names() -> None:
    assert read(LONG_NAMES) == "conv2d.grad_input x=2x1024x79x49 w=512x1024x1x1 stride=2 dtype=float32"


def test_a_published_line_of_short_names() -> None:
    assert read(SHORT_NAMES) == "conv2d x=1x3x1024x2048 w=64x3x7x7 bias stride=2 padding=3 dtype=float32"


def test_the_documented_example_with_miopens_defaults() -> None:
    assert read("./bin/MIOpenDriver conv -W 32 -H 32 -c 3 -k 32 -x 5 -y 5 -p 2 -q 2") == (
        "conv2d x=100x3x32x32 w=32x3x5x5 padding=2 dtype=float32"
    )


def test_no_options_at_all_is_the_drivers_default_problem() -> None:
    assert read("MIOpenDriver conv") == "conv2d x=100x3x32x32 w=32x3x3x3 dtype=float32"
    assert read("MIOpenDriver conv --spatial_dim 3") == "conv3d x=100x3x32x32x32 w=32x3x3x3x3 dtype=float32"


def test_depth_options_count_in_three_dimensions() -> None:
    expected = (
        "conv3d.grad_weight x=1x4x6x7x8 w=2x2x1x2x3 stride=1x2x1 padding=0x1x2 dilation=1x1x2 groups=2 dtype=float16"
    )
    assert read(THREE_DIMENSIONAL) == expected


@pytest.mark.parametrize("quoted", ["'-{}'", '"-{}"', "-\\{}", "-'{}'"])
def test_signs_a_shell_treats_specially_may_be_bare_or_quoted(quoted: str) -> None:
    line = THREE_DIMENSIONAL
    for sign in "!@#$^":
        line = line.replace(f"-{sign}", quoted.format(sign))
    assert parse_miopen(line) == parse_miopen(THREE_DIMENSIONAL)


def test_a_logs_prefix_is_skipped() -> None:
    line = "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n 1 -F 1"
    assert read(line) == "conv2d x=1x3x32x32 w=32x3x3x3 dtype=float16"


@pytest.mark.parametrize(
    ("flag", "direction"),
    [
        (0, "forward"),
        (1, "forward"),
        (2, "grad_input"),
        (3, "forward"),
        (4, "grad_weight"),
        (5, "forward"),
        (6, "forward"),
    ],
)
def test_one_bit_of_forw_is_a_direction_and_anything_else_is_forward(flag: int, direction: str) -> None:
    assert parse_miopen(f"MIOpenDriver conv -F {flag}").direction == direction


def test_bias_belongs_to_the_forward_direction() -> None:
    assert parse_miopen("MIOpenDriver conv -F 1 -b 1").bias
    assert not parse_miopen("MIOpenDriver conv -F 1 -b 0").bias
    assert not parse_miopen("MIOpenDriver conv -F 4 -b 1").bias


def test_a_transposed_convolution_has_weights_of_input_by_output_channels() -> None:
    assert read(TRANSPOSED) == (
        "conv_transpose2d x=1x4x5x5 w=4x3x3x3 stride=2 padding=1 output_padding=1 groups=2 dtype=bfloat16"
    )
    # (5 - 1) * 2 - 2 * 1 + 3 + 1 = 10
    assert parse_miopen(TRANSPOSED).y_shape == (1, 6, 10, 10)


def test_output_padding_is_not_used_by_a_plain_convolution() -> None:
    assert parse_miopen("MIOpenDriver conv -Y 1 -X 1") == parse_miopen("MIOpenDriver conv")


def test_valid_padding_overrides_the_pads() -> None:
    assert read("MIOpenDriver conv -n 1 -z valid -p 2 -q 2") == "conv2d x=1x3x32x32 w=32x3x3x3 dtype=float32"


def test_same_padding_is_half_the_need_rounded_down_on_both_ends() -> None:
    # Height 32 at stride 2 needs 5 - 2 = 3, halved to 1; width 33 needs 5 - 33 % 2 = 4, halved to 2.
    line = "MIOpenDriver conv -n 1 -H 32 -W 33 -y 5 -x 5 -u 2 -v 2 -z same -p 9 -q 9"
    assert read(line) == "conv2d x=1x3x32x33 w=32x3x5x5 stride=2 padding=1x2 dtype=float32"


def test_same_padding_is_not_heeded_with_dilation_or_transposed() -> None:
    assert " padding=1 " in read("MIOpenDriver conv -z same -p 1 -q 1 -y 5 -x 5 -l 2 -j 2")
    assert " padding=1 " in read("MIOpenDriver conv -z same -p 1 -q 1 -y 5 -x 5 -m trans")


def test_a_group_count_of_zero_is_one_group() -> None:
    assert parse_miopen("MIOpenDriver conv -g 0").groups == 1


def test_the_last_of_a_repeated_option_counts() -> None:
    assert parse_miopen("MIOpenDriver conv -n 5 --batchsize 7").x[0] == 7


def test_former_names_of_the_strides() -> None:
    assert " stride=2x3 " in read("MIOpenDriver conv --conv_stride_0 2 --conv_stride_1 3")


def test_options_of_layout_values_timing_and_solver_are_ignored() -> None:
    line = "MIOpenDriver conv -I NHWC -O NHWC -f NHWC -i 1 -V 0 -t 1 -w 2 -s 1 -S -1 -o 1 -d in.bin -C '/a b' -G 0 -~ 1"
    assert parse_miopen(line) == parse_miopen("MIOpenDriver conv")


def test_options_at_their_harmless_value_are_accepted() -> None:
    assert parse_miopen("MIOpenDriver conv -r 0 -Z 0 -L 1 -U -1") == parse_miopen("MIOpenDriver conv")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("conv -n 1", "no MIOpenDriver"),
        ("MIOpenDriver", "needs conv"),
        ("MIOpenDriver pool -n 1", "pool is not one of"),
        ("MIOpenDriver convint8 -n 1", "convint8 is not one of"),
        ("MIOpenDriver convfp8 -n 1", "convfp8 is not one of"),
        ("MIOpenDriver conv -n", "needs a value"),
        ("MIOpenDriver conv -n one", "--batchsize needs a whole number"),
        ("MIOpenDriver conv -n -1", "--batchsize needs a whole number"),
        ("MIOpenDriver conv -n 0", "at least 1"),
        (f"MIOpenDriver conv -n {'9' * 19}", "18 digits"),
        ("MIOpenDriver conv -A 1", "'-A' is no option"),
        ("MIOpenDriver conv --n 1", "'--n' is no option"),
        ("MIOpenDriver conv n 1", "'n' is no option"),
        ("MIOpenDriver conv -r 1", "--pad_val 1"),
        ("MIOpenDriver conv -Z 1 -L 4", "--tensor_vect 1"),
        ("MIOpenDriver conv --in_cast_type fp8", "--in_cast_type fp8"),
        ("MIOpenDriver conv -m deconv", "--mode is one of"),
        ("MIOpenDriver conv -z full", "--pad_mode is one of"),
        ("MIOpenDriver conv -_ 1", "spatial_dim is 2 or 3"),
        ("MIOpenDriver conv -g 2", "group_count 2 must divide in_channels 3"),
        ("MIOpenDriver conv -u 0 -z same", "stride must be at least 1"),
        ("MIOpenDriver conv -y 40", "no output"),
        ("MIOpenDriver conv 'oops", "cannot split"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(line: str, says: str) -> None:
    assert says in refusal(line)


@settings(deadline=None, max_examples=400)
@given(line=mutated_lines(tuple(LINES)))
def test_a_mutated_line_is_read_or_refused_and_nothing_else(line: str) -> None:
    try_to_read(parse_miopen, line)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for line in (text, f"MIOpenDriver {text}", f"MIOpenDriver conv {text}", f"MIOpenDriver conv -n {text}"):
        try_to_read(parse_miopen, line)


def test_very_long_lines_are_answered_quickly() -> None:
    for text in ("MIOpenDriver " * 20_000, "MIOpenDriver conv " + "-n 1 " * 40_000 + "-A 1", "x" * 200_000):
        refusal(text)
