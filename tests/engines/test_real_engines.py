"""The engines on exact data, every kind and direction: what they return is the truth or a declared refusal."""

import numpy as np
import pytest

import samebits
from needed_engines import each_engine, skip_without_engines
from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineUnsupported
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact
from samebits.sums.truth import compute_truth

TEXTS = [
    "conv1d x=2x4x19 w=6x2x3 bias stride=2 padding=1:3 dilation=2 groups=2",
    "conv2d x=2x4x9x11 w=8x4x3x2 bias stride=2x1 padding=1:2x0:1 then=relu",
    "conv2d x=2x6x9x9 w=6x1x3x3 padding=1 groups=6 then=clip(-2,3.5)",
    "conv2d x=1x4x12x12 w=8x4x3x3 padding=same_upper stride=2 dtype=float16",
    "conv2d x=1x4x12x12 w=8x4x3x3 padding=1 dtype=bfloat16",
    "conv2d x=1x4x12x12 w=8x4x3x3 padding=1 dtype=float64",
    "conv3d x=1x3x5x6x7 w=4x3x2x3x3 bias padding=1",
    "conv_transpose1d x=2x4x9 w=4x3x4 stride=2 padding=1",
    "conv_transpose2d x=2x4x5x6 w=4x3x3x3 bias stride=2 padding=1 output_padding=1",
    "conv_transpose2d x=2x4x5x6 w=4x3x2x2 stride=3 padding=same_upper",
    "conv_transpose3d x=1x2x3x4x3 w=2x3x2x2x2 stride=2",
    "conv2d.grad_input x=2x4x9x11 w=8x4x3x3 stride=2 padding=1",
    "conv2d.grad_weight x=2x4x9x11 w=8x4x3x3 stride=2 padding=1",
    "conv1d.grad_weight x=2x4x19 w=6x4x3 padding=1",
    "conv_transpose2d.grad_input x=2x4x5x6 w=4x3x3x3 stride=2 padding=1",
    "conv_transpose2d.grad_weight x=2x4x5x6 w=4x3x3x3 stride=2 padding=1",
    "conv2d.grad_input x=2x4x9x11 w=8x2x3x3 padding=1 groups=2",
    "linear x=5x33 w=7x33 bias then=relu",
    "linear x=2x3x33 w=7x33 bias",
    "linear x=33 w=7x33",
    "linear x=5x33 w=7x33 then=clip(-2,3.5)",
    "linear.grad_input x=2x5x9 w=7x9",
    "linear.grad_weight x=2x5x9 w=7x9",
    "matmul x=5x33 w=33x6 then=relu",
    "matmul x=2x5x33 w=2x33x6",
    "matmul x=4x1x5x8 w=3x8x6",
    "matmul x=33 w=33x6",
    "matmul x=5x33 w=33",
    "matmul x=33 w=33",
]
INFERENCE_ONLY = ("onnxruntime", "openvino", "litert", "ncnn", "mnn", "opencv", "tract", "tvm", "iree", "tinygrad")
# What these releases do not compute, or compute wrongly, though it is ONNX: vectors as operands, and broadcasting.
# Each is asked in a process of its own by `test_what_a_release_gets_wrong_is_still_wrong`.
NOT_YET = {
    ("mnn", "matmul x=33 w=33"): "crash",
    ("opencv", "matmul x=4x1x5x8 w=3x8x6"): "wrong",
    ("opencv", "matmul x=33 w=33x6"): "error",
    ("opencv", "matmul x=5x33 w=33"): "error",
    ("opencv", "matmul x=33 w=33"): "error",
    ("opencv", "linear x=33 w=7x33"): "error",
    ("tract", "matmul x=33 w=33"): "error",
}
RUNNERS = [
    # Without Winograd's transforms, which round integers, too.
    *("ncnn:winograd=off" if name == "ncnn" else name for name in ENGINES),
    "opencv:engine=classic",
    "litert:kernels=builtin",
    "litert:kernels=reference",
    "torch:mkldnn=off,layout=channels_last",
    "torch:linear_as=addmm,w_memory=transposed",
    "torch:linear_as=matmul,x_memory=strided",
    "onnxruntime:conv1d_as=conv2d",
    "onnxruntime:linear_as=matmul,weights=runtime",
    "onnxruntime:linear_as=gemm",
    "tensorflow:linear_as=transpose_b",
    "numpy:call=einsum,x_memory=transposed",
    "numpy:call=dot,w_memory=strided",
]


