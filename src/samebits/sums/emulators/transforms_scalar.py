"""Winograd and Fourier recipes one number at a time, in exact fractions rounded after every operation: the readable
forms of `winograd` and `fft`, for forward convolutions of one group with stride and dilation 1 and no bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from samebits.errors import RecipeError
from samebits.numbers.format import FLOAT32, find_format
from samebits.numbers.scalar import round_to_format
from samebits.problems import Problem
from samebits.sums.recipes.recipe import Recipe, Winograd

Round = Callable[[Fraction], float]
# Interpolation points of F(m, 3) other than infinity.
POINTS = {2: (0, 1, -1), 4: (0, 1, -1, 2, -2), 6: (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))}


def winograd_output(
    problem: Problem,
    recipe: Recipe,
    operands: Mapping[str, np.ndarray],
    index: Sequence[int],
    matrices: tuple[Sequence[Sequence[Fraction]], ...],
) -> float:
    """One output by F(tile, 3) with the matrices (A^T, G, B^T); channels are added in order. Axes: at most two."""
    if not isinstance(recipe.algorithm, Winograd) or problem.rank > 2:
        raise RecipeError("the scalar form computes winograd of one or two axes")
    tile, rank = recipe.algorithm.tile, problem.rank
    format_ = find_format(recipe.accumulator.format)

    def rounded(value: Fraction) -> float:
        return round_to_format(value, format_)

    output, weight, data = matrices
    n, m, *place = index
    corner = [p // tile * tile for p in place]
    inside = [p % tile for p in place]
    span = list(itertools.product(range(tile + 2), repeat=rank))
    sums = dict.fromkeys(span, 0.0)
    for c in range(problem.x[1]):
        patch = {s: _read(problem, operands["x"][n, c], [k + t for k, t in zip(corner, s, strict=True)]) for s in span}
        filters = {s: float(operands["w"][m, c][s]) for s in itertools.product(range(3), repeat=rank)}
        left, right = _transform(filters, weight, rank, rounded), _transform(patch, data, rank, rounded)
        for s in span:
            product = Fraction(left[s]) * Fraction(right[s])
            if recipe.product == "rounded":
                product = Fraction(rounded(product))
            sums[s] = rounded(Fraction(sums[s]) + product)
    return _transform(sums, output, rank, rounded)[tuple(inside)]


def _read(problem: Problem, plane: np.ndarray, place: Sequence[int]) -> float:
    """The value at a place of the padded plane."""
    at = [p - a.pad_begin for p, a in zip(place, problem.axes, strict=True)]
    if any(not 0 <= i < size for i, size in zip(at, plane.shape, strict=True)):
        return 0.0
    return float(plane[tuple(at)])


def _transform(
    values: dict[tuple[int, ...], float], matrix: Sequence[Sequence[Fraction]], rank: int, rounded: Round
) -> dict[tuple[int, ...], float]:
    """Along each axis, first one first: rows of coefficients, left to right, zeros left out."""
    for axis in range(rank):
        done: dict[tuple[int, ...], float] = {}
        lines = {(*key[:axis], *key[axis + 1 :]) for key in values}
        for line in lines:
            for i, row in enumerate(matrix):
                total: float | None = None
                for j, coefficient in enumerate(row):
                    if coefficient:
                        held = (
                            float(round_to_format(coefficient, FLOAT32))
                            if coefficient.denominator != 1
                            else coefficient
                        )
                        value = values[(*line[:axis], j, *line[axis:])]
                        product = rounded(Fraction(rounded(Fraction(held))) * Fraction(value))
                        total = product if total is None else rounded(Fraction(total) + Fraction(product))
                assert total is not None
                done[(*line[:axis], i, *line[axis:])] = total
        values = done
    return values


def fft_row(x: Sequence[float], w: Sequence[float]) -> list[float]:
    """The correlation of one row with one row of weights by Fourier transforms in float32: valid outputs."""

    def rounded(value: Fraction) -> Fraction:
        return Fraction(round_to_format(value, FLOAT32))

    def multiply(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
        return (
            rounded(rounded(a[0] * b[0]) - rounded(a[1] * b[1])),
            rounded(rounded(a[0] * b[1]) + rounded(a[1] * b[0])),
        )

    def turn(k: int, size: int) -> tuple[Fraction, Fraction]:
        angle = -2.0 * math.pi * k / size
        return rounded(Fraction(math.cos(angle))), rounded(Fraction(math.sin(angle)))

    def transform(values: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
        size = len(values)
        if size == 1:
            return values
        even, odd = transform(values[::2]), transform(values[1::2])
        turned = [multiply(o, turn(k, size)) for k, o in enumerate(odd)]
        plus = [(rounded(e[0] + t[0]), rounded(e[1] + t[1])) for e, t in zip(even, turned, strict=True)]
        minus = [(rounded(e[0] - t[0]), rounded(e[1] - t[1])) for e, t in zip(even, turned, strict=True)]
        return plus + minus

    size = 1 << (len(x) - 1).bit_length()
    zero = Fraction(0)
    spectrum = transform([(Fraction(v), zero) for v in [*x, *[0.0] * (size - len(x))]])
    weights = transform([(Fraction(v), zero) for v in [*w, *[0.0] * (size - len(w))]])
    product = [multiply(a, (b[0], -b[1])) for a, b in zip(spectrum, weights, strict=True)]
    back = transform([(re, -im) for re, im in product])
    return [float(rounded(back[i][0] / size)) for i in range(len(x) - len(w) + 1)]
