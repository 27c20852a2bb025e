"""benchdnn lines: published ones, hand-worked shapes, and the formulas of conv_aux.cpp and deconv_aux.cpp."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from problem_lines import mutated_lines, read_with, refusal_of, try_to_read
from samebits.errors import ProblemShapeError
from samebits.problems.languages.benchdnn import parse_benchdnn

ALEXNET = 'g1mb256ic3ih227iw227oc96oh55ow55kh11kw11sh4sw4ph0pw0n"alexnet:conv1"'
# As oneDNN verbose prints it, github.com/uxlfoundation/oneDNN/issues/832.
VERBOSE = "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3"
LINES = (
    ALEXNET,
    VERBOSE,
    "--conv --dir=BWD_W --dt=bf16:f32:bf16 g2mb4ic8id6oc4kd3pd1_dd1",
    "./benchdnn --deconv -v1 --dir=FWD_D --dt=f16 g1oc3ic16_ow10iw5kw3pw1sw2_n'deconv: a b'",
    "--conv --mb=3 --attr-post-ops=clip:0:6 --stag=axb ic4oc4ih8kh3",
)


def read(line: str) -> str:
    return read_with(parse_benchdnn, line)


def refusal(line: str) -> str:
    return refusal_of(parse_benchdnn, line)


def test_the_documented_alexnet_descriptor() -> None:
    # (227 - 11) / 4 + 1 = 55 without any padding.
    assert read(ALEXNET) == "conv2d x=256x3x227x227 w=96x3x11x11 stride=4 dtype=float32"


def test_the_documented_command_line_with_an_overriding_minibatch() -> None:
    line = (
        "./benchdnn --conv -v1 --mb=4 --dir=FWD_B --dt=f32 "
        'ic3ih227iw227_oc96oh55ow55_kh11kw11_sh4sw4ph0pw0_n"alexnet:conv1"'
    )
    assert read(line) == "conv2d x=4x3x227x227 w=96x3x11x11 bias stride=4 dtype=float32"


def test_a_descriptor_as_verbose_prints_it() -> None:
    # oh = 112 takes 111 * 2 + 7 - 224 - 3 = 2 or 3 rows at the end; the symmetric 3 is taken.
    assert read(VERBOSE) == "conv2d x=1x3x224x224 w=64x3x7x7 stride=2 padding=3 dtype=float32"


def test_a_failing_tests_line_is_read_from_its_repro_part() -> None:
    assert read("3:FAILED (errors:1 total:9) __REPRO: --conv --dir=FWD_D ic3ih8oc4kh3ph0") == (
        "conv2d x=2x3x8x8 w=4x3x3x3 dtype=float32"
    )


def test_one_dimensional_shapes_of_onednns_own_list() -> None:
    # (8 + 2 - 3) // 2 + 1 = 4
    assert read('g1ic3oc17_iw8ow4kw3pw1sw2_n"1d_conv:1st_stride_tail"') == (
        "conv1d x=2x3x8 w=17x3x3 stride=2 padding=1 dtype=float32"
    )


def test_height_alone_is_square_and_depth_alone_is_cubic() -> None:
    assert read("mb1ic2ih9oc3kh3sh2ph1dh1") == (
        "conv2d x=1x2x9x9 w=3x2x3x3 stride=2 padding=1 dilation=2 dtype=float32"
    )
    assert read("mb1ic2id9oc3kd3pd1") == "conv3d x=1x2x9x9x9 w=3x2x3x3x3 padding=1 dtype=float32"


def test_three_dimensions_given_one_by_one() -> None:
    assert read("mb1ic2id4ih5iw6oc3kd1kh2kw3") == "conv3d x=1x2x4x5x6 w=3x2x1x2x3 dtype=float32"


def test_a_dilation_of_zero_means_none() -> None:
    assert read("ic2ih9oc3kh3dh0") == read("ic2ih9oc3kh3")
    assert " dilation=2 " in read("ic2ih9oc3kh3dh1")


def test_a_minibatch_not_given_is_two() -> None:
    assert parse_benchdnn("ic2ih9oc3kh3").x[0] == 2
    assert parse_benchdnn("mb5ic2ih9oc3kh3").x[0] == 5


def test_channels_are_totals_over_the_groups() -> None:
    assert read("g32mb1_ic32oc64_ih9kh3") == "conv2d x=1x32x9x9 w=64x1x3x3 groups=32 dtype=float32"


def test_padding_not_given_is_half_of_what_the_output_needs() -> None:
    # ((8 - 1) * 1 - 8 + 3) / 2 = 1; ((4 - 1) * 2 - 8 + 3) / 2 = 0 and 1 is missing at the end.
    assert " padding=1 " in read("ic2iw8ow8oc3kw3")
    assert " padding=0:1 " in read("ic2iw8ow4oc3kw3sw2")


def test_neither_padding_nor_output_given_means_no_padding() -> None:
    problem = parse_benchdnn("ic2iw8oc3kw3")
    assert problem.padding == ((0, 0),)
    assert problem.y_shape == (2, 3, 6)


def test_an_output_larger_than_symmetric_padding_gives_is_padded_at_the_end() -> None:
    # 9 outputs of 8 inputs with 3 taps: 8 + 1 + end - 3 + 1 = 9.
    assert " padding=1:2 " in read("ic2iw8ow9oc3kw3pw1")


def test_an_output_smaller_than_any_padding_gives_is_refused() -> None:
    assert "negative padding" in refusal("ic2iw20ow3oc3kw3pw0")
    assert "negative padding" in refusal("ic2iw20ow3oc3kw3")


def test_deconvolution_maps_ic_to_oc() -> None:
    # (5 - 1) * 2 + 3 = 11 without padding.
    line = "--deconv --dir=FWD_D mb1g2ic4oc6iw5kw3sw2"
    assert read(line) == "conv_transpose1d x=1x4x5 w=4x3x3 stride=2 groups=2 dtype=float32"
    assert parse_benchdnn(line).y_shape == (1, 6, 11)


def test_a_deconvolutions_output_size_becomes_output_padding() -> None:
    # 11 - 1 - 1 = 9 symmetrically; 10 needs one row more.
    assert read("--deconv --dir=FWD_D mb1ic4oc6iw5ow10kw3sw2pw1") == (
        "conv_transpose1d x=1x4x5 w=4x6x3 stride=2 padding=1 output_padding=1 dtype=float32"
    )
    assert parse_benchdnn("--deconv ic4oc6iw5ow10kw3sw2").y_shape == (2, 6, 10)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("FWD_B", "conv1d x=2x2x8 w=3x2x3 bias dtype=float32"),
        ("FWD_D", "conv1d x=2x2x8 w=3x2x3 dtype=float32"),
        ("fwd_i", "conv1d x=2x2x8 w=3x2x3 dtype=float32"),
        ("BWD_D", "conv1d.grad_input x=2x2x8 w=3x2x3 dtype=float32"),
        ("BWD_W", "conv1d.grad_weight x=2x2x8 w=3x2x3 dtype=float32"),
        ("BWD_WB", "conv1d.grad_weight x=2x2x8 w=3x2x3 dtype=float32"),
    ],
)
def test_directions(direction: str, expected: str) -> None:
    assert read(f"--conv --dir={direction} ic2iw8oc3kw3") == expected


def test_a_command_line_defaults_to_forward_with_bias_but_a_bare_descriptor_has_none() -> None:
    assert parse_benchdnn("--conv ic2iw8oc3kw3").bias
    assert not parse_benchdnn("ic2iw8oc3kw3").bias


def test_a_bias_data_type_asks_for_a_bias() -> None:
    assert parse_benchdnn("--dir=FWD_D --bia-dt=f32 ic2iw8oc3kw3").bias
    assert not parse_benchdnn("--dir=FWD_D --bia-dt=undef ic2iw8oc3kw3").bias


@pytest.mark.parametrize(
    ("option", "direction", "ending"),
    [
        ("--dt=f16", "FWD_D", "dtype=float16"),
        ("--dt=bf16:bf16:f32", "FWD_D", "dtype=bfloat16 out=float32"),
        ("--dt=f32:bf16:bf16", "BWD_D", "dtype=bfloat16 out=float32"),
        ("--dt=bf16:f32:bf16", "BWD_W", "dtype=bfloat16 out=float32"),
        ("--dt=f8_e5m2:f8_e5m2:f16", "FWD_D", "dtype=float8_e5m2 out=float16"),
        ("--cfg=bf16bf16f32", "FWD_D", "dtype=bfloat16 out=float32"),
        ("--cfg=f16f16f16", "FWD_D", "dtype=float16"),
        ("--cfg=f32_wino", "FWD_D", "dtype=float32"),
        ("--cfg=f64", "FWD_D", "dtype=float64"),
    ],
)
def test_data_types_are_those_of_source_weights_and_destination(option: str, direction: str, ending: str) -> None:
    assert read(f"--conv {option} --dir={direction} ic2iw8oc3kw3").endswith(" " + ending)


@pytest.mark.parametrize("post_op", ["relu", "relu:0", "eltwise_relu", "eltwise_relu:0:0"])
def test_relu_without_a_slope_is_an_epilogue(post_op: str) -> None:
    assert read(f"--dir=FWD_D --attr-post-ops={post_op} ic2iw8oc3kw3").endswith(" then=relu")


def test_clip_is_an_epilogue() -> None:
    assert read("--dir=FWD_D --attr-post-ops='clip:-1:6' ic2iw8oc3kw3").endswith(" then=clip(-1,6)")


def test_options_that_change_nothing_that_is_computed_are_ignored() -> None:
    options = (
        "-v5 --alg=WINO --stag=axb --wtag=any --dtag=axb --mode=P --engine=gpu --skip-impl=ref,gemm --fast-ref=false "
        "--attr-scratchpad=user --attr-deterministic=true --attr-fpmath=strict --attr-post-ops= --attr-scales= --mb=0"
    )
    assert read(f"--conv --dir=FWD_D {options} ic2iw8oc3kw3") == read("ic2iw8oc3kw3")


def test_reset_forgets_the_options_before_it() -> None:
    assert read("--dir=BWD_D --dt=f16 --reset --dir=FWD_D ic2iw8oc3kw3") == read("ic2iw8oc3kw3")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "no problem descriptor"),
        ("--conv --dir=FWD_D", "no problem descriptor"),
        ("ic2iw8oc3kw3 ic2iw8oc3kw3", "second problem descriptor"),
        ("--matmul 2x3:3x4", "--matmul"),
        ("--conv --batch=shapes_basic", "--batch"),
        ("--attr-scales=src:common:0.25 ic2iw8oc3kw3", "--attr-scales changes"),
        ("--attr-zero-points=src:common:2 ic2iw8oc3kw3", "--attr-zero-points changes"),
        ("--attr-fpmath=tf32 ic2iw8oc3kw3", "--attr-fpmath=tf32 is a setting of the engine"),
        ("--attr-acc-mode=f16 ic2iw8oc3kw3", "--attr-acc-mode=f16 is a setting of the engine"),
        ("--attr-post-ops=relu:0.5 ic2iw8oc3kw3", "relu:0.5"),
        ("--attr-post-ops=relu+sum ic2iw8oc3kw3", "relu+sum"),
        ("--attr-post-ops=clip:0 ic2iw8oc3kw3", "clip:0"),
        ("--attr-post-ops=clip:6:0 ic2iw8oc3kw3", "low <= high"),
        ("--attr-post-ops=clip:nan:0 ic2iw8oc3kw3", "low <= high"),
        ("--dir=BWD_D --attr-post-ops=relu ic2iw8oc3kw3", "neither bias nor then"),
        ("--dir=FWD_D,BWD_D ic2iw8oc3kw3", "several values"),
        ("--dir=SIDEWAYS ic2iw8oc3kw3", "SIDEWAYS"),
        ("--dt=u8:s8:s32 ic2iw8oc3kw3", "u8:s8:s32"),
        ("--dt=f32:f32 ic2iw8oc3kw3", "one or three"),
        ("--dt=f32:f16:f32 ic2iw8oc3kw3", "two data types"),
        ("--cfg=u8s8f32 ic2iw8oc3kw3", "u8s8f32"),
        ("--mb=x ic2iw8oc3kw3", "whole number"),
        ("--invented=1 ic2iw8oc3kw3", "--invented"),
        ("iw8oc3kw3", "ic is missing"),
        ("ic2oc3", "no spatial size"),
        ("ic2iw8oc3", "kw is missing"),
        ("ic2iw8oc3kw3sw0", "sw is missing or 0"),
        ("ic2id8kd3ih8kh3oc3", "both h and w or neither"),
        ("g3ic4iw8oc3kw3", "g=3 must divide"),
        ("g0ic4iw8oc3kw3", "g=0 must divide"),
        ("ic2iw8oc3kw3zz", "no descriptor field at 'zz'"),
        ("ic-2iw8oc3kw3", "no descriptor field"),
        (f"ic{'9' * 19}iw8oc3kw3", "18 digits"),
        ("ic2iw2oc3kw3", "no output"),
        ("--conv 'ic2iw8oc3kw3", "cannot split"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(line: str, says: str) -> None:
    assert says in refusal(line)


@settings(deadline=None)
@given(
    size=st.integers(1, 30),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    dilation=st.integers(0, 2),
    begin=st.integers(0, 4),
    result=st.integers(1, 40),
    driver=st.sampled_from(["conv", "deconv"]),
)
def test_the_output_size_that_is_given_is_the_problems(
    size: int, kernel: int, stride: int, dilation: int, begin: int, result: int, driver: str
) -> None:
    line = f"--{driver} ic1iw{size}oc1ow{result}kw{kernel}sw{stride}dw{dilation}pw{begin}"
    try:
        problem = parse_benchdnn(line)
    except ProblemShapeError:
        # Beyond what padding and output padding below a stride can reach.
        return
    assert problem.y_shape == (2, 1, result)
    assert problem.axes[0].pad_begin == begin


@settings(deadline=None, max_examples=400)
@given(line=mutated_lines(tuple(LINES)))
def test_a_mutated_line_is_read_or_refused_and_nothing_else(line: str) -> None:
    try_to_read(parse_benchdnn, line)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for line in (text, f"--attr-post-ops={text} ic2iw8oc3kw3", f"--dt={text} ic2iw8oc3kw3", f"ic2iw8oc3kw3{text}"):
        try_to_read(parse_benchdnn, line)


def test_very_long_lines_are_answered_quickly() -> None:
    for text in ("ic1" * 60_000, "_" * 200_000, "--v " * 20_000, "x" * 200_000, "--attr-post-ops=" + "relu:" * 40_000):
        refusal(text)
