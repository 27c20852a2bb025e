"""The reports the project starts from, on today's engines."""

from pathlib import Path

import numpy as np
import pytest

import samebits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

pytestmark = pytest.mark.usefixtures("warm_workers")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ENGINES = ["torch", "onnxruntime", "onnxruntime:conv1d_as=conv2d", "tensorflow", "jax"]
ENGINES.append("openvino:INFERENCE_PRECISION_HINT=f32")
# The three answers to the report of 2017 that today's engines give, as measured there and again here.
IN_ORDER = [60.8701057434082, 72.9801025390625, 85.09010314941406]
BY_PAIRS = [60.8701057434082, 72.98009490966797, 85.090087890625]
FUSED = [60.87009811401367, 72.98009490966797, 85.09009552001953]


@pytest.mark.needs(*ENGINES)
@pytest.mark.parametrize("length", [7, 8, 9])
def test_the_length_report_has_three_answers_none_of_them_wrong(length):
    found = samebits.compare(EXAMPLES / f"length{length}.npz", ENGINES)
    assert found.verdict == "rounding"
    answers = {tuple(s.values[:3]) for s in found.sides}
    assert answers <= {tuple(IN_ORDER), tuple(BY_PAIRS), tuple(FUSED)}
    assert found.truth[:3] == FUSED
    assert max(s.error.max_ulp for s in found.sides) <= 2
    # Which engine gives which of them depends on the processor (with AVX-512 two give the truth).
    assert all((s.verdict == "identical") == (s.error.max_ulp == 0) for s in found.sides)
    assert all(s.exact_data.differing == 0 for s in found.sides)


@pytest.mark.needs("torch", "onnxruntime", "tensorflow", "jax")
def test_the_overflow_probe_finds_a_wide_accumulator_in_every_engine():
    """Two channels of the largest half and weights of both signs: 0 in a wide accumulator, infinite in a half one."""
    problem = parse_problem_text("conv1d x=1x2x4 w=1x2x1 dtype=float16")
    largest = np.float16(65504)
    operands = {
        "x": np.full((1, 2, 4), largest),
        "w": np.array([largest, -largest]).reshape(1, 2, 1),
    }
    found = samebits.compare(Case(problem, operands), ["torch", "onnxruntime", "tensorflow", "jax"])
    for side in found.sides:
        assert side.failure is None
        assert side.values == [0, 0, 0, 0]
    assert found.verdict == "identical"
