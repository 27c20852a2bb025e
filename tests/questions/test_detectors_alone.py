"""What is concluded from statistics alone, each detector by itself: on what it is for, and on what it must not see.

The cases are made by other means (`variants`), with data as networks have them.
"""

import numpy as np
import pytest

import plain_sums as plain
from network_data import KINDS, make_operands
from samebits.judging.references import make_reference
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.noise.one_signed import explain_one_signed
from samebits.mechanisms.operands.other_operands import explain_rounded_record, explain_unrelated
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case, lower_case
from samebits.progress import ignore_progress
from variant_making import Making, NotHere
from variants import make_variant

# Left out of `make quick`.
pytestmark = pytest.mark.slow

CONV, DEEP, ROW, LINEAR, GRAD = (
    "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias",
    "conv2d x=1x64x12x12 w=32x64x3x3 padding=1 bias then=relu",
    "conv1d x=2x40x100 w=32x40x5 padding=2 bias",
    "linear x=64x256 w=64x256 bias",
    "conv2d.grad_weight x=8x8x12x12 w=8x8x3x3 padding=1",
)
PROBLEMS = (CONV, DEEP, ROW, LINEAR, GRAD)
FAULT_FREE = (
    "float32 by BLAS", "float32 in 4 parts", "float32 in 13 parts", "float32 one by one", "float64, rounded", "NNPACK",
    "F(2,3) float32", "F(4,3) float32", "F(6,3) float32", "scipy fft float32",
)  # fmt: skip


def find_stored(observation):
    return observation.detect_output_grid().stored


DETECTORS = {
    find_stored: (
        ("stored float16", "stored bfloat16", "stored TF32", "stored cut", "int8 result", "int8 result per channel"),
        ("TF32", "x bfloat16, w float16", "w int8 per tensor", "bias float16", "F(4,3) bfloat16 inside", "bfloat16 x2"),
    ),
    explain_one_signed: (
        ("stored cut",),
        ("stored float16", "bfloat16, stored bfloat16", "w int4 per channel", "float16 sums", "split-K 16 in float16",
         "F(4,3) float16 inside", "stale block"),
    ),
    explain_rounded_record: (
        ("rounded weights on record", "bfloat16 weights on record"),
        ("x bfloat16, w float16", "w int8 per channel", "other weights", "float16 per 32 products", "pads with 0.5"),
    ),
    explain_unrelated: (
        ("other weights", "input channels shuffled", "mirrored left to right"),
        ("int8 result", "float16 sums", "w int4 per channel", "an input channel lost", "a tap lost", "pads with 0.5",
         "stale block", "two channels exchanged", "an offset"),
    ),
}  # fmt: skip
FOUND = [(detector, name) for detector, (names, _) in DETECTORS.items() for name in names]
NOTHING = [(detector, name) for detector, (_, names) in DETECTORS.items() for name in (*FAULT_FREE, *names)]


def observe(case):
    case = lower_case(case)
    reference = make_reference(case.problem, case.operands, ignore_progress)
    result = case.results["a"]
    return Observation(
        case.problem, case.operands, result, reference.truth, reference.bound, reference.magnitudes
    ).detect_output_grid()


def list_observations(name):
    for text in PROBLEMS:
        for seed in range(len(KINDS)):
            try:
                made = make_variant(name, text, seed)
            except NotHere:
                continue
            yield f"{text}, {made.data}", observe(made.case)


@pytest.mark.parametrize(("detector", "name"), FOUND)
def test_what_it_is_for_is_found(detector, name):
    """Once in twenty times it may be missed: letterboxed pictures repeat one error many times, so that sizes differ."""
    observed = dict(list_observations(name))
    assert len(observed) >= 8
    missed = [where for where, observation in observed.items() if detector(observation) is None]
    assert len(missed) <= len(observed) / 20, missed


@pytest.mark.parametrize(("detector", "name"), NOTHING)
def test_nothing_is_found_where_it_is_not(detector, name):
    seen = 0
    for where, observation in list_observations(name):
        seen += 1
        assert detector(observation) is None, where
    assert seen or name == "NNPACK"


@pytest.mark.parametrize("keep", [plain.f16, plain.bf16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", PROBLEMS)
def test_operands_that_were_rounded_before_are_no_fault(text, kind, keep):
    """The record is what was multiplied: a checkpoint that was saved in a narrower format."""
    problem = parse_problem_text(text)
    operands = make_operands(problem, kind, np.random.default_rng(5))
    operands = {name: keep(array.astype(np.float64)).astype(np.float32) for name, array in operands.items()}
    making = Making(problem, operands, np.random.default_rng(6))
    observation = observe(Case(problem, operands, {"a": making.store(making.in_float32())}))
    assert [detector.__name__ for detector in DETECTORS if detector(observation) is not None] == []
