"""Faults that write odd values: zeros from an index on, memory never written, a lost NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from injected_faults import Operands, compute, needs
from samebits.problems import Problem
from samebits.problems.problem import Epilogue


def zero_from_index(problem: Problem, operands: Operands, rng: np.random.Generator):
    result = compute(problem, operands, rng).copy()
    flat = result.reshape(-1)
    row = problem.out_shape[-1]
    needs(len(flat) > 8 * row and row > 2)
    start = int(rng.integers(len(flat) // 4, len(flat) - 2 * row)) // row * row + int(rng.integers(1, row))
    flat[start:] = 0
    return problem, operands, result


def leave_unwritten(problem: Problem, operands: Operands, rng: np.random.Generator):
    result = compute(problem, operands, rng).copy()
    size = result.shape[-1]
    needs(size >= 4 and result.dtype in (np.float32, np.float64))
    count = int(rng.integers(1, max(size // 3, 2)))
    result[..., size - count :] = np.nan if rng.random() < 0.5 else rng.uniform(1e25, 1e30)
    return problem, operands, result


def lose_nan(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.direction == "forward")
    operands = {n: a.copy() for n, a in operands.items()}
    operands["x"].reshape(-1)[int(rng.integers(0, operands["x"].size))] = np.nan
    then = [Epilogue("relu"), Epilogue("clip", 0.0, 6.0)][int(rng.integers(0, 2))]
    declared = replace(problem, then=then)
    return declared, operands, compute(declared, operands, rng, "nan=bound")
