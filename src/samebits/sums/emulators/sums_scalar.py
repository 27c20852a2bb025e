"""The direct recipe for one output, in exact fractions: the readable form of `sums`, for finite values.

Every step rounds an exact value once with `formats.scalar`; a sum that is exactly zero is -0 only if both operands are
(IEEE 754-2019, section 6.3, for rounding to nearest; here for every mode).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from samebits.numbers.format import find_format
from samebits.numbers.scalar import NEAREST_EVEN, round_to_format
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.problems.windows import name_axes
from samebits.sums.recipes.order import expand_order
from samebits.sums.recipes.order_map import array_from_places
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Chain, Fused, Item, list_terms, restrict_tree

_LEAST_NORMAL32 = 2.0**-126


def emulate_output(problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray], index: Sequence[int]) -> float:
    """The value of one output of a direct recipe, as a float; `index` is the output's in the result."""
    terms = find_terms(problem)
    numbers = np.arange(int(np.prod(problem.out_shape))).reshape(problem.out_shape)
    places = np.argwhere(terms.view_result(numbers) == numbers[tuple(index)])[0]
    g, m, b, s = (int(i) for i in places)
    where = array_from_places(recipe.where, name_axes(problem), problem.out_shape)
    recipe = recipe.for_order(int(where[tuple(index)]))
    read = _round_operands(problem, recipe, operands)
    weights = terms.view_rows(read[terms.rows_operand])[g, m].reshape(-1)
    source = terms.view_source(read[terms.source_operand])[g, b]
    at = terms.locate_sources(np.array([s]))[0]
    exists = np.tile(at >= 0, terms.depth)
    values = np.where(exists.reshape(terms.depth, -1), source[:, np.maximum(at, 0)], 0.0).reshape(-1)
    tree = expand_order(recipe.orders[0], terms.axis_names, terms.axis_sizes)
    phase, masks = terms.phases
    met = np.tile(masks[phase[s]], terms.depth) if recipe.padding == "multiplied" else exists
    kept = restrict_tree(tree, met)
    channel = g * terms.rows + m
    bias = float(read["bias"][channel]) if problem.bias else None
    machine = _Machine(problem, recipe, weights, values)
    after = int(met[list_terms(tree)[: recipe.bias_terms]].sum()) if recipe.bias == "after" else -1
    total = machine.sum_tree(kept, bias, after)
    return _finish(problem, recipe, total, float(operands["bias"][channel]) if problem.bias else 0.0)


class _Machine:
    """One output's sum, step by step."""

    def __init__(self, problem: Problem, recipe: Recipe, weights: np.ndarray, values: np.ndarray):
        self.recipe = recipe
        self.weights = [float(v) for v in weights]
        self.values = [float(v) for v in values]
        self.start: float | None = None
        self.bias: float | None = None
        self.bias_after = -1
        self.least = _least_exponents(problem, recipe)

    def sum_tree(self, tree: Item | None, bias: float | None, after: int) -> float:
        """The sum with the bias in its place; `after` counts the terms that an `after` bias comes behind."""
        recipe = self.recipe
        if bias is not None and recipe.bias == "first":
            self.start = bias
        if bias is not None and recipe.bias == "after":
            self.bias, self.bias_after = bias, after
        total = self._sum(tree, recipe.accumulator.format) if tree is not None else (self.start or self.bias or 0.0)
        if self.bias is not None and tree is not None and not isinstance(tree, Chain):
            total = self._round(*_add(total, self.bias), recipe.accumulator.format)
        if bias is not None and recipe.bias == "last":
            total = self._round(*_add(total, bias), recipe.accumulator.format)
        return total

    def _sum(self, item: Item, name: str) -> float:
        if isinstance(item, Fused):
            return self._add_fused(self._take_start(0.0), item.terms, name)
        if isinstance(item, int):
            begin = self._take_start(0.0 if self.recipe.start == "zero" else -0.0)
            return self._add_term(begin, item, name)
        own = self.recipe.accumulator.format
        bias, self.bias = self.bias, None
        total = self._store(self._sum(item.items[0], own), item.format)
        held = len(list_terms(item.items[0]))
        for part in (*item.items[1:], None):
            if bias is not None and held == self.bias_after:
                total, bias = self._round(*_add(total, bias), own), None
            if part is None:
                break
            held += len(list_terms(part))
            if isinstance(part, int):
                total = self._add_term(total, part, own)
            elif isinstance(part, Fused):
                total = self._add_fused(total, part.terms, own)
            else:
                total = self._round(*_add(total, self._sum(part, own)), own)
            total = self._store(total, item.format)
        return total

    def _store(self, total: float, name: str) -> float:
        """A sum kept in a format of its own, rounded to that."""
        return self._round(Fraction(total), math.copysign(1.0, total), name) if name else total

    def _take_start(self, default: float) -> float:
        start, self.start = self.start, None
        return default if start is None else start

    def _add_term(self, total: float, t: int, name: str) -> float:
        recipe, a, b = self.recipe, self.weights[t], self.values[t]
        product = Fraction(a) * Fraction(b)
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        if recipe.product != "fused":
            format_, mode = (recipe.accumulator.format, recipe.accumulator.mode)
            if recipe.product != "rounded":
                format_, mode = recipe.product, NEAREST_EVEN
            rounded = self._round(product, sign, format_, mode)
            return self._round(*_add(total, rounded), name)
        exact = Fraction(total) + product
        if not exact and not product:
            sign = 1.0 if sign > 0 or math.copysign(1.0, total) > 0 else -1.0
        elif not exact:
            sign = 1.0
        return self._round(exact, sign, name)

    def _add_fused(self, total: float, terms: Sequence[int], name: str) -> float:
        """See FusedSum: align to the largest exponent, truncate, add exactly, round once."""
        products = [
            (Fraction(self.weights[t]) * Fraction(self.values[t]), _exponent(self.weights[t], self.least[0])
             + _exponent(self.values[t], self.least[1]))
            for t in terms
        ]  # fmt: skip
        parts = [(v, e) for v, e in [(Fraction(total), _exponent(total, self.least[2])), *products] if v]
        if not parts:
            return 0.0
        unit = Fraction(2) ** (max(e for _, e in parts) - self.recipe.fused.fraction_bits)
        exact, own = sum(int(v / unit) for v, _ in parts) * unit, self.recipe.fused.rounding
        return self._round(exact, 1.0, own.format if own else name, own.mode if own else "")

    def _round(self, exact: Fraction, sign: float, name: str, mode: str = "") -> float:
        mode = mode or self.recipe.accumulator.mode
        value = round_to_format(exact, find_format(name), mode) if exact else math.copysign(0.0, sign)
        value = math.copysign(value, exact if exact else sign)
        if self.recipe.flush.results and abs(value) < _LEAST_NORMAL32:
            return math.copysign(0.0, value)
        return value


