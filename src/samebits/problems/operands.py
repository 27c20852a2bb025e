"""The arrays of a problem: checked, or made: exact integers, random normal, random uniform."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from samebits.errors import OperandError
from samebits.numbers.format import BFLOAT16, find_format, numpy_dtype
from samebits.problems.lowering import lower_problem
from samebits.problems.other_shapes import explain_shape
from samebits.problems.problem import Problem, Shape

# Every partial sum of exact data fits the significand of bfloat16, the narrowest format that engines compute float32 or
# float16 convolutions in: an engine that only computes in less than it was asked for is still exact on it.
NARROWEST_PRECISION = BFLOAT16.precision
_LARGEST_INTEGER = 8


def check_operands(problem: Problem, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands this problem reads, in order; raises OperandError where one is missing or does not fit."""
    reader = f"{problem.kind}.{problem.direction}"
    return check_shapes(problem.operand_shapes, operands, numpy_dtype(problem.dtype), reader)


def check_shapes(
    shapes: Mapping[str, Shape], operands: Mapping[str, np.ndarray], expected: np.dtype, reader: str
) -> dict[str, np.ndarray]:
    """The operands of these names, in order; raises OperandError unless each has its shape and the dtype expected."""
    checked: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        if name not in operands:
            raise OperandError(f"operand {name} is missing; {reader} reads {', '.join(shapes)}")
        array = check_array(operands[name], f"operand {name}", expected)
        if array.shape != shape:
            raise OperandError(f"operand {name} has shape {_join(array.shape)}, but the problem says {_join(shape)}")
        if array.dtype != expected:
            raise OperandError(f"operand {name} has dtype {array.dtype}, but the problem says {expected}")
        checked[name] = array
    return checked


def check_results(problem: Problem, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results, in this machine's byte order; raises OperandError for one that is not a result of this problem."""
    expected = numpy_dtype(problem.out)
    checked = {name: check_array(array, f"result {name!r}", expected) for name, array in results.items()}
    for name, array in checked.items():
        if array.shape != problem.out_shape or array.dtype != expected:
            wanted = f"{_join(problem.out_shape)} {problem.out}"
            how = explain_shape(problem, array.shape)
            raise OperandError(f"result {name!r} is {_join(array.shape)} {array.dtype}, not {wanted}{how}")
    return checked


def check_array(array: object, name: str, expected: np.dtype) -> np.ndarray:
    """The array in this machine's byte order; raises OperandError for what is no NumPy array, or has a mask."""
    refuse_mask(array, name)
    if not isinstance(array, np.ndarray):
        raise OperandError(f"{name} must be a NumPy array, not {type(array).__name__}; convert it first")
    if array.dtype != expected and array.dtype.newbyteorder("=") == expected:
        return array.astype(expected)
    return array


def refuse_mask(array: object, name: str) -> None:
    """Raises OperandError for a masked array: its masked values would be used as if they were not masked."""
    if isinstance(array, np.ma.MaskedArray):
        raise OperandError(f"{name} is a masked array, and its mask would be lost; fill it first, as in x.filled(0)")


def make_normal(problem: Problem, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal data: activations N(0, 1), weights N(0, 1/K), bias and gradients N(0, 1); rounded to the dtype."""
    rng = np.random.default_rng(seed)
    length = problem.product.length if problem.product else problem.w[1] * math.prod(problem.w[2:])
    scales = {"w": 1 / math.sqrt(length)}
    return {
        name: (rng.standard_normal(shape, np.float32) * np.float32(scales.get(name, 1.0))).astype(
            numpy_dtype(problem.dtype)
        )
        if problem.dtype != "float64"
        else rng.standard_normal(shape) * scales.get(name, 1.0)
        for name, shape in problem.operand_shapes.items()
    }


def make_uniform(problem: Problem, seed: int = 0, low: float = 0.0, high: float = 1.0) -> dict[str, np.ndarray]:
    """Uniform data in [low, high), rounded to the dtype; with one sign, errors of one sign add up."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(low, high, shape).astype(numpy_dtype(problem.dtype))
        for name, shape in problem.operand_shapes.items()
    }


def make_exact(problem: Problem, seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers of both signs whose every partial sum, in any order, is exact even in bfloat16.

    Exact when (number of non-zero products) * max|x| * max|w| + |bias| <= 2^p, with p the precision of bfloat16 or of
    the result if that is less. The integers are as large as a full reduction allows, at least 2 where the formats can;
    where even those are too many, all but `budget` of the values in each reduction are zero, by construction and not
    only on average (benchdnn lowers the density of its data for the same reason).
    """
    lowering = lower_problem(problem)
    return lowering.restore_operands(_make_exact(lowering.convolution, np.random.default_rng(seed)))


def _make_exact(problem: Problem, rng: np.random.Generator) -> dict[str, np.ndarray]:
    largest, budget = _exact_limits(problem)
    operands = {name: _signed_integers(rng, shape, largest) for name, shape in problem.operand_shapes.items()}
    if problem.reduction_length > budget:
        _thin_out(problem, operands, budget, rng)
    dtype = numpy_dtype(problem.dtype)
    return {name: values.astype(np.float32).astype(dtype) for name, values in operands.items()}


def _exact_limits(problem: Problem) -> tuple[int, int]:
    """The largest integer, and how many products of it fit with a bias."""
    limit = 2 ** min(NARROWEST_PRECISION, find_format(problem.out).precision)
    largest = min(max(math.isqrt((limit - 1) // problem.reduction_length), 2), _LARGEST_INTEGER)
    if largest * largest + largest > limit:
        largest = 1
    return largest, (limit - largest) // (largest * largest)


def _signed_integers(rng: np.random.Generator, shape: tuple[int, ...], largest: int) -> np.ndarray:
    """Integers in -largest..largest without zero, half of them negative."""
    signs = np.ones(math.prod(shape), np.int8)
    signs[1::2] = -1
    signs = rng.permutation(signs).reshape(shape)
    return rng.integers(1, largest + 1, shape, np.int8) * signs


def _thin_out(problem: Problem, operands: dict[str, np.ndarray], budget: int, rng: np.random.Generator) -> None:
    """Keeps at most `budget` non-zeros among the values that one output multiplies: rows of w, or rows of dy."""
    name = "dy" if problem.direction == "grad_weight" and not problem.is_transposed else "w"
    if problem.direction == "grad_weight" and problem.is_transposed:
        name = "x"
    values = operands[name]
    if name != "w":
        rows = np.moveaxis(values, 1, 0)
    elif problem.is_transposed == (problem.direction == "forward"):
        grouped = values.reshape(problem.groups, -1, *values.shape[1:])
        rows = np.moveaxis(grouped, 2, 1).reshape(problem.groups * values.shape[1], -1)
    else:
        rows = values
    flat = rows.reshape(rows.shape[0], -1)
    keep = np.zeros(flat.shape, bool)
    for kept in keep:
        kept[rng.random(kept.size).argsort()[:budget]] = True
    thinned = np.where(keep, flat, 0).reshape(rows.shape)
    if name != "w":
        operands[name] = np.ascontiguousarray(np.moveaxis(thinned, 0, 1))
    elif rows is not values:
        shape = (problem.groups, values.shape[1], -1, *values.shape[2:])
        operands[name] = np.moveaxis(thinned.reshape(shape), 1, 2).reshape(values.shape)
    else:
        operands[name] = thinned


def _join(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
