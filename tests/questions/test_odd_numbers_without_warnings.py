"""Infinities, NaN of both kinds, subnormals and the largest numbers leave no warning of NumPy's on standard error."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import samebits
from samebits.numbers.format import numpy_dtype
from samebits.problems.case_file import Case
from samebits.problems.problem import DTYPES

# Left out of `make quick`.
pytestmark = pytest.mark.slow

SIGNALLING = {"float64": 0x7FF0000000000001, "float32": 0x7F800001, "float16": 0x7C01, "bfloat16": 0x7F81}
PROBLEM = "conv2d x=1x2x5x5 w=2x2x3x3 bias padding=1 then=relu dtype={0} out={0}"


def make_values(kind, name, shape):
    """Numbers of one kind, in turn, as an array of the format."""
    dtype = np.dtype(numpy_dtype(name))
    known = ml_dtypes.finfo(dtype)
    bits = SIGNALLING.get(name, 0x7F)
    some = {
        "infinite": [np.inf, 1, -np.inf, 2],
        "quiet": [np.nan, 1, 2],
        "subnormal": [float(known.smallest_subnormal), 1, -float(known.smallest_subnormal)],
        "largest": [float(known.max), -float(known.max), 1],
        "zero": [0.0, -0.0],
        "mixed": [float(known.max), np.inf, np.nan, 0, 1, float(known.smallest_subnormal)],
    }
    with np.errstate(all="ignore"):
        if kind == "signalling":
            values = np.array([bits, 0], f"uint{8 * dtype.itemsize}").view(dtype)
        else:
            values = np.array(some[kind]).astype(dtype)
        return np.resize(values, shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kinds",
    [
        ("signalling", "zero"),
        ("infinite", "subnormal"),
        ("largest", "largest"),
        ("mixed", "mixed"),
        ("subnormal", "quiet"),
    ],
)
def test_no_public_function_warns(dtype, kinds):
    problem = samebits.parse_problem_text(PROBLEM.format(dtype))
    shapes = problem.operand_shapes.items()
    operands = {n: make_values(kinds[n != "x"], dtype, s) for n, s in shapes}
    results = {k: make_values(k, dtype, problem.out_shape) for k in ("infinite", "signalling", "subnormal", "mixed")}
    recipe = "emulate:direct acc=float64" if dtype == "float64" else "emulate:direct"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truth = samebits.compute_truth(problem, operands).values
        for other in DTYPES:
            got = samebits.conv2d(operands["x"], operands["w"], operands["bias"], padding=1, dtype=other)
            assert got.shape == truth.shape
        case = Case(problem, operands, results)
        assert len(samebits.explain(case).sides) == len(results)
        assert len(samebits.compare(case, [recipe], attributes=False).sides) == len(results) + 1