def _add(a: float, b: float) -> tuple[Fraction, float]:
    """The exact sum, and the sign it has if it is zero."""
    both_negative = math.copysign(1.0, a) < 0 and math.copysign(1.0, b) < 0
    return Fraction(a) + Fraction(b), -1.0 if both_negative else 1.0


def _exponent(value: float, least: int) -> int:
    return max(math.frexp(value)[1] - 1, least) if value else least


def _least_exponents(problem: Problem, recipe: Recipe) -> tuple[int, int, int]:
    terms = find_terms(problem)
    roundings = [recipe.find_rounding(problem, n) for n in (terms.rows_operand, terms.source_operand)]
    formats = [r.format if r else problem.dtype for r in roundings]
    unit = recipe.fused.rounding or recipe.accumulator
    row, column, total = (find_format(f).smallest_normal_exponent for f in (*formats, unit.format))
    return row, column, total


def _round_operands(problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    rounded: dict[str, np.ndarray] = {}
    for name, array in operands.items():
        roundings = [recipe.find_rounding(problem, name)]
        if name == "bias" and recipe.bias != "rounded":
            roundings.append(recipe.accumulator)
        values = [float(v) for v in array.astype(np.float64).reshape(-1)]
        if recipe.flush.operands:
            values = [math.copysign(0.0, v) if abs(v) < _LEAST_NORMAL32 else v for v in values]
        for rounding in filter(None, roundings):
            values = [round_to_format(v, find_format(rounding.format), rounding.mode) for v in values]
        rounded[name] = np.array(values).reshape(array.shape)
    return rounded


def _finish(problem: Problem, recipe: Recipe, total: float, bias: float) -> float:
    out = find_format(problem.out)
    mode = recipe.out_mode if problem.out != "float64" else NEAREST_EVEN
    if recipe.via:
        total = round_to_format(total, find_format(recipe.via))
    value = round_to_format(total, out, mode)
    if problem.bias and recipe.bias == "rounded":
        if recipe.b:
            bias = round_to_format(bias, find_format(recipe.b.format), recipe.b.mode)
        exact, sign = _add(value, bias)
        value = round_to_format(exact, out, mode) if exact else math.copysign(0.0, sign)
    if problem.then:
        low = 0.0 if problem.then.name == "relu" else round_to_format(problem.then.low, out)
        high = math.inf if problem.then.name == "relu" else round_to_format(problem.then.high, out)
        value = min(max(value, low), high)
    if recipe.flush.results and abs(value) < _LEAST_NORMAL32:
        return math.copysign(0.0, value)
    return value
