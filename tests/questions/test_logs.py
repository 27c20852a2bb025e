"""Logs as tools write them: produced by the tools themselves where they are at hand, and by hand where not."""

import re
import subprocess
import sys

import numpy as np
import pytest

import samebits
from samebits.errors import LogError
from samebits.problems import format_problem
from samebits.questions.explain.logs import parse_log, read_log

HLO = (
    "%custom-call.20 = (f16[1,5,24,24]{2,1,0,3}, u8[0]{0}) custom-call(f16[3778,1,50,24]{3,2,1,0} %bitcast.237,"
    " f16[3778,1,10,24]{3,2,1,0} %arg45.46), window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f,"
    ' custom_call_target="__cudnn$convBackwardFilter", backend_config="{\\"algorithm\\":\\"0\\"}" for 1+TC vs 0+TC'
)
OLD = [
    "E buffer_comparator.cc:682] Difference at 0: 95.25 vs 80.8125",
    "E buffer_comparator.cc:682] Difference at 1: 95.6875 vs 81",
    "E gpu_conv_algorithm_picker.cc:545] Results mismatch between different convolution algorithms. This",
    HLO,
    "E gpu_conv_algorithm_picker.cc:192] Device: GeForce RTX 3070",
]
NEW = [
    "E0317 05:01:29.217242  712317 buffer_comparator.cc:156] Difference at 6: 8.18504, expected 7.16615",
    "E0317 05:01:29.217324  712317 buffer_comparator.cc:156] Difference at 7: nan, expected 8.91452",
    "2025-03-17 05:01:29.217365: E gemm_fusion_autotuner.cc:1138] Results do not match the reference. This is likely a",
]


def test_the_old_wording_names_algorithms_and_problem():
    (found,) = parse_log(OLD)
    assert found.names == ("1+TC", "0+TC")
    assert found.pairs == ((0, 95.25, 80.8125), (1, 95.6875, 81.0))
    assert found.facts == {"algorithm": "0", "device": "GeForce RTX 3070"}
    assert found.problem is not None
    assert format_problem(found.problem) == ("conv2d.grad_weight x=3778x24x1x50 w=24x24x1x5 stride=1x5 dtype=float16")


def test_todays_wording_has_a_reference_and_no_problem():
    (found,) = parse_log(NEW)
    assert found.names == ("the algorithm", "the reference")
    assert found.pairs[0] == (6, 8.18504, 7.16615)
    assert np.isnan(found.pairs[1][1])
    assert found.problem is None


def test_several_mismatches_stay_apart_and_keep_their_sequence():
    found = parse_log([*NEW, *OLD, *NEW])
    assert [(m.line, len(m.pairs)) for m in found] == [(1, 2), (4, 2), (9, 2)]
    # A log's own problem goes to the mismatch it stands with; others take the nearest.
    assert [m.problem is not None for m in found] == [True, True, True]


def test_a_truncated_log_gives_what_there_is():
    (found,) = parse_log(OLD[:2])
    assert len(found.pairs) == 2
    (found,) = parse_log([OLD[0], OLD[2], HLO[:80]])
    assert found.problem is None


def test_assert_close_as_torch_writes_it():
    torch = pytest.importorskip("torch")
    a = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    b = a.clone()
    b[1, 2] += 0.5
    with pytest.raises(AssertionError) as raised:
        torch.testing.assert_close(b, a)
    (found,) = parse_log(["conv2d x=1x3x9x9 w=2x3x3x3 dtype=float32", *str(raised.value).splitlines()])
    metrics = found.metrics
    assert metrics is not None
    assert (metrics.mismatched, metrics.elements, metrics.max_abs) == (1, 32, 0.5)
    assert (metrics.atol, metrics.rtol) == (1e-5, 1.3e-6)
    assert found.problem is not None
    assert found.problem.w == (2, 3, 3, 3)


def test_assert_allclose_as_numpy_writes_it():
    with pytest.raises(AssertionError) as raised:
        np.testing.assert_allclose(  # noqa: TID251 (its message is what is read)
            np.array([1.0, 2.5]), np.array([1.0, 2.0]), rtol=1e-5
        )
    (found,) = parse_log(str(raised.value).splitlines())
    assert found.metrics is not None
    assert (found.metrics.mismatched, found.metrics.elements) == (1, 2)
    assert (found.metrics.max_abs, found.metrics.max_rel, found.metrics.rtol) == (0.5, 0.25, 1e-5)


