"""What TensorRT was allowed, read from logs as trtexec, Polygraphy and ONNX Runtime write them."""

import pytest

from samebits import explain
from samebits.errors import LogError
from samebits.questions.explain.logs import parse_log

# Lines of public reports: pytorch/TensorRT#1340, NVIDIA/TensorRT#2186, #2336, onnxruntime#19492.
TRTEXEC = """\
&&&& RUNNING TensorRT.trtexec [TensorRT v8402] # trtexec --onnx=./onnx/bert-sparse-ASP-qabase-sq128-b1.onnx {options}
[09/16/2022-09:55:06] [W] --workspace flag has been deprecated by --memPoolSize flag.
[09/16/2022-09:55:06] [I] === Build Options ===
[09/16/2022-09:55:06] [I] Precision: FP32
"""
WEIGHTS = """\
[07/27/2022-23:16:56] [W] [TRT] Weights [name=Conv_13703 + Add_13709 + onnx::Mul_4732_clone_3.weight] had the \
following issues when converted to FP16:
[07/27/2022-23:16:56] [W] [TRT]  - Subnormal FP16 values detected.
"""
POLYGRAPHY = """\
[I] Building engine with configuration:
    Workspace            | 1073741824 bytes (1024.00 MiB)
    Precision            | TF32: False, FP16: True, INT8: False, Obey Precision Constraints: False, Strict Types: False
[I] Accuracy Comparison | trt-runner-N0-09/19/22-06:26:52 vs. onnxrt-runner-N0-09/19/22-06:26:52
[I]         trt-runner-N0-09/19/22-06:26:52: y | Stats: mean=0.1, std-dev=0.9, var=0.8, median=0.1, min=-4 at (0,), \
max=4 at (1,), avg-magnitude=0.7
[I]         Absolute Difference | Stats: mean=0.0001, std-dev=0.0001, var=1e-8, median=0.0001, min=0 at (0,), \
max=0.004 at (2,), avg-magnitude=0.0001
[I]         Relative Difference | Stats: mean=0.001, std-dev=0.001, var=1e-6, median=0.001, min=0 at (0,), \
max=0.3 at (2,), avg-magnitude=0.001
[E]         FAILED | Output: 'y' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)
"""


def read(text):
    return parse_log(text.splitlines())


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ("--workspace=4096", ("TF32",)),
        ("--noTF32", ()),
        ("--fp16 --workspace=4096", ("float16", "TF32")),
        ("--fp16 --noTF32", ("float16",)),
        ("--best", ("float16", "bfloat16", "int8", "TF32")),
        ("--bf16 --int8", ("bfloat16", "int8", "TF32")),
        ("--stronglyTyped", ("TF32",)),
        ("--stronglyTyped --noTF32", ()),
    ],
)
def test_a_command_of_trtexec_says_what_layers_may_compute_in(options, allowed):
    (build,) = read(TRTEXEC.format(options=options))
    assert (build.tool, build.implementation, build.computes_in) == ("tensorrt", "8.4.2", allowed)


@pytest.mark.parametrize(("digits", "version"), [("7103", "7.1.3"), ("8601", "8.6.1"), ("100300", "10.3.0")])
def test_versions_are_said_with_dots(digits, version):
    (build,) = read(TRTEXEC.format(options="").replace("8402", digits))
    assert build.implementation == version


def test_part_of_a_log_has_its_precision_line_alone():
    (build,) = read("[09/16/2022-09:55:06] [I] Precision: FP32+FP16+INT8\n")
    assert set(build.computes_in) == {"TF32", "float16", "int8"}


@pytest.mark.parametrize(
    "line",
    [
        WEIGHTS,
        "2024-02-08 [W:onnxruntime] WARNING] - 62 weights are affected by this issue: Detected subnormal FP16 values.",
    ],
)
def test_warnings_say_what_weights_were_converted_to(line):
    (build,) = read(line)
    assert build.facts == {"weights": "float16"}
    assert build.computes_in == ()
    (alone,) = read(TRTEXEC.format(options="--fp16") + line)
    assert (alone.implementation, alone.facts["weights"]) == ("8.4.2", "float16")


def test_a_mismatch_of_a_runner_says_what_its_build_allowed():
    (mismatch,) = read(POLYGRAPHY)
    assert (mismatch.tool, mismatch.computes_in) == ("polygraphy", ("float16",))
    (newer,) = read(
        POLYGRAPHY.replace("Precision            | TF32: False, FP16: True, INT8: False, Obey", "Flags | [FP16, TF32]")
    )
    assert newer.computes_in == ("float16", "TF32")
    other = POLYGRAPHY.replace("trt-runner", "onnxrt-other")
    assert read(other)[0].computes_in == ()


def test_findings_name_the_setting_and_prove_nothing(tmp_path):
    for text, allowed in (
        (
            TRTEXEC.format(options="--fp16") + WEIGHTS,
            "may compute layers in float16 and TF32 and converted weights to float16",
        ),
        (POLYGRAPHY, "TensorRT may compute layers in float16"),
        (TRTEXEC.format(options="--noTF32"), "was built with no format below the declared ones"),
    ):
        (tmp_path / "log").write_text(text)
        found = explain(tmp_path / "log")
        assert found.verdict == "undecided"
        assert allowed in found.summary
        assert {side.certainty for side in found.sides} == {"open"}
    # The last one: nothing is known to be narrow.
    assert found.cause is None
    assert not found.fixes


def test_what_tells_of_no_build_is_no_log():
    with pytest.raises(LogError, match="TensorRT's builds"):
        read("Precision: high\nFlags are nice\ntrtexec is a tool\n")


def test_a_mismatch_takes_the_last_build_before_it():
    """The first is as the last: still the last counts."""
    builds = [POLYGRAPHY.split("[I] Accuracy")[0].replace("FP16: True", f"FP16: {on}") for on in (True, False, True)]
    (mismatch,) = read("".join(builds) + "[I] Accuracy" + POLYGRAPHY.split("[I] Accuracy")[1])
    assert mismatch.computes_in == ("float16",)
    (mismatch,) = read("".join(builds[:2]) + "[I] Accuracy" + POLYGRAPHY.split("[I] Accuracy")[1])
    assert mismatch.computes_in == ()


def test_a_command_without_a_version_is_one_build():
    (build,) = read(TRTEXEC.format(options="--noTF32").replace(" [TensorRT v8402]", ""))
    assert build.computes_in == ()


@pytest.mark.parametrize(
    "text",
    [
        TRTEXEC.format(options="--noTF32").splitlines()[0].replace("--onnx", "--loadEngine=a.plan --x"),
        "Flags     | [O2, Wall]",
        "Precision: FP32",
        "Precision  | TF32: True",
    ],
)
def test_other_lines_are_no_builds(text):
    with pytest.raises(LogError):
        read(text)
