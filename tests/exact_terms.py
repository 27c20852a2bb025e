"""Which products every output of a convolution adds up, by its definition, and exact rounding of fractions.

Nothing of the package is used but the shapes of a problem; rounding is Python's and gfloat's.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import gfloat
import numpy as np
from gfloat import formats as gfloat_formats

from samebits.numbers import numpy_dtype

_NARROW = {
    "float32": gfloat_formats.format_info_binary32,
    "bfloat16": gfloat_formats.format_info_bfloat16,
    "float16": gfloat_formats.format_info_binary16,
    "float8_e4m3fn": gfloat_formats.format_info_ocp_e4m3,
    "float8_e5m2": gfloat_formats.format_info_ocp_e5m2,
}
# Significant bits and the exponent of the smallest subnormal number: IEEE 754-2019 table 3.5, OCP 8-bit specification.
PRECISION = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
LEAST = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133, "float8_e4m3fn": -9, "float8_e5m2": -16}


def unit_of(name: str) -> Fraction:
    """Half the spacing of a format's numbers above 1."""
    return Fraction(1, 2 ** PRECISION[name])


def least_of(name: str) -> Fraction:
    """The smallest positive number of a format."""
    return Fraction(2) ** LEAST[name]


def round_fraction(value: Fraction, name: str) -> float:
    """The number of a format nearest to `value`, ties to even; beyond the largest one infinity, or NaN without one."""
    if name == "float64":
        return value.numerator / value.denominator  # Python divides integers with one correct rounding.
    return gfloat.round_float(_NARROW[name], _round_to_odd(value))


def _round_to_odd(value: Fraction) -> float:
    """53 bits of a fraction with the last one set if anything was cut off, so that rounding again is rounding once."""
    shift = 52 - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = abs(value) * Fraction(2) ** shift
    digits = math.floor(scaled)
    if digits != scaled:
        digits |= 1
    return math.copysign(math.ldexp(digits, -shift), value)


def list_terms(problem) -> dict[tuple[int, ...], list[dict[str, tuple[int, ...]]]]:
    """For every output the products it adds, each as the index of one element in either operand.

    A convolution ties small[n, s, i] to large[n, l, i * stride - padding + tap * dilation] by w[s, l in group, tap];
    the result is one of the three and the operands are the other two. Padding is a number of rows, not `same`.
    """
    forward = "result" if problem.direction == "forward" else "dy"
    small, large = ("x", forward) if problem.is_transposed else (forward, "x")
    target = {"forward": "result", "grad_input": "x", "grad_weight": "w"}[problem.direction]
    shapes = {"x": problem.x, "w": problem.w, forward: problem.y_shape}
    terms = {at: [] for at in np.ndindex(problem.out_shape)}
    rows, depth = problem.w[0] // problem.groups, problem.w[1]
    indices = itertools.product(range(problem.x[0]), np.ndindex(problem.w), np.ndindex(shapes[small][2:]))
    for n, w, i in indices:
        steps = zip(i, w[2:], problem.stride, problem.padding, problem.dilation, strict=True)
        at = tuple(p * stride - padding[0] + tap * dilation for p, tap, stride, padding, dilation in steps)
        if all(0 <= a < size for a, size in zip(at, shapes[large][2:], strict=True)):
            of = {small: (n, w[0], *i), large: (n, w[0] // rows * depth + w[1], *at), "w": w}
            terms[of.pop(target)].append(of)
    return terms


def read_terms(problem, operands, terms) -> list[tuple[Fraction, Fraction]]:
    """The factors of one output's terms, exactly."""
    values = [[Fraction(float(operands[name][at])) for name, at in term.items()] for term in terms]
    return [(a, b) for a, b in values]


def place(problem, pairs, bias=None) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Operands that make one output the sum of these products (and the bias), its position first; all else is zero.

    Asserts that the dtype holds every factor and that no output has more terms than there are pairs of the problem's
    reduction length: the bound is then that of the sum itself.
    """
    terms = list_terms(problem)
    at = max(terms, key=lambda index: len(terms[index]))
    dtype = numpy_dtype(problem.dtype)
    operands = {name: np.zeros(shape, dtype) for name, shape in problem.operand_shapes.items()}
    for term, pair in zip(terms[at], pairs, strict=False):
        for (name, index), factor in zip(term.items(), pair, strict=True):
            operands[name][index] = float(factor)
            assert Fraction(float(operands[name][index])) == factor
    assert len(pairs) <= len(terms[at])
    if bias is not None:
        operands["bias"][at[1]] = float(bias)
        assert Fraction(float(operands["bias"][at[1]])) == bias
    return at, operands
