"""In whatever modes the calling thread's processor is, results have the same bits, and the modes are left alone."""

import ctypes
import platform

import ml_dtypes
import numpy as np
import pytest

import samebits
from samebits.engines.runner import Identity
from samebits.findings import json_from_finding
from samebits.problems.case_file import Case
from samebits.sums.bounds.any_order import bound_errors, bound_narrowest_errors
from samebits.sums.emulators.emulator import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.tiles.magnitudes import sum_magnitudes

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="sets the modes of x86-64 processors")
# Bits of the control register (Intel SDM volume 1, 10.2.3): flush to zero, denormals are zero, rounding control.
FLUSH, DENORMALS_ARE_ZERO, DOWN, UP, TOWARD_ZERO = 0x8000, 0x40, 0x2000, 0x4000, 0x6000
MODES = {
    "flush": FLUSH,
    "denormals are zero": DENORMALS_ARE_ZERO,
    "both": FLUSH | DENORMALS_ARE_ZERO,
    "down": DOWN,
    "up": UP,
    "toward zero": TOWARD_ZERO,
    "all": FLUSH | DENORMALS_ARE_ZERO | TOWARD_ZERO,
}
LIBRARY = ctypes.CDLL(None)


def read_modes():
    environment = (ctypes.c_uint32 * 8)()
    LIBRARY.fegetenv(environment)
    return environment[7] & 0xE040


@pytest.fixture(params=MODES.values(), ids=MODES)
def modes(request):
    """The calling thread in a mode that changes results; the C library's fenv_t keeps the control register last."""
    environment, before = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    LIBRARY.fegetenv(before)
    LIBRARY.fegetenv(environment)
    environment[7] |= request.param
    LIBRARY.fesetenv(environment)
    try:
        # Otherwise the tests below would show nothing: one of these changes in every mode.
        tiny, one = np.array([1e-40], np.float32), np.array([1.0], np.float32)
        changed = (tiny * np.float32(0.5) != np.array([5e-41], np.float32)) | (one + np.float32(1e-9) != one)
        changed = changed | (one - np.float32(1e-9) != one) | (tiny == 0)
        assert bool(changed[0])
        yield request.param
        assert read_modes() == request.param
    finally:
        LIBRARY.fesetenv(before)


def bits(array):
    return array.view(f"uint{8 * array.itemsize}").ravel().tolist()


def subnormals(*codes):
    """float32 numbers by their codes, so that no arithmetic of this thread makes them."""
    return np.array(codes, np.uint32).view(np.float32)


def test_products_and_copies_of_subnormals(modes):
    x = subnormals(1, 0x80000003, 0x7FFFFF, 0x0DA24260).reshape(1, 1, 4)  # 2^-149, -3 * 2^-149, ..., about 1e-30
    got = samebits.conv1d(x, np.ones((1, 1, 1), np.float32))
    assert bits(got) == bits(x)
    got = samebits.conv1d(x, subnormals(0x3F000000).reshape(1, 1, 1))  # times 0.5: 0.5, -1.5 and 2^22 - 0.5 units, even
    assert bits(got)[:3] == [0, 0x80000002, 0x400000]


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_outputs_without_any_product_are_their_bias(modes, dtype):
    code = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    bias = np.array([1, 2, 3], code).view(dtype)
    x, w = np.zeros((1, 1, 2), dtype), np.zeros((3, 1, 1), dtype)
    got = samebits.conv1d(x, w, bias, padding=2)
    assert got.view(code)[0, :, 0].tolist() == [1, 2, 3]
    got = samebits.conv_transpose1d(x, np.zeros((1, 3, 1), dtype), bias, stride=3)
    assert got.view(code)[0, :, 1].tolist() == [1, 2, 3]


def test_bounds_of_an_epilogue_that_are_subnormal(modes):
    x = subnormals(1, 0x80000001, 5, 0x80000009).reshape(1, 1, 4)
    operands = {"x": x, "w": np.ones((1, 1, 1), np.float32)}
    relu = samebits.compute_truth(samebits.parse_problem_text("conv1d x=1x1x4 w=1x1x1 then=relu"), operands)
    assert [b & 0x7FFFFFFF if b >> 31 else b for b in bits(relu.values)] == [1, 0, 5, 0]
    clip = samebits.parse_problem_text("conv1d x=1x1x4 w=1x1x1 then=clip(-3e-45,3e-45)")  # 2 units of 2^-149
    assert bits(samebits.compute_truth(clip, operands).values) == [1, 0x80000001, 2, 0x80000002]


def test_a_bias_that_decides_the_rounding(modes):
    # 1 + 2^-24 is half way to the next float32 number and rounds to 1; the bias of 2^-149 lifts it.
    x = np.array([[[1.0, 2.0**-24]]], np.float32)
    got = samebits.conv1d(x, np.ones((1, 1, 2), np.float32), subnormals(1))
    assert bits(got) == [0x3F800001]
    assert bits(samebits.conv1d(x, np.ones((1, 1, 2), np.float32))) == [0x3F800000]


PROBLEM = samebits.parse_problem_text("conv2d x=1x4x7x7 w=4x4x3x3 padding=1 bias")


def compute_everything():
    generator = np.random.default_rng(3)
    shapes = PROBLEM.operand_shapes.items()
    operands = {n: generator.integers(0, 2**25, shape, np.uint32).view(np.float32) for n, shape in shapes}
    operands["x"] = (1 + generator.integers(0, 2**20, PROBLEM.x) / 2.0**20).astype(np.float32)
    truth = samebits.compute_truth(PROBLEM, operands).values
    magnitudes = sum_magnitudes(PROBLEM, operands)
    results = [
        truth,
        magnitudes,
        bound_errors(PROBLEM, operands, truth),
        bound_narrowest_errors(PROBLEM, truth, magnitudes),
        emulate(PROBLEM, parse_recipe("direct"), operands),
        emulate(PROBLEM, parse_recipe("direct acc=float16"), operands),
    ]
    return [array.tobytes() for array in results]


@pytest.fixture(scope="module")
def everything():
    """Computed before any mode is set: fixtures of a module come first."""
    assert read_modes() == 0
    return compute_everything()


def test_emulators_and_bounds_are_the_same_as_outside(everything, modes):
    assert compute_everything() == everything


class Asking:
    """A runner that notes in which modes it was run."""

    text = "asking"

    def __init__(self):
        self.seen = set()

    def identify(self):
        return Identity(self.text, "asking", "1", "CPU")

    def run(self, problem, operands):
        self.seen.add(read_modes())
        return np.zeros(problem.out_shape, np.float32)

    def close(self):
        pass


def test_a_callers_runner_runs_in_the_callers_modes(modes):
    asking = Asking()
    samebits.compare("conv1d x=1x1x4 w=1x1x1", [asking])
    assert asking.seen == {modes}


def test_a_case_is_explained_alike(modes):
    x = subnormals(1, 0x80000003, 0x7FFFFF, 0x0DA24260).reshape(1, 1, 4)
    flushed = np.where(np.arange(4).reshape(1, 1, 4) < 3, np.float32(0), x)
    problem = samebits.parse_problem_text("conv1d x=1x1x4 w=1x1x1")
    case = Case(problem, {"x": x, "w": np.ones((1, 1, 1), np.float32)}, {"sound": x.copy(), "flushing": flushed})
    found = samebits.explain(case)
    assert {side.name: side.verdict for side in found.sides}["sound"] == "identical"
    assert {side.name: side.cause for side in found.sides}["flushing"] == "subnormals"
    assert "NaN" not in json_from_finding(found)
