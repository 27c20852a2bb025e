"""Sums of products in random orders and in any format, exact but for the roundings that the format asks for."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np

from exact_terms import round_fraction
from samebits.numbers import numpy_dtype
from samebits.problems import Problem

Pairs = list[tuple[Fraction, Fraction]]


def add_in_any_order(leaves: list[float], name: str, chance: random.Random) -> float:
    """A random tree of additions in NumPy scalars of float32 or float64, in fractions in other formats."""
    values = list(leaves)
    while len(values) > 1:
        a = values.pop(chance.randrange(len(values)))
        # Now and then the newest sum goes on, so that chains are as common as bushy trees.
        b = values.pop(-1 if chance.random() < 0.5 else chance.randrange(len(values)))
        values.append(_add(a, b, name))
    return values[0] if values else 0.0


def _add(a: float, b: float, name: str) -> float:
    if name in ("float32", "float64"):
        number = numpy_dtype(name).type
        return float(number(a) + number(b))
    return round_fraction(Fraction(a) + Fraction(b), name)


def sum_rounded(pairs: Pairs, bias: Fraction | None, name: str, chance: random.Random) -> float:
    """Every product rounded to the format, then added in any order, the bias somewhere among them."""
    leaves = [round_fraction(a * b, name) for a, b in pairs]
    if bias is not None:
        leaves.append(round_fraction(bias, name))
    return add_in_any_order(leaves, name, chance)


def sum_fused(pairs: Pairs, bias: Fraction | None, name: str, chance: random.Random) -> float:
    """Chains of fused multiply-adds over parts of the terms in any order, the chains added in any order."""
    shuffled = chance.sample(pairs, len(pairs))
    chains = [0.0] * chance.randint(1, 3)
    if bias is not None:
        chains[0] = round_fraction(bias, name)
    for a, b in shuffled:
        n = chance.randrange(len(chains))
        chains[n] = round_fraction(a * b + Fraction(chains[n]), name)
    return add_in_any_order(chains, name, chance)


def apply_epilogue(problem: Problem, value: float) -> float:
    """max(y, 0), or min(max(y, low), high) with limits rounded to the result's format."""
    if problem.then is None:
        return value
    if problem.then.name == "relu":
        return max(value, 0.0)
    low, high = (round_fraction(Fraction(v), problem.out) for v in (problem.then.low, problem.then.high))
    return min(max(value, low), high)


def random_operands(problem: Problem, chance: random.Random, spread: int, shift: int) -> dict[str, np.ndarray]:
    """Full significands, powers of two and their neighbours, zeros; exponents in [shift - spread, shift]."""
    dtype = numpy_dtype(problem.dtype)

    def draw() -> float:
        significand = chance.choice([1.0, 1 + 2.0 ** -chance.randint(1, 52), chance.uniform(1, 2), 0.0])
        value = significand * 2.0 ** (shift - chance.randint(0, spread)) * chance.choice([1, -1])
        return round_fraction(Fraction(value), problem.dtype)

    operands = {}
    for name, shape in problem.operand_shapes.items():
        values = np.array([draw() for _ in range(int(np.prod(shape)))]).reshape(shape)
        operands[name] = values.astype(dtype)
    return operands
