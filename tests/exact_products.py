"""Products of Python integers, by NumPy's own matmul of objects: the oracle for linear and matmul."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from exact_arithmetic import SCALE_BITS, integers_from_floats
from samebits.numbers.format import find_format
from samebits.numbers.scalar import round_to_format


def multiply_exactly(problem, operands) -> np.ndarray:
    """The exact sums in units of 2^-2200, an object array of Python integers in the result's shape."""
    given = {name: integers_from_floats(array) for name, array in operands.items()}
    if problem.kind == "matmul":
        return np.asarray(np.matmul(given["x"], given["w"]), object).reshape(problem.out_shape)
    if problem.direction == "grad_input":
        return np.matmul(given["dy"], given["w"])
    if problem.direction == "grad_weight":
        rows = [given[name].reshape(-1, given[name].shape[-1]) for name in ("dy", "x")]
        return np.matmul(rows[0].T, rows[1])
    sums = np.matmul(given["x"], given["w"].T)
    return sums + given["bias"] * 2**SCALE_BITS if problem.bias else sums


def multiply_correctly_rounded(problem, operands) -> np.ndarray:
    """The correctly rounded result as float64 values of the result's format."""
    out, sums = find_format(problem.out), multiply_exactly(problem, operands)
    rounded = [float(round_to_format(Fraction(int(s), 2 ** (2 * SCALE_BITS)), out)) for s in sums.ravel()]
    return np.array(rounded).reshape(problem.out_shape)
