"""Every engine computes functions of rows as the problem says: exact integers where there are some, random numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import pytest
from tests import rows_by_hand as by_hand

from samebits.engines.adapters.onnx_functions import build_function
from samebits.engines.registry.known_engines import ENGINES, list_installed_for_formula
from samebits.engines.registry.runners import open_runner
from samebits.findings import is_agreement
from samebits.problems.row_functions import make_normal_rows, parse_row_function
from samebits.questions.formula_comparing import compare_formula
from samebits.sums.truth.row_functions import compute_row_function

ENGINE_TEXTS = (
    "numpy",
    "torch",
    "torch:compile=on",
    "onnxruntime",
    "openvino:INFERENCE_PRECISION_HINT=f32",
    "jax",
    "tensorflow",
    "opencv",
    "tract",
)
TEXTS = (
    "softmax x=6x50",
    "softmax x=3x7x5 axis=1",
    "layernorm x=6x64 weight bias",
    "layernorm x=3x4x8 axes=2 eps=0.001",
    "rmsnorm x=6x64 weight eps=1e-06",
    "gelu x=6x50",
    "gelu x=6x50 approximate=tanh",
    "rope x=2x3x7x16",
    "rope x=2x3x7x16 interleaved",
)


@pytest.mark.parametrize("engine", ENGINE_TEXTS)
def test_an_engine_computes_what_the_text_says(engine: str) -> None:
    name = engine.partition(":")[0]
    if ENGINES[name].find_version() is None:
        pytest.skip(f"{name} is not installed")
    taken, runner = 0, open_runner(engine)
    # A compiler takes seconds for each of them.
    for text in TEXTS if "compile" not in engine else TEXTS[::2]:
        (side,) = compare_formula(parse_row_function(text), [runner], attributes=False).sides
        if side.failure is not None:
            # Engines of a few operators only; OpenCV 5.0 ends with a signal where a tanh is followed by products.
            if side.failure.kind == "crash":
                runner.close()
                runner = open_runner(engine)
            assert side.failure.kind in ("unsupported", "error", *(["crash"] if name == "opencv" else [])), side.failure
            continue
        taken += 1
        assert is_agreement(side.verdict), (text, side)
        assert side.exact_data is None or side.exact_data.differing == 0
    runner.close()
    assert taken >= (2 if name == "tensorflow" else 5)


def test_engines_that_are_asked_by_default() -> None:
    asked = set(list_installed_for_formula(attention=False))
    assert asked >= {"numpy", "torch", "onnxruntime", "openvino"} & {n for n, s in ENGINES.items() if s.find_version()}
    assert "mlx" not in asked


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_models_compute_the_function(text: str, plain: bool) -> None:
    """By ONNX's own reference, which shares nothing with what judges."""
    asked = parse_row_function(text)
    operands = make_normal_rows(asked, 1)
    model = build_function(onnx, asked, plain=plain)
    onnx.checker.check_model(model)
    (found,) = onnx.reference.ReferenceEvaluator(model).run(None, dict(operands))
    truth = compute_row_function(asked, operands).values
    assert found.shape == asked.x
    assert np.abs(found.astype(np.float64) - truth).max() < 1e-5


def test_a_kernel_of_ones_own_is_judged() -> None:
    asked = parse_row_function("rmsnorm x=9x100 weight")

    def right(problem, operands):
        x = operands["x"]
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(problem.eps)) * operands["weight"]

    def faulty(problem, operands):
        return by_hand.norm_in_two_passes(operands["x"], problem.eps) * operands["weight"]

    sides = compare_formula(asked, [right, faulty]).sides
    assert [side.verdict for side in sides] == ["rounding", "wrong"]
    assert sides[1].says == "takes the mean off: it is a layernorm"
