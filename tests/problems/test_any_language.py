"""The front door: each language reaches its parser, and what is none of them gets our own parser's error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems.languages.any_language import read_problem
from samebits.problems.problem_text import format_problem

HLO = "c = f32[1,4,6,6] convolution(f32[1,3,8,8] x, f32[4,3,3,3] w), window={size=3x3}, dim_labels=bf01_oi01->bf01"
EXPECTED = "conv2d x=1x3x8x8 w=4x3x3x3 dtype=float32"


@pytest.mark.parametrize(
    "text",
    [
        "conv2d x=1x3x8x8 w=4x3x3x3",
        "  conv2d   x=1x3x8x8   w=4x3x3x3 ",
        HLO,
        f'2021-06-05 21:28:17: E conv_algorithm_picker.cc:545]\n%{HLO}, metadata={{op_name="f"}} for 1+TC vs 0+TC\n',
        "mb1ic3ih8oc4kh3",
        "_mb1_ic3ih8_oc4_kh3",
        "--conv --dir=FWD_D mb1ic3ih8oc4kh3",
        "./benchdnn --dir=FWD_D --conv mb1ic3ih8oc4kh3",
        "0:FAILED __REPRO: --conv --dir=FWD_D mb1ic3ih8oc4kh3",
        "MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -F 1",
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -F 1",
    ],
)
def test_one_convolution_in_every_language_is_one_problem(text: str) -> None:
    assert format_problem(read_problem(text)) == EXPECTED


@pytest.mark.parametrize("text", ["", "   ", "hello", "conv4d x=1", "convolve x=1x3x8x8", "onednn_verbose,info"])
def test_text_in_no_language_gets_the_error_of_ours(text: str) -> None:
    with pytest.raises(ProblemTextError, match=r"unknown kind|nothing there"):
        read_problem(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("conv2d.sideways x=1x3x8x8 w=4x3x3x3", "unknown direction"),
        ('f32[1] custom-call(f32[1] x), custom_call_target="cublas"', "no HLO line"),
        ("--conv --batch=all", "--batch"),
        ("mb1ic3", "oc is missing"),
        ("MIOpenDriver pool", "pool is not one of"),
    ],
)
def test_a_recognised_language_gives_its_own_error(text: str, says: str) -> None:
    with pytest.raises(ProblemTextError, match=says):
        read_problem(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    for line in (text, f"convolution({text}", f"--{text}", f"g1{text}", f"MIOpenDriver conv {text}", f"conv1d {text}"):
        with contextlib.suppress(ProblemTextError, ProblemShapeError):
            read_problem(line)