def test_polygraphy():
    lines = """
[I] Accuracy Comparison | trt-runner-N0-10/23/23 vs. onnxrt-runner-N0-10/23/23
[I]     Comparing Output: 'y' (dtype=float32, shape=(1, 8)) with 'y' (dtype=float32, shape=(1, 8))
[I]         Tolerance: [abs=1e-05, rel=1e-05] | Checking elemwise error
[I]         trt-runner-N0-10/23/23: y | Stats: mean=-0.98, std-dev=0.94, min=-2.45 at (0, 4), max=0.92 at (0, 2)
[I]         Error Metrics: y
[I]             Minimum Required Tolerance: elemwise error | [abs=0.0016] OR [rel=0.2]
[I]             Absolute Difference | Stats: mean=0.0004, median=0.0003, min=0 at (0, 1), max=0.0016 at (0, 7)
[I]             Relative Difference | Stats: mean=0.01, median=0.001, min=0 at (0, 1), max=0.2 at (0, 3)
[E]         FAILED | Output: 'y' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)
""".splitlines()
    (found,) = parse_log(lines)
    assert found.names == ("trt-runner-N0-10/23/23", "onnxrt-runner-N0-10/23/23")
    assert found.metrics is not None
    assert (found.metrics.max_abs, found.metrics.max_rel, found.metrics.mean_abs) == (0.0016, 0.2, 0.0004)
    assert found.metrics.largest_value == 2.45
    assert (found.metrics.atol, found.metrics.rtol) == (1e-5, 1e-5)


def test_onednn_as_torch_makes_it_write(tmp_path):
    pytest.importorskip("torch")
    code = (
        "import torch, torch.nn.functional as F\n"
        "x, w = torch.randn(2, 16, 20, 20), torch.randn(32, 16, 3, 3)\n"
        "F.conv2d(x, w, padding=1)\n"
        "F.conv_transpose2d(x, torch.randn(16, 8, 4, 4), stride=2, padding=1)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"ONEDNN_VERBOSE": "1", "PATH": ""},
    )
    if "convolution" not in run.stdout:
        pytest.skip("this build of torch does not use oneDNN")
    path = tmp_path / "verbose.log"
    path.write_text(run.stdout)
    texts = {format_problem(m.problem) for m in read_log(path) if m.problem}
    assert texts == {
        "conv2d x=2x16x20x20 w=32x16x3x3 padding=1 dtype=float32",
        "conv_transpose2d x=2x16x20x20 w=16x8x4x4 stride=2 padding=1 dtype=float32",
    }


def test_onednn_lines_of_older_versions():
    line = (
        "dnnl_verbose,exec,cpu,convolution,jit:avx512_core_bf16,forward_inference,src_bf16::blocked:abcd:f0"
        " wei_bf16::blocked:Acdb16a:f0 bia_undef::undef::f0 dst_f32::blocked:aBcd16b:f0,,alg:convolution_direct,"
        "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3,0.573975"
    )
    (found,) = parse_log([line])
    assert found.computes_in == ("bfloat16", "bfloat16", "float32")
    assert found.problem is not None
    assert found.problem.w == (64, 3, 7, 7)


def test_the_text_of_a_log_is_explained_like_its_file(tmp_path):
    text = (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\nGreatest absolute difference:"
        " 0.5 at index (1, 1) (up to 1e-05 allowed)\nGreatest relative difference: 0.1 at index (1, 1)"
        " (up to 1.3e-06 allowed)\n"
    )
    (tmp_path / "x.log").write_text(text)
    from_text, from_file = samebits.explain(text), samebits.explain(tmp_path / "x.log")
    assert (from_text.verdict, from_text.summary) == (from_file.verdict, from_file.summary)
    with pytest.raises(LogError, match="the log tells of no mismatch") as refused:
        samebits.explain("all tests\npassed\n")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "tells of no mismatch"),
        (b"all tests passed\n", "tells of no mismatch"),
        (b"\x7fELF\0\0\0\0", "neither a case file"),
        (b"Difference at 5: seven vs eight\n", "tells of no mismatch"),
    ],
)
def test_what_is_no_log_of_a_mismatch_gets_one_line(tmp_path, content, says):
    path = tmp_path / "x.log"
    path.write_bytes(content)
    with pytest.raises(LogError, match=says):
        read_log(path)


