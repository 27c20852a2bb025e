"""Engines on an NVIDIA GPU: sound by exact arithmetic, and their settings do what they say. Skipped without one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

import samebits
from needed_gpu import has_gpu, skip_without_gpu
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Runner
from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact, make_normal

ENGINES = ("torch:device=cuda", "jax:device=cuda", "cudnn")
CONVOLUTIONS = (
    "conv2d x=2x8x9x7 w=6x8x3x3 padding=1",
    "conv2d x=2x8x9x7 w=6x4x3x3 groups=2 stride=2x1",
    "conv1d x=2x4x19 w=6x4x5 dilation=2",
    "conv3d x=1x4x5x6x7 w=4x4x2x3x3 padding=1",
    "conv_transpose2d x=2x6x5x4 w=6x4x3x3 stride=2 padding=1 output_padding=1",
    "conv2d x=2x8x9x7 w=8x8x3x3 padding=1 dtype=float16",
    "conv2d.grad_input x=2x8x9x7 w=6x8x3x3 padding=1",
    "conv2d.grad_weight x=2x8x9x7 w=6x8x3x3 padding=1",
)
PRODUCTS = ("matmul x=9x40 w=40x7", "matmul x=3x9x40 w=3x40x7 dtype=float16", "matmul x=16x64 w=64x8 dtype=bfloat16")


def need(engine: str) -> None:
    skip_without_gpu()
    module = engine.partition(":")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


@pytest.fixture(scope="module", params=ENGINES)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """One process of an engine for all problems."""
    need(request.param)
    with open_runner(request.param) as opened:
        yield opened


@pytest.mark.parametrize("text", [*CONVOLUTIONS, *PRODUCTS])
def test_whole_numbers_are_computed_exactly(runner: Runner, text: str) -> None:
    """On small whole numbers nothing rounds in any format, so any kernel gives the exact sums."""
    problem = parse_problem_text(text)
    operands = make_exact(problem, 5)
    result = runner.run(problem, operands)
    assert "NVIDIA" in (runner.identify().device or "")
    np.testing.assert_array_equal(result, samebits.compute_truth(problem, operands).values)


def test_a_product_is_right_by_fractions() -> None:
    need("torch:device=cuda")
    problem = parse_problem_text("matmul x=5x33 w=33x4 dtype=float64")
    operands = make_normal(problem, 3)
    with open_runner("torch:device=cuda") as runner:
        result = runner.run(problem, operands)
    for i, j in np.ndindex(result.shape):
        pairs = [
            (Fraction(float(a)), Fraction(float(b))) for a, b in zip(operands["x"][i], operands["w"][:, j], strict=True)
        ]
        sizes = sum((abs(a * b) for a, b in pairs), Fraction(0))
        assert abs(Fraction(float(result[i, j])) - sum((a * b for a, b in pairs), Fraction(0))) <= sizes * Fraction(
            34, 2**53
        )


def test_tf32_rounds_operands_where_it_is_allowed() -> None:
    """2^-12 is lost beside 1 in TF32, which has ten fraction bits, and kept in float32."""
    problem = parse_problem_text("matmul x=16x16 w=16x16")
    need("torch:device=cuda")
    operands = {"x": np.eye(16, dtype=np.float32), "w": np.full((16, 16), 1 + 2.0**-12, np.float32)}
    for setting, kept in (("on", 1.0), ("off", 1 + 2.0**-12)):
        with open_runner(f"torch:device=cuda,tf32={setting}") as runner:
            assert set(np.unique(runner.run(problem, operands))) == {np.float32(kept)}


def test_float8_products_are_exact_on_whole_numbers() -> None:
    need("torch:device=cuda")
    problem = parse_problem_text("linear x=32x64 w=48x64 dtype=float8_e4m3fn out=float32")
    operands = make_exact(problem, 1)
    with open_runner("torch:device=cuda") as runner:
        result = runner.run(problem, operands)
    wide = [operands[name].astype(np.float64) for name in ("x", "w")]
    np.testing.assert_array_equal(result, (wide[0] @ wide[1].T).astype(np.float32))


def test_every_plan_of_cudnn_has_a_name_and_notes() -> None:
    need("cudnn")
    engine_class = importlib.import_module("samebits.engines.adapters.cudnn").CudnnEngine
    engine = engine_class()
    engine.load({})
    problem = parse_problem_text("conv2d x=4x64x28x28 w=64x64x3x3 padding=1")
    names = engine.list_plans(problem)
    assert len(set(names)) > 3
    notes = engine.read_notes(problem)
    assert set(notes) == set(names)
    assert any("WINOGRAD" in said for said in notes.values())


def test_a_plan_that_does_not_exist_is_said() -> None:
    need("cudnn")
    problem = parse_problem_text("conv2d x=1x4x5x5 w=4x4x3x3")
    with (
        open_runner("cudnn:plan=eng999") as runner,
        pytest.raises(samebits.errors.EngineFailure, match="no plan eng999"),
    ):
        runner.run(problem, make_normal(problem, 0))


def test_settings_of_a_gpu_need_one() -> None:
    """Here or anywhere: a setting of the GPU without device=cuda is refused, not ignored."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    with open_runner("torch:tf32=off") as runner, pytest.raises(samebits.errors.EngineFailure, match="device=cuda"):
        runner.identify()


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_without_a_gpu_the_device_is_refused(engine: str) -> None:
    if has_gpu():
        pytest.skip("there is an NVIDIA GPU here")
    if importlib.util.find_spec(engine.partition(":")[0]) is None:
        pytest.skip(f"{engine} is not installed")
    with open_runner(engine) as runner, pytest.raises(samebits.errors.EngineFailure, match="device=cuda"):
        runner.identify()


def test_bfloat16_and_float8_travel_as_bits() -> None:
    torch = pytest.importorskip("torch")
    program = importlib.import_module("samebits.engines.adapters.torch_program")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        codes = np.arange(1, 120, dtype=np.uint16 if name == "bfloat16" else np.uint8)
        array = codes.view(numpy_dtype(name))
        tensor = program.as_tensor(torch, array)
        assert str(tensor.dtype) == f"torch.{name}"
        np.testing.assert_array_equal(tensor.to(torch.float64).numpy(), array.astype(np.float64))
