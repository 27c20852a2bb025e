"""Whatever reads text takes time in proportion to it: lines made of pieces of real ones, and of tokens repeated."""

from __future__ import annotations

import contextlib
import itertools
import random
import time

import pytest

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.errors import ProblemShapeError, ProblemTextError, RecipeError, SamebitsError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import LARGEST_TEXT_BYTES
from samebits.problems.languages.any_language import read_problem
from samebits.problems.languages.benchdnn import parse_benchdnn
from samebits.problems.languages.hlo import parse_hlo
from samebits.problems.languages.miopen import parse_miopen
from samebits.problems.languages.onnx_node import problem_from_onnx_node
from samebits.questions.explain.logs import parse_log
from samebits.sums.recipes import parse_recipe

# Left out of `make quick`.
pytestmark = pytest.mark.slow

SHORT, LONG = 4096, 16384
# One character costs at most a microsecond or two here; a quadratic reader spends seconds on LONG characters.
QUICK_S, MOST_S = 0.03, 1.0
# Four times the length: four times the time, sixteen times if it is quadratic.
MOST_GROWTH = 9
LINES_OF_EACH = 120

HLO = (
    "%c.20 = (f16[1,5,24,24]{2,1,0,3}, u8[0]{0}) custom-call(f16[3778,1,50,24]{3,2,1,0} %bitcast.237,"
    " f16[3778,1,10,24]{3,2,1,0} /*index=1*/ %arg45.46), window={size=1x5 stride=1x5 pad=0_0x1_1},"
    ' dim_labels=b01f_01io->b01f, feature_group_count=1, custom_call_target="__cudnn$convBackwardFilter",'
    ' backend_config="{\\"algorithm\\":\\"0\\",\\"activation_mode\\":\\"kRelu\\"}" for 1+TC vs 0+TC'
)
BENCHDNN = "--conv --dir=BWD_W --dt=bf16:f32:bf16 --attr-post-ops=clip:0:6 g2mb4_ic8id6oc4kd3pd1_dd1n'a: b'"
MIOPEN = "MIOpen(HIP): ./bin/MIOpenDriver convfp16 -n 1 -c 3 -H 8 --in_w 8 -k 4 -y 3 -x 3 -p 1 -m conv -F 1 -t 1"
OURS = "conv2d.grad_weight x=2x3x8x8 w=4x3x3x3 bias stride=1x2 padding=0:1x2:3 groups=1 dtype=float32 then=clip(-1,6.5)"
RECIPE = (
    "direct x=tf32/toward_zero fused=25 acc=float32 order=pairs@float16:c/16%4|-kh,kw,c!product=fused;k"
    " where=ow(0*48,1*8)"
)
TREE = "direct order=tree:(0:14:2+[(1)*2@2+7])@float16+{9+11}+13"
RUNNER = r"torch:mkldnn=off,threads=1,env.ONEDNN_X=a\,b"
XLA = "E0317 05:01:29.2 7 buffer_comparator.cc:156] Difference at 6: -8.18504e+02, expected 7.16615"
FACTS = '] Device: GeForce RTX 3070 cudnn version: 8.0.5 "algorithm\\" : \\"28\\" %a.b = f32[1] convolution('
TORCH = (
    "Mismatched elements: 1 / 32 (3.1%) Not equal to tolerance rtol=1e-05, atol=0.5"
    " Greatest absolute difference: 0.5 at index (0,) (up to 1e-05 allowed) Max relative difference among v: 12.0e-3"
)
POLYGRAPHY = (
    "[I] Accuracy Comparison | trt-N0 vs. onnxrt-N0 Tolerance: [abs=1e-05, rel=1e-05]"
    " Absolute Difference | Stats: mean=0.0004, median=0.0003, min=0 at (0, 1), max=0.0016 at (0, 7)"
)
ONEDNN = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512,forward_inference,src_f32::blocked:abcd::f0"
    " wei:f32:a:blocked:Acdb16a::f0 bia_undef::undef::: dst_f32::blocked:aBcd16b::f0,attr-fpmath:bf16,"
    "alg:convolution_direct,g2mb1_ic4oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3,0.57"
)
SHAPELESS = ONEDNN[: ONEDNN.index("g2mb1")]


def read_one_line(line):
    # Behind a mismatch of each kind, so that what may follow one is looked for.
    parse_log([XLA, "Mismatched elements: 1 / 4", line, "Mismatched elements: 1 / 4"])


