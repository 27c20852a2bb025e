"""The arrays of a problem: checked, or made: exact integers, random normal, random uniform."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from samebits.errors import OperandError
from samebits.formats.format import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, FLOAT32, find_format, numpy_dtype
from samebits.problems.problem import Problem

# Largest magnitudes of exact data. Small enough that the formats hold them exactly and sums stay small; at least 2, so
# that swapped or doubled terms show.
_LARGEST_INTEGER = {FLOAT8_E4M3FN.name: 2, FLOAT8_E5M2.name: 2, BFLOAT16.name: 4, FLOAT16.name: 4}
_DEFAULT_LARGEST_INTEGER = 8


def check_operands(problem: Problem, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands this problem reads, in order; raises OperandError where one is missing or does not fit."""
    expected = numpy_dtype(problem.dtype)
    checked: dict[str, np.ndarray] = {}
    for name, shape in problem.operand_shapes.items():
        if name not in operands:
            raise OperandError(f"operand {name} is missing; {problem.kind}.{problem.direction} reads {_names(problem)}")
        array = operands[name]
        if array.shape != shape:
            raise OperandError(f"operand {name} has shape {_join(array.shape)}, but the problem says {_join(shape)}")
        if array.dtype != expected:
            raise OperandError(f"operand {name} has dtype {array.dtype}, but the problem says {expected}")
        checked[name] = array
    return checked


def make_normal(problem: Problem, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal data: activations N(0, 1), weights N(0, 1/K), bias and gradients N(0, 1); rounded to the dtype."""
    rng = np.random.default_rng(seed)
    scales = {"w": 1 / math.sqrt(problem.w[1] * math.prod(problem.w[2:]))}
    return {
        name: (rng.standard_normal(shape, np.float32) * np.float32(scales.get(name, 1.0))).astype(numpy_dtype(problem.dtype))
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
    """Small integers of both signs whose every partial sum, in any order, is exact in every accumulator in question.

    Exact when (number of non-zero products) * max|x| * max|w| + |bias| <= 2^p, with p the precision of the narrowest
    format that may hold a partial sum: the result's, or the operands'. The density of non-zeros is lowered until that
    holds (the idea of benchdnn's fill): the operand with the longer reduction per output gets at most `budget`
    non-zeros per reduction, by construction and not only on average.
    """
    rng = np.random.default_rng(seed)
    budget = _nonzero_budget(problem)
    largest = _largest_integer(problem)
    operands = {name: _signed_integers(rng, shape, largest) for name, shape in problem.operand_shapes.items()}
    if problem.reduction_length > budget:
        _thin_out(problem, operands, budget, rng)
    dtype = numpy_dtype(problem.dtype)
    return {name: values.astype(np.float32).astype(dtype) for name, values in operands.items()}


def _largest_integer(problem: Problem) -> int:
    return _LARGEST_INTEGER.get(problem.dtype, _DEFAULT_LARGEST_INTEGER)


def _nonzero_budget(problem: Problem) -> int:
    """How many products of the largest integers fit below 2^precision, one place kept for the bias."""
    precision = min(find_format(problem.dtype).precision, find_format(problem.out).precision, FLOAT32.precision)
    return max(2**precision // _largest_integer(problem) ** 2 - 1, 1)


def _signed_integers(rng: np.random.Generator, shape: tuple[int, ...], largest: int) -> np.ndarray:
    """Integers in -largest..largest without zero."""
    return (rng.integers(1, largest + 1, shape) * rng.choice([-1, 1], shape)).astype(np.int8)


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
    order = rng.random(flat.shape).argsort(axis=1)
    keep = np.zeros(flat.shape, bool)
    np.put_along_axis(keep, order[:, :budget], True, axis=1)
    thinned = np.where(keep, flat, 0).reshape(rows.shape)
    if name != "w":
        operands[name] = np.ascontiguousarray(np.moveaxis(thinned, 0, 1))
    elif rows is not values:
        shape = (problem.groups, values.shape[1], -1, *values.shape[2:])
        operands[name] = np.moveaxis(thinned.reshape(shape), 1, 2).reshape(values.shape)
    else:
        operands[name] = thinned


def _names(problem: Problem) -> str:
    return ", ".join(problem.operand_shapes)


def _join(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
