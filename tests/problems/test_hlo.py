"""XLA HLO lines: published and hand-worked ones, refusals and garbage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problem_lines import mutated_lines, read_with, refusal_of, try_to_read
from samebits.problems.languages.hlo import parse_hlo

# The line of examples/xla_mismatch.log (tensorflow, RTX 3070, cuDNN 8.1.1).
SEED = (
    "%custom-call.20 = (f16[1,5,24,24]{2,1,0,3}, u8[0]{0}) custom-call(f16[3778,1,50,24]{3,2,1,0} %bitcast.237, "
    "f16[3778,1,10,24]{3,2,1,0} %arg45.46), window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f, "
    'custom_call_target="__cudnn$convBackwardFilter", metadata={op_type="Conv2DBackpropFilter" '
    'op_name="gradient_tape/model/de_conv1dtranspose_2/conv1d_transpose/Conv2DBackpropFilter"}, '
    r'backend_config="{\"algorithm\":\"0\",\"tensor_ops_enabled\":false,\"conv_result_scale\":1,'
    r'\"activation_mode\":\"0\",\"side_input_scale\":0}" for 1+TC vs 0+TC'
)
# github.com/pytorch/xla/issues/2997
TORCH_XLA = (
    "%custom-call.7 = (f32[128,20,8,8]{3,2,1,0}, u8[0]{0}) custom-call(f32[128,10,12,12]{3,2,1,0} %fusion.11, "
    "f32[20,10,5,5]{3,2,1,0} %p10.13), window={size=5x5}, dim_labels=bf01_oi01->bf01, "
    'custom_call_target="__cudnn$convForward", metadata={op_type="aten__convolution_overrideable"}, '
    r'backend_config="{\"algorithm\":\"1\",\"conv_result_scale\":1,\"activation_mode\":\"0\",\"side_input_scale\":0}"'
)
PLAIN = (
    "ROOT %c.1 = f32[2,6,5,5]{3,2,1,0} convolution(f32[2,4,9,8]{3,2,1,0} %x.1, f32[6,2,3,3]{3,2,1,0} %w.1), "
    "window={size=3x3 stride=2x1 pad=1_2x0_1 rhs_dilate=1x2}, dim_labels=bf01_oi01->bf01, feature_group_count=2"
)
# y = (5 - 1) * 2 + 3 - 1 - 1 + 1 = 10: torch's k=3, s=2, p=1, output_padding=1 has pads 3-1-1=1 and 1+1=2.
TRANSPOSED = (
    "%t = bf16[1,4,10]{2,1,0} convolution(bf16[1,3,5]{2,1,0} %x, bf16[4,3,3]{2,1,0} %w), "
    "window={size=3 pad=1_2 lhs_dilate=2 rhs_reversal=1}, dim_labels=bf0_oi0->bf0"
)
# What JAX prints for the gradient of w of PLAIN.
GROUPED_GRADIENT = (
    "%g = f32[6,2,3,3]{3,2,1,0} convolution(f32[2,4,9,8]{3,2,1,0} %x.1, f32[2,6,5,5]{3,2,1,0} %dy.1), "
    "window={size=5x5 stride=1x2 pad=1_1x0_1 rhs_dilate=2x1}, dim_labels=fb01_io01->fb01, batch_group_count=2"
)
LINES = (SEED, TORCH_XLA, PLAIN, TRANSPOSED, GROUPED_GRADIENT)


def read(line: str) -> str:
    return read_with(parse_hlo, line)


def refusal(line: str) -> str:
    return refusal_of(parse_hlo, line)


def test_the_seed_line_is_the_weight_gradient_of_a_strided_convolution() -> None:
    assert read(SEED) == "conv2d.grad_weight x=3778x24x1x50 w=24x24x1x5 stride=1x5 dtype=float16"


def test_the_whole_log_around_the_line_is_read_like_the_line() -> None:
    text = f"2021-06-05 21:28:17: E picker.cc:545] Results mismatch.\n{SEED}\n2021-06-05: E Driver: 11020\n"
    assert parse_hlo(text) == parse_hlo(SEED)


def test_a_published_cudnn_forward_line() -> None:
    assert read(TORCH_XLA) == "conv2d x=128x10x12x12 w=20x10x5x5 dtype=float32"


def test_unequal_pads_are_kept_as_they_stand() -> None:
    assert read(PLAIN) == ("conv2d x=2x4x9x8 w=6x2x3x3 stride=2x1 padding=1:2x0:1 dilation=1x2 groups=2 dtype=float32")


def test_any_order_of_axes_is_read_by_its_labels() -> None:
    line = "c = f32[7,5,4,1] convolution(f32[9,3,6,1] a, f32[3,2,3,4] k), window={size=2x3}, dim_labels=1f0b_i01o->10fb"
    # height 6 - 2 + 1 = 5, width 9 - 3 + 1 = 7; the result 10fb has w=7, h=5, f=4, b=1.
    assert read(line) == "conv2d x=1x3x6x9 w=4x3x2x3 dtype=float32"


def test_a_one_dimensional_and_a_three_dimensional_line() -> None:
    one = "c = bf16[1,4,4] convolution(bf16[1,3,5] x, bf16[4,3,2] w), window={size=2}, dim_labels=bf0_oi0->bf0"
    three = (
        "c = f64[1,2,2,2,4] convolution(f64[1,4,4,4,3] x, f64[3,3,3,3,4] w), "
        "window={size=3x3x3}, dim_labels=b012f_012io->b012f"
    )
    assert read(one) == "conv1d x=1x3x5 w=4x3x2 dtype=bfloat16"
    assert read(three) == "conv3d x=1x3x4x4x4 w=4x3x3x3x3 dtype=float64"


def test_a_tiled_layout_is_ignored() -> None:
    tiled = PLAIN.replace("{3,2,1,0}", "{3,2,1,0:T(8,128)(2,1)S(1)}")
    assert parse_hlo(tiled) == parse_hlo(PLAIN)


def test_a_wider_result_type_becomes_out() -> None:
    line = "c = f32[1,4,4] convolution(f8e4m3fn[1,3,5] x, f8e4m3fn[4,3,2] w), window={size=2}, dim_labels=bf0_oi0->bf0"
    assert read(line) == "conv1d x=1x3x5 w=4x3x2 dtype=float8_e4m3fn out=float32"


def test_backward_input_reads_dy_and_w() -> None:
    # forward: 50 -> (50 - 5) // 5 + 1 = 10.
    line = (
        "%c = (f16[8,1,50,24]{3,2,1,0}, u8[1024]{0}) custom-call(f16[8,1,10,16] %dy, f16[1,5,24,16] %w), "
        'window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convBackwardInput"'
    )
    assert read(line) == "conv2d.grad_input x=8x24x1x50 w=16x24x1x5 stride=1x5 dtype=float16"


def test_bias_and_activation_of_the_fused_call() -> None:
    line = (
        "%c = (f16[1,4,4,2], u8[0]) custom-call(f16[1,6,6,3] %x, f16[2,3,3,3] %w, f16[2] %b), window={size=3x3}, "
        'dim_labels=b01f_o01i->b01f, custom_call_target="__cudnn$convBiasActivationForward", backend_config='
        '{"cudnn_conv_backend_config":{"activation_mode":"MODE","conv_result_scale":1,"side_input_scale":0}}'
    )
    assert read(line.replace("MODE", "kNone")) == "conv2d x=1x3x6x6 w=2x3x3x3 bias dtype=float16"
    assert read(line.replace("MODE", "kRelu")).endswith("bias dtype=float16 then=relu")
    assert read(line.replace("MODE", "3")).endswith("bias dtype=float16 then=clip(0,6)")
    assert "activation_mode kElu" in refusal(line.replace("MODE", "kElu"))
    assert "side_input_scale" in refusal(line.replace('scale":0', 'scale":0.5'))
    assert "expected 3 operands, found 4" in refusal(line.replace("%b)", "%b, f16[1,4,4,2] %side)"))


def test_lhs_dilation_is_a_transposed_convolution_in_torchs_symmetric_form() -> None:
    assert read(TRANSPOSED) == "conv_transpose1d x=1x3x5 w=3x4x3 stride=2 padding=1 output_padding=1 dtype=bfloat16"


def test_batch_groups_are_a_grouped_weight_gradient() -> None:
    # forward of axis 0: (9 + 1 + 1 - 3) // 2 + 1 = 5, so an end padding of 1 does; axis 1: 8 + 0 + 1 - 5 + 1 = 5.
    assert read(GROUPED_GRADIENT) == (
        "conv2d.grad_weight x=2x4x9x8 w=6x2x3x3 stride=2x1 padding=1:1x0:1 dilation=1x2 groups=2 dtype=float32"
    )


def test_a_weight_gradient_that_leaves_input_over_is_not_refused_for_its_negative_pad() -> None:
    # forward: 8 -> (8 - 3) // 2 + 1 = 3; the last input is never read, hence pad 0_-1.
    line = (
        "g = f32[4,3,3] convolution(f32[2,3,8] x, f32[2,4,3] dy), window={size=3 pad=0_-1 rhs_dilate=2}, "
        "dim_labels=fb0_io0->fb0"
    )
    assert read(line) == "conv1d.grad_weight x=2x3x8 w=4x3x3 stride=2 dtype=float32"


def test_operands_defined_on_other_lines_are_looked_up() -> None:
    text = (
        "ENTRY main.3 {\n  x.1 = f32[1,3,5]{2,1,0} parameter(0)\n  w.1 = f32[4,3,2]{2,1,0} parameter(1)\n"
        "  ROOT c = f32[1,4,4]{2,1,0} convolution(x.1, /*index=1*/w.1), window={size=2}, dim_labels=bf0_oi0->bf0\n}"
    )
    assert read(text) == "conv1d x=1x3x5 w=4x3x2 dtype=float32"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("f32[2,4,9,8]{3,2,1,0} %x.1", "%x.1", "operand 'x.1' has no shape"),
        ("= f32[2,6,5,5]{3,2,1,0}", "=", "result's shape is needed"),
        ("f32[2,6,5,5]", "f32[2,6,5,6]", "gives"),
        ("f32[2,6,5,5]", "f32[2,7,5,5]", "disagree"),
        ("f32[6,2,3,3]", "f32[6,2,3,4]", "window"),
        ("f32[6,2,3,3]", "bf16[6,2,3,3]", "several types"),
        ("f32[", "s8[", "element type s8"),
        ("f32[2,4,9,8]", "f32[2,4,9,<=8]", "expected a whole number"),
        ("f32[2,4,9,8]", f"f32[2,4,9,{'9' * 19}]", "expected a whole number"),
        ("pad=1_2x0_1", "pad=1_2x0_1 lhs_dilate=2x1", "gives"),
        ("size=3x3", "size=3", "needs 2 values each"),
        ("size=3x3 ", "", "needs size="),
        ("stride=2x1", "stride=0x1", "at least 1"),
        ("dim_labels=bf01_oi01->bf01", "", "dim_labels"),
        ("dim_labels=bf01_oi01", "dim_labels=bf02_oi02", "dim_labels must name"),
        ("dim_labels=bf01_oi01", "dim_labels=bf?1_oi01", "dim_labels must name"),
        ("feature_group_count=2", "feature_group_count=0", "at least 1"),
        ("feature_group_count=2", "feature_group_count=3", "x has 4 channels"),
        (" convolution(", " dot(", "no HLO line"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(old: str, new: str, says: str) -> None:
    assert old in PLAIN
    assert says in refusal(PLAIN.replace(old, new))


def test_two_convolutions_in_one_text_are_refused() -> None:
    assert "2 convolutions" in refusal(f"{PLAIN}\n{TRANSPOSED}")


def test_stride_and_lhs_dilation_together_are_refused() -> None:
    # ((5 - 1) * 2 + 1 + 1 + 2 - 3) // 2 + 1 = 5
    line = TRANSPOSED.replace("size=3 ", "size=3 stride=2 ").replace("[1,4,10]", "[1,4,5]")
    assert "stride together with lhs_dilate" in refusal(line)


def test_a_strided_convolution_that_cuts_off_input_is_refused() -> None:
    # (9 - 2 - 2) // 2 + 1 = 3
    operands = "f32[1,3,9] x, f32[4,3,2] w"
    line = f"c = f32[1,4,3] convolution({operands}), window={{size=2 stride=2 pad=-2_0}}, dim_labels=bf0_oi0->bf0"
    assert "negative pad" in refusal(line)


def test_an_unknown_custom_call_names_those_that_are_read() -> None:
    assert "__cudnn$convBackwardInput" in refusal(SEED.replace("convBackwardFilter", "convForwardGraph"))


def test_very_long_lines_are_answered_quickly() -> None:
    for text in (
        "a" * 200_000,
        "a[" * 100_000,
        "convolution(" * 20_000,
        "custom-call(" * 20_000,
        "f32[1] x = " * 20_000,
    ):
        refusal(text + " convolution(f32[1,1] x, y)")


@settings(deadline=None, max_examples=400)
@given(line=mutated_lines(tuple(LINES)))
def test_a_mutated_line_is_read_or_refused_and_nothing_else(line: str) -> None:
    try_to_read(parse_hlo, line)


@given(st.text(max_size=60))
def test_any_text_after_the_operation_is_read_or_refused_and_nothing_else(text: str) -> None:
    for line in (text, f"c = f32[1,1,1] convolution({text}", PLAIN.replace("size=3x3", text)):
        try_to_read(parse_hlo, line)