@pytest.fixture(scope="module", params=each_engine(RUNNERS))
def runner(request):
    opened = open_runner(request.param)
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_exact_integers_come_out_exact(runner, text):
    if outcome := NOT_YET.get((runner.text.partition(":")[0], text)):
        pytest.skip(f"{runner.text} does not compute it: {outcome}")
    problem = parse_problem_text(text)
    operands = make_exact(problem, seed=3)
    try:
        result = runner.run(problem, operands)
    except EngineUnsupported as error:
        refusal = str(error)
    else:
        truth = compute_truth(problem, operands).values
        np.testing.assert_array_equal(result.astype(np.float64), truth.astype(np.float64))
        return
    inference = runner.text.partition(":")[0] in INFERENCE_ONLY and problem.direction != "forward"
    grouped_gradient = problem.groups > 1 and problem.direction != "forward"
    kind = ENGINES[runner.text.partition(":")[0]].load_class().only_products and problem.product is None
    assert inference or kind or grouped_gradient or problem.dtype != "float32", (
        f"{runner.text} refuses {text}: {refusal}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "text"), NOT_YET)
def test_what_a_release_gets_wrong_is_found(engine, text):
    """As a person would ask: the verdict, or the failure, is that engine's own."""
    skip_without_engines([engine])
    found = samebits.compare(text, [engine, "numpy"], attributes=False)
    side = found.sides[0]
    outcome = side.failure.kind if side.failure else side.verdict
    assert outcome == NOT_YET[engine, text]
    assert found.sides[1].verdict in ("identical", "rounding")


def test_an_engine_reports_its_version_device_and_settings(runner):
    identity = runner.identify()
    assert identity.version[0].isdigit()
    assert identity.device == "CPU"
    assert identity.settings


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("torch:threads=1", "threads", "1"),
        ("torch:mkldnn=off", "mkldnn", "off"),
        ("torch:deterministic=on", "deterministic", "on"),
        ("tensorflow:env.TF_ENABLE_ONEDNN_OPTS=0", "onednn", "off"),
        ("tensorflow:threads=1", "threads", "1"),
        ("openvino:INFERENCE_PRECISION_HINT=f32", "INFERENCE_PRECISION_HINT", "f32"),
        ("openvino:INFERENCE_NUM_THREADS=10", "INFERENCE_NUM_THREADS", "10"),
        ("jax:precision=highest", "precision", "highest"),
        ("onnxruntime:threads=1,optimization=basic", "optimization", "basic"),
        ("litert:kernels=reference", "kernels", "reference"),
        ("ncnn:winograd=off", "winograd", "off"),
        ("ncnn:bf16_storage=on", "bf16_storage", "on"),
        ("ncnn:threads=1", "threads", "1"),
        ("opencv:threads=1", "threads", "1"),
        ("mnn:precision=high", "precision", "high"),
        ("iree:target=generic", "target", "generic"),
    ],
)
def test_a_setting_asked_for_is_read_back_in_force(text, setting, value):
    skip_without_engines([text])
    opened = open_runner(text)
    try:
        assert opened.identify().settings[setting] == value
    finally:
        opened.close()


@pytest.mark.needs("openvino")
def test_openvino_says_when_it_computes_in_less_than_float32():
    opened = open_runner("openvino")
    try:
        identity = opened.identify()
        hint = identity.settings["INFERENCE_PRECISION_HINT"]
        assert (hint == "f32") == (not identity.notes)
    finally:
        opened.close()
