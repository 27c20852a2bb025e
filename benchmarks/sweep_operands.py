"""Operands for `truth_sweep.py` that are hard to round: ties and their neighbours, cancellation, ends of ranges.

What comes out is not promised here: the exact reference counts what became of every output.
"""

from __future__ import annotations

import math

import numpy as np
from exact_reference import LAYOUTS, Layout, name_factors

from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem

KINDS = ("normal", "wide exponents", "ties", "cancellation", "subnormal", "overflow", "signed zeros", "infinities")
Arrays = dict[str, np.ndarray]


def make_operands(problem: Problem, kind: str, random: np.random.Generator) -> Arrays:
    """Arrays of a problem; every kind but `infinities` is finite."""
    first, second = name_factors(problem)
    shapes = problem.operand_shapes
    terms = max(1.0, problem.multiply_adds / math.prod(problem.out_shape))
    make = {
        "normal": _make_normal,
        "wide exponents": _make_wide,
        "cancellation": _make_cancelling,
        "signed zeros": _make_zeros,
        "infinities": _make_infinities,
    }.get(kind)
    if make:
        values = {name: make(shape, random, terms, LAYOUTS[problem.dtype]) for name, shape in shapes.items()}
    else:
        values = _make_ties(problem, kind, random, terms)
    if kind == "signed zeros" and random.random() < 0.5:
        # Products far below the smallest number, so that results underflow to zeros of both signs.
        for name in (first, second):
            values[name] = np.ldexp(values[name], (LAYOUTS[problem.out].lowest - random.integers(0, 6)) // 2)
    return {name: _to_format(value, problem.dtype, kind == "infinities") for name, value in values.items()}


def _to_format(values: np.ndarray, name: str, keeps_infinities: bool) -> np.ndarray:
    """Rounded anyhow (the reference reads what comes out), and within the range where it should be finite."""
    layout = LAYOUTS[name]
    largest = np.array([layout.largest], f"u{numpy_dtype(name).itemsize}").view(numpy_dtype(name)).astype(np.float64)[0]
    clipped = np.clip(values, -largest, largest)
    if keeps_infinities:
        clipped = np.where(np.isfinite(values), clipped, values)
    with np.errstate(all="ignore"):
        return clipped.astype(numpy_dtype(name))


def _make_normal(shape: tuple[int, ...], random: np.random.Generator, _terms: float, _layout: Layout) -> np.ndarray:
    return random.standard_normal(shape)


def _make_wide(shape: tuple[int, ...], random: np.random.Generator, _terms: float, layout: Layout) -> np.ndarray:
    """Random significands and exponents, from a few powers of two around a random place to the whole range."""
    width = int(random.choice([3, 30, layout.highest - layout.lowest]))
    low = int(random.integers(layout.lowest, max(layout.highest - width, layout.lowest) + 1))
    exponents = random.integers(low, min(low + width, layout.highest) + 1, shape)
    return np.ldexp(random.uniform(0.5, 1, shape) * random.choice([-1, 1], shape), exponents)


def _make_cancelling(shape: tuple[int, ...], random: np.random.Generator, terms: float, layout: Layout) -> np.ndarray:
    """Few magnitudes, one unit in the last place apart, with random signs; some numbers that are far smaller."""
    magnitude = 1 + random.integers(0, 2**layout.fraction_bits) / 2**layout.fraction_bits
    units = random.choice([0, 0, 0, 1], shape) * 2.0**-layout.fraction_bits
    values = (magnitude + units) * random.choice([-1, 1], shape)
    if random.random() < 0.5:
        small = random.random(shape) < 0.5 / terms
        values[small] *= 2.0 ** -random.integers(1, max(2, -layout.lowest // 2), int(small.sum()))
    return values


def _make_zeros(shape: tuple[int, ...], random: np.random.Generator, terms: float, _layout: Layout) -> np.ndarray:
    """Mostly zeros of both signs, so that many sums have no other terms."""
    values = random.standard_normal(shape)
    values[random.random(shape) > min(0.7, 1 / math.sqrt(terms))] = 0
    return np.copysign(values, random.choice([-1, 1], shape))


def _make_infinities(shape: tuple[int, ...], random: np.random.Generator, terms: float, layout: Layout) -> np.ndarray:
    """Normal numbers, some of the largest, some infinities (NaN in a format without them), a few NaN."""
    values = random.standard_normal(shape)
    special = random.choice([np.inf, -np.inf, 2.0**layout.highest, 0.0, np.nan], shape, p=[0.35, 0.35, 0.15, 0.1, 0.05])
    if not layout.has_infinity:
        special[np.isinf(special)] = np.nan
    return np.where(random.random(shape) < 0.4 / terms, special, values)


def _make_ties(problem: Problem, kind: str, random: np.random.Generator, terms: float) -> Arrays:
    """Sums of one large integer and many small ones, in units of half the last place of the result.

    Odd sums of precision + 1 bits are ties; where a far smaller number takes part, they are one bit off. For
    `subnormal` the unit is half of the smallest number; for `overflow` large integers are near the first that becomes
    an infinity.
    """
    source, result = LAYOUTS[problem.dtype], LAYOUTS[problem.out]
    precision = result.fraction_bits + 1
    unit = {"ties": int(random.integers(-4, 5)), "subnormal": result.lowest - 1, "overflow": result.highest - precision}
    # The unit of the products is that of the first operand times the size of the second's numbers, powers of two.
    top = source.highest - precision - 3
    first_unit = min(max((unit[kind] - precision) // 2, source.lowest), max(top, source.lowest))
    second_unit = min(max(unit[kind] - first_unit, source.lowest), source.highest)
    first, second = name_factors(problem)
    shapes = problem.operand_shapes
    small = random.choice([-1, 0, 1], shapes[first])
    anchored = random.random(shapes[first]) < min(0.5, 1 / terms)
    integers = np.where(anchored, _make_large(kind, shapes[first], random, precision, source.fraction_bits + 1), small)
    values = {
        first: np.ldexp(integers.astype(np.float64), first_unit),
        second: np.ldexp(random.choice([-1.0, 1.0], shapes[second]), second_unit),
    }
    if random.random() < 0.6:
        rare = (random.random(shapes[first]) < 0.4 / terms) & ~anchored
        depth = random.integers(1, max(2, first_unit - source.lowest + 1))
        values[first][rare] = random.choice([-1, 1], int(rare.sum())) * 2.0 ** (first_unit - depth)
    if problem.bias:
        large = _make_large(kind, shapes["bias"], random, precision, source.fraction_bits + 1)
        with np.errstate(over="ignore"):
            values["bias"] = np.ldexp((large * random.choice([0, 1], shapes["bias"])).astype(np.float64), unit[kind])
    return values


def _make_large(
    kind: str, shape: tuple[int, ...], random: np.random.Generator, precision: int, bits: int
) -> np.ndarray:
    """Integers of about precision + 1 bits, of which the lowest are zero where operands have fewer."""
    sizes = np.full(shape, precision + 1) if kind != "subnormal" else random.integers(1, precision + 2, shape)
    if kind == "overflow":
        # 2^(precision + 1) - 1 is the first sum that becomes an infinity: half a unit beyond the largest number.
        large = 2 ** (precision + 1) - random.integers(0, 4, shape)
    else:
        large = (random.uniform(0.5, 1, shape) * 2.0**sizes).astype(np.int64)
    dropped = max(0, precision + 1 - bits)
    # Rounded up, so that a number just below a power of two becomes it.
    return (-(-large >> dropped) << dropped) * random.choice([-1, 1], shape)
