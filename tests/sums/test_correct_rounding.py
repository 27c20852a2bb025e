"""The truth against exact integer arithmetic: all kinds, directions and formats, on data made to be hard."""

import itertools
import time

import numpy as np
import pytest

from exact_arithmetic import correctly_rounded
from samebits.numbers import FORMATS, numpy_dtype
from samebits.problems import Problem, parse_problem_text
from samebits.problems.operands import make_normal
from samebits.problems.problem import CONVOLUTIONS, DTYPES
from samebits.sums.truth import compute_truth

SHAPES = {
    "conv1d": "x=4x6x37 w=12x3x5 stride=2 padding=3:1 dilation=2 groups=2",
    "conv2d": "x=2x6x13x11 w=9x2x3x2 stride=2x1 padding=1:2x0:1 dilation=1x2 groups=3",
    "conv3d": "x=2x4x6x7x5 w=6x2x3x2x3 stride=1x2x1 padding=1 groups=2",
    "conv_transpose1d": "x=4x6x23 w=6x5x4 stride=3 padding=1 output_padding=2 groups=2 dilation=2",
    "conv_transpose2d": "x=2x6x7x6 w=6x3x3x3 stride=2x3 padding=1:0x0:2 output_padding=1 groups=2",
    "conv_transpose3d": "x=1x4x4x5x4 w=4x3x2x3x3 stride=2x1x3 padding=0x1x1 output_padding=1x0x2 groups=2",
}
DIRECTIONS = ("", ".grad_input", ".grad_weight")


def random_operands(problem: Problem, rng: np.random.Generator, spread: int = 0) -> dict[str, np.ndarray]:
    """Normal data, magnitudes spread over 2^-spread..2^spread."""

    def make(shape):
        scale = 2.0 ** rng.integers(-spread, spread + 1, shape)
        with np.errstate(over="ignore"):
            return (rng.standard_normal(shape) * scale).astype(numpy_dtype(problem.dtype))

    return {name: make(shape) for name, shape in problem.operand_shapes.items()}


def assert_correctly_rounded(problem: Problem, operands: dict[str, np.ndarray]) -> dict[str, int]:
    truth = compute_truth(problem, operands)
    expected = correctly_rounded(problem, operands)
    got = truth.values.astype(np.float64)
    assert truth.values.dtype == numpy_dtype(problem.out)
    assert sum(truth.settled.values()) == got.size
    np.testing.assert_array_equal(got, expected, strict=True)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))
    return truth.settled


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_direction_and_operand_format(kind, direction, dtype):
    problem = parse_problem_text(f"{kind}{direction} {SHAPES[kind]} dtype={dtype}")
    rng = np.random.default_rng(DTYPES.index(dtype))
    assert_correctly_rounded(problem, random_operands(problem, rng))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "out"), list(itertools.product(DTYPES, DTYPES)))
def test_every_result_format_with_bias(dtype, out):
    problem = parse_problem_text(f"conv2d x=2x8x12x10 w=12x4x3x3 bias padding=1 groups=2 dtype={dtype} out={out}")
    rng = np.random.default_rng(11)
    assert_correctly_rounded(problem, random_operands(problem, rng))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_magnitudes_far_apart(dtype, direction):
    problem = parse_problem_text(f"conv2d{direction} x=2x4x9x9 w=6x4x3x3 padding=1 dtype={dtype}")
    assert_correctly_rounded(problem, random_operands(problem, np.random.default_rng(3), spread=30))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [10, 24, 40, 60])