def test_a_missing_file_gets_one_line(tmp_path):
    with pytest.raises(LogError, match="cannot be read"):
        read_log(tmp_path / "none.log")


def test_absurd_numbers_and_lines_cost_no_more_than_a_moment():
    digits = "9" * 5000
    with pytest.raises(LogError):
        parse_log([f"Difference at {digits}: 1 vs 2", f"Mismatched elements: {digits} / {digits}", "a" * 20_000])
    found = parse_log([*OLD[:2], "a = convolution(" * 1200, "a" * 20_000])
    assert len(found) == 1


def test_two_assertions_keep_their_own_numbers():
    one = [
        "Mismatched elements: 1 / 4 (25.0%)",
        "Greatest absolute difference: 0.5 at index (0,) (up to 1e-05 allowed)",
    ]
    two = [
        "Mismatched elements: 2 / 4 (50.0%)",
        "Greatest absolute difference: 0.25 at index (0,) (up to 1e-05 allowed)",
    ]
    assert [m.metrics.max_abs for m in parse_log([*one, *two]) if m.metrics] == [0.5, 0.25]


def test_onednns_formats_of_operands_and_result_are_the_problems():
    shape = "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3,0.57"
    head = "onednn_verbose,v1,primitive,exec,cpu,convolution,brgemm:avx512_core_bf16"
    lines = [
        f"{head},forward_training,src:bf16::blocked:acdb::f0 wei:bf16:a:blocked:Acdb16a::f0 bia:undef::undef:::"
        f" dst:f32::blocked:acdb::f0,,alg:convolution_direct,{shape}",
        f"{head},backward_weights,src:bf16::blocked:acdb::f0 diff_wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef:::"
        f" diff_dst:bf16:p:blocked:acdb::f0,,alg:convolution_direct,{shape}",
    ]
    lines.append(lines[0].replace("0.57", "0.61"))
    assert [format_problem(m.problem) for m in parse_log(lines) if m.problem] == [
        "conv2d x=1x3x224x224 w=64x3x7x7 stride=2 padding=3 dtype=bfloat16 out=float32",
        "conv2d.grad_weight x=1x3x224x224 w=64x3x7x7 stride=2 padding=3 dtype=bfloat16 out=float32",
    ]


def test_equal_names_of_two_sides_are_kept_apart():
    (found,) = parse_log([line.replace("0+TC", "1+TC") for line in OLD])
    assert found.names == ("1+TC (first)", "1+TC (second)")


def test_a_mismatch_takes_the_nearest_problem_before_it_else_the_first():
    problems = [f"conv2d x=1x{c}x9x9 w=2x{c}x3x3 dtype=float32" for c in (1, 2, 3)]
    lines = ["", NEW[0], NEW[2], problems[0], "conv2d x=no w=problem", NEW[0], NEW[2], problems[1], problems[2], NEW[0]]
    assert [m.problem.x[1] for m in parse_log(lines) if m.problem] == [1, 1, 3]


@pytest.mark.parametrize(
    ("text", "einsum", "x", "w"),
    [
        ("linear x=64x512 w=256x512", "mk,nk->mn", (64, 512), (256, 512)),
        ("matmul x=64x512 w=512x256", "mk,kn->mn", (64, 512), (512, 256)),
        ("matmul x=8x64x128 w=8x128x16", "bmk,bkn->bmn", (8, 64, 128), (8, 128, 16)),
    ],
)
def test_products_have_the_errors_of_mechanisms_too(tmp_path, text, einsum, x, w):
    """TF32's largest error on normal data, in shares of the largest output, as plain NumPy has it, within twice."""
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in (x, w))
    cut = [((v.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32).astype(np.float64) for v in (a, b)]
    exact, rounded = np.einsum(einsum, a.astype(np.float64), b), np.einsum(einsum, *cut)
    share = np.abs(rounded - exact).max() / np.abs(exact).max()
    log = tmp_path / "log"
    log.write_text(f"{text}\nMismatched elements: 1 / {exact.size}\nMax absolute difference among violations: 0.01\n")
    found = samebits.explain(log)
    said = " ".join(one.says for side in found.sides for one in side.evidence)
    simulated = float(re.search(r"rounds x and w to tf32 before it multiplies ([\d.e-]+)", said).group(1))
    assert share / 2 < simulated < share * 2
    assert found.outputs == exact.size