def read_many_lines(line):
    """The same text as twelve lines of one assertion."""
    step = -(-len(line) // 11)
    parse_log(["Mismatched elements: 1 / 4", *(line[i : i + step] for i in range(0, len(line), step))])


def read_onednn_line(line):
    parse_log([line])


def read_onnx_names(line):
    problem_from_onnx_node(line, {"auto_pad": line}, (1, 3, 8, 8), (4, 3, 3, 3), bias=False, dtype="float32")
    problem_from_onnx_node("Conv", {"auto_pad": line}, (1, 3, 8, 8), (4, 3, 3, 3), bias=False, dtype=line)


LOGS = (XLA, FACTS, HLO, TORCH, POLYGRAPHY, ONEDNN, MIOPEN, OURS)
READERS = {
    "log": (read_one_line, LOGS),
    "assertion": (read_many_lines, (TORCH,)),
    "onednn": (read_onednn_line, (ONEDNN,)),
    "hlo": (parse_hlo, (HLO, FACTS)),
    "benchdnn": (parse_benchdnn, (BENCHDNN, ONEDNN)),
    "miopen": (parse_miopen, (MIOPEN,)),
    "onnx": (read_onnx_names, ("ConvTranspose", "SAME_UPPER")),
    "problem": (parse_problem_text, (OURS,)),
    "any language": (read_problem, (HLO, BENCHDNN, MIOPEN, OURS)),
    "recipe": (parse_recipe, (RECIPE, TREE)),
    "runner": (parse_runner_text, (RUNNER, f"emulate:{RECIPE}")),
}
TOKENS = (*'1a x_.-([{"\\=:,;', "1e", "0.", "/*", "a = ", "mb1", "ic")


def make_lines(lines, length, name):
    """So many lines: the beginning of a real one, a piece of one or a token again and again, the end of a real one."""
    choose = random.Random(name)
    for _ in range(LINES_OF_EACH):
        before, middle, behind = (choose.choice(lines) for _ in range(3))
        start = choose.randrange(len(middle))
        pieces = [middle[start : start + choose.randint(1, 30)], choose.choice(TOKENS)]
        pump = choose.choice([*pieces, "".join(pieces)])
        head = before[: choose.randrange(len(before) + 1)]
        tail = choose.choice(["", "!", behind[choose.randrange(len(behind)) :]])
        # Digits would name larger ranges, not longer texts.
        if "tree:" in head and pump.strip("0123456789") == "":
            continue
        yield head + pump * (length // len(pump)) + tail


# What took minutes, or much memory, once: a beginning, what is repeated, an end.
KNOWN = {
    "log": (
        ("Absolute Difference | Stats: mean=1, ", "min=1", "!"),
        ("Difference at 5: ", "1", ""),
        ("| Stats: mean=", "1", "min="),
        ("Greatest absolute difference", "Greatest absolute difference", ""),
    ),
    "assertion": (("", "Greatest absolute difference", ""), ("", "rtol=1,", "")),
    "onednn": ((SHAPELESS + "mb", "1", ""), (SHAPELESS + "mb1", "ic", "")),
    "recipe": (
        ("direct where=ow(", "0*1,", "0*1)"),
        ("direct order=", "k;", "k"),
        ("direct order=tree:", "0+", "0"),
    ),
    "benchdnn": (("--conv ", "ic", ""), ("--conv ", "--dt=f32 ", ""), ("", "a", "")),
    "miopen": (("MIOpenDriver conv ", "-n 1 ", ""), ("MIOpenDriver ", "a", "")),
}


def make_known(length, name):
    return [head + pump * (length // len(pump)) + tail for head, pump, tail in KNOWN.get(name, ())]


def measure(read, line, repeats=1):
    """The least processor time of so many readings."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        with contextlib.suppress(SamebitsError):
            read(line)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("name", READERS)
def test_reading_takes_time_in_proportion_to_the_text(name):
    read, lines = READERS[name]
    pairs = zip(
        itertools.chain(make_known(SHORT, name), make_lines(lines, SHORT, name)),
        itertools.chain(make_known(LONG, name), make_lines(lines, LONG, name)),
        strict=True,
    )
    for short, long in pairs:
        # The short one first: of an exploding reader it is enough.
        assert measure(read, short) < MOST_S, short[:200]
        if measure(read, long) > QUICK_S:
            assert measure(read, long, 3) < max(MOST_GROWTH * measure(read, short, 5), QUICK_S), long[:200]


@pytest.mark.parametrize(
    "text",
    [
        "MIOpenDriver " + "a" * LARGEST_TEXT_BYTES,
        "--conv " + "ic1" * (LARGEST_TEXT_BYTES // 3),
        "conv2d x=1x1x1x1 w=1x1x1x1 padding=" + "1x" * (LARGEST_TEXT_BYTES // 2) + "1",
        "c = f32[1] convolution(" + "f32[1] a, " * (LARGEST_TEXT_BYTES // 10),
    ],
    ids=lambda text: text[:12],
)
def test_the_longest_text_of_a_case_file_is_refused_in_a_moment(text):
    start = time.process_time()
    with pytest.raises((ProblemTextError, ProblemShapeError)):
        read_problem(text)
    assert time.process_time() - start < 3 * MOST_S


@pytest.mark.parametrize(("opening", "closing"), ["()", "[]"])
def test_a_tree_that_doubles_with_every_bracket_is_refused(opening, closing):
    with pytest.raises(RecipeError, match="at most"):
        parse_recipe(f"direct order=tree:{opening * 60}0{f'{closing}*2@1' * 60}")