@pytest.mark.parametrize(("dtype", "out"), [("float32", "float32"), ("float64", "float64"), ("float64", "float32")])
def test_cancellation(dtype, out, bits):
    """Each product meets its negative, and what is left is 2^-bits of them: a large bias of terms and a tiny rest."""
    problem = parse_problem_text(f"conv1d x=8x16x40 w=24x16x3 dtype={dtype} out={out}")
    rng = np.random.default_rng(bits)
    operands = random_operands(problem, rng)
    operands["x"][:, 8:] = operands["x"][:, :8]
    operands["w"][:, 8:] = -operands["w"][:, :8]
    operands["w"][:, 8:11] += operands["w"][:, 8:11] * np.array(2.0**-bits, operands["w"].dtype)
    operands["w"][:, 0, 0] = 2.0 ** -(bits - 2)
    assert_correctly_rounded(problem, operands)


@pytest.mark.parametrize(("dtype", "out"), [("float32", "float32"), ("float16", "float16"), ("float64", "float64")])
def test_exact_ties_go_to_the_even_neighbour(dtype, out):
    """Sums of one large term and half a unit of its last place are ties by construction."""
    problem = parse_problem_text(f"conv1d x=64x2x32 w=8x2x1 dtype={dtype} out={out}")
    precision = {"float32": 24, "float16": 11, "float64": 53}[dtype]
    rng = np.random.default_rng(5)
    large = rng.integers(2 ** (precision - 1), 2**precision, (64, 32)).astype(np.float64)
    operands = {
        "x": np.stack([large, np.ones_like(large)], 1).astype(numpy_dtype(dtype)),
        "w": np.tile(np.array([[[1.0], [0.5]], [[1.0], [-0.5]]]), (4, 1, 1)).astype(numpy_dtype(dtype)),
    }
    if dtype == "float16":
        operands["w"] = (operands["w"] * 2**4).astype(np.float16)
    settled = assert_correctly_rounded(problem, operands)
    way = {"float32": "exactness", "float16": "exactness", "float64": "exactly"}[dtype]
    assert settled[way] >= 64 * 8 * 32 // 4


@pytest.mark.parametrize(
    ("dtype", "exponent"), [("float32", -74), ("float16", -11), ("bfloat16", -65), ("float64", -536)]
)
def test_subnormal_results(dtype, exponent):
    problem = parse_problem_text(f"conv2d x=2x4x12x12 w=8x4x3x3 dtype={dtype}")
    rng = np.random.default_rng(1)
    scaled = {
        name: (rng.standard_normal(shape) * 2.0**exponent).astype(numpy_dtype(dtype))
        for name, shape in problem.operand_shapes.items()
    }
    settled = assert_correctly_rounded(problem, scaled)
    values = compute_truth(problem, scaled).values.astype(np.float64)
    tiny = float(np.abs(values[values != 0]).min())
    assert tiny < 2.0 ** {"float32": -126, "float16": -14, "bfloat16": -126, "float64": -1022}[dtype]
    assert sum(settled.values()) == values.size


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 3.4e38), ("float16", 6.5e4), ("float64", 1.79e308)])
def test_results_that_overflow_are_infinite_and_those_that_come_back_are_not(dtype, largest):
    problem = parse_problem_text(f"conv1d x=2x4x50 w=6x4x3 dtype={dtype}")
    rng = np.random.default_rng(2)
    operands = random_operands(problem, rng)
    operands["x"] = (rng.choice([-1, 1], problem.x) * largest).astype(numpy_dtype(dtype))
    operands["w"] = rng.choice([-1.0, 0.5, 1.0, 0.25], problem.w).astype(numpy_dtype(dtype))
    assert_correctly_rounded(problem, operands)
    values = compute_truth(problem, operands).values
    assert np.isinf(values).any()
    assert np.isfinite(values).any()


@pytest.mark.parametrize(("larger", "way"), [(2.0**500, "rounding_test"), (1.0, "exactly")])
def test_small_float64_products_that_underflow_are_not_lost(larger, way):
    problem = parse_problem_text("conv1d x=1x3x40 w=5x3x4 dtype=float64")
    rng = np.random.default_rng(8)
    operands = {"x": rng.standard_normal(problem.x) * 2.0**-540, "w": rng.standard_normal(problem.w) * 2.0**-530}
    operands["w"][:, 0] *= larger
    settled = assert_correctly_rounded(problem, operands)
    assert settled[way] > 0


def test_long_reductions():
    problem = parse_problem_text("conv2d.grad_weight x=37x6x1x50 w=5x6x1x5 stride=1x5 dtype=float16")
    rng = np.random.default_rng(4)
    operands = {n: rng.uniform(0, 0.1, s).astype(np.float16) for n, s in problem.operand_shapes.items()}
    assert_correctly_rounded(problem, operands)


@pytest.mark.parametrize("attributes", ["stride=7", "stride=7 dilation=3 output_padding=4", "stride=5x9 bias"])
def test_outputs_that_no_tap_reaches_are_empty_sums(attributes):
    problem = parse_problem_text(f"conv_transpose2d x=2x4x3x4 w=4x3x2x3 {attributes} groups=2")
    operands = random_operands(problem, np.random.default_rng(6))
    settled = assert_correctly_rounded(problem, operands)
    assert settled["exactness"] > 0


def test_a_stride_far_beyond_the_kernel_costs_no_more_than_its_outputs():
    problem = parse_problem_text("conv_transpose1d x=1x2x3 w=2x2x3 stride=100000 bias")
    operands = random_operands(problem, np.random.default_rng(6))
    begun = time.perf_counter()
    values = compute_truth(problem, operands).values
    assert time.perf_counter() - begun < 20
    assert (values[0, 0, 5:100000] == operands["bias"][0]).all()
    assert_correctly_rounded(parse_problem_text("conv_transpose1d x=1x2x3 w=2x2x3 stride=1000 bias"), operands)


@pytest.mark.parametrize("out", DTYPES)
def test_a_sum_of_zeros_under_weights_whose_magnitudes_overflow(out):
    """The bound of such a sum is NaN (0 times infinity) and must not settle anything."""
    problem = parse_problem_text(f"conv1d x=1x4x9 w=3x4x3 padding=2 dtype=float64 out={out}")
    rng = np.random.default_rng(9)
    operands = {"x": np.zeros(problem.x), "w": rng.choice([-1.0, 1.0], problem.w) * 1.7e308}
    assert_correctly_rounded(problem, operands)
    operands["x"][0, 1, 4] = 1e-300
    assert_correctly_rounded(problem, operands)


@pytest.mark.parametrize("out", ["float64", "float32", "float16", "bfloat16"])
def test_sums_just_below_and_just_beyond_the_largest_number(out):
    """Sums largest + k * (half a unit of it): the tie goes to the even side, which is infinity."""
    f = FORMATS[out]
    problem = parse_problem_text(f"conv1d x=1x2x5 w=1x2x1 dtype=float64 out={out}")
    halves = float((f.largest - f.value_of_code(f.largest_code - 1)) / 2)
    x = np.array([[[float(f.largest)] * 5, [halves * k for k in (-1.0, 0.5, 1 - 2.0**-50, 1.0, 1.5)]]])
    operands = {"x": x, "w": np.ones(problem.w)}
    assert_correctly_rounded(problem, operands)
    values = compute_truth(problem, operands).values.ravel()
    np.testing.assert_array_equal(np.isinf(values), [False, False, False, True, True])


def test_after_an_interrupt_threads_stop_within_a_moment():
    """A float64 problem that takes half a minute: a listener interrupts at the first report, and threads go quiet."""
    problem = parse_problem_text("conv2d x=8x32x64x64 w=32x32x3x3 padding=1 dtype=float64")
    operands = make_normal(problem)

    def interrupt(what, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_truth(problem, operands, progress=interrupt)
    begun, used = time.monotonic(), time.process_time()
    while time.monotonic() - begun < 20:
        time.sleep(0.5)
        now = time.process_time()
        if now - used < 0.05:
            return
        used = now
    pytest.fail("threads are still computing")
