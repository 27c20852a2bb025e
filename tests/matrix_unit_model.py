"""NVIDIA's matrix units in exact integers, and operands that show what they do: a second opinion on the hardware table.

What a unit does in one addition: every product, and the running sum, is cut toward zero to a multiple of 2^(e - bits),
where e is the largest exponent among those not zero; a product's exponent is the sum of its operands' exponents
as their codes have them (a subnormal number has the smallest normal exponent), not normalised. What is left is added
exactly, and the sum is rounded once.

The numbers are in `UNITS`, written down here a second time. Nothing is shared with `samebits`: operands are taken apart
by the bits of their codes (the package uses frexp), sums are Python integers (the package's compiled emulators use
float64, its reference implementation fractions), and rounding is an integer division.

What is checked by what (tests/sums/test_silicon.py):

- The model gives all 3,000 recorded results of every unit, where the recordings are at hand. They are normally
  distributed operands of one addition, or of two (FP8; H100's to float32 of one, with c = 0), and prove groups, kept
  bits and roundings as far as the table does not say otherwise.
- The emulators give the model's results on the operands made here, everywhere and always. These go further than the
  recordings do: two additions in a row, exponents far apart, cancellation against a large c, subnormal operands and
  results, exact ties. There, model and emulators are two independent readings of the same rule, proved on silicon only
  as far as the recordings reach.
- Nothing here overflows: what the units do then was not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import ml_dtypes
import numpy as np

SAMPLES = 2000


class Grid(NamedTuple):
    """A format's numbers: its code's fields, and how NumPy holds it (`unused` low bits are always zero)."""

    exponent_bits: int
    fraction_bits: int
    dtype: type
    unused: int = 0

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def least(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias


GRIDS = {
    "float16": Grid(5, 10, np.float16),
    "bfloat16": Grid(8, 7, ml_dtypes.bfloat16),
    "tf32": Grid(8, 10, np.float32, 13),
    "float8_e4m3fn": Grid(4, 3, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": Grid(5, 2, ml_dtypes.float8_e5m2),
    "float32": Grid(8, 23, np.float32),
}


class Target(NamedTuple):
    """What a sum is rounded to: cut toward zero, or to nearest with ties to even."""

    fraction_bits: int
    least: int
    largest: int
    cuts: bool


CUT32 = Target(23, -126, 127, cuts=True)
NEAREST32 = Target(23, -126, 127, cuts=False)
NEAREST16 = Target(10, -14, 15, cuts=False)
CUT_E8M13 = Target(13, -126, 127, cuts=True)


class UnitModel(NamedTuple):
    """One instruction: `group` products enter the running sum at a time, which is then rounded to `target`.

    c starts the running sum. `by_float16`: the operands are first converted to float16, the products with k mod 4 in
    {0, 1} are added before the others, and c comes last, in an addition of its own, which is rounded to `last`.
    """

    group: int
    bits: int
    target: Target
    by_float16: bool = False
    last: Target | None = None


# Unit, operands, result.
Key = tuple[str, str, str]


def _model_units() -> Iterator[tuple[Key, UnitModel]]:
    for unit, group, bits in (("V100", 4, 23), ("A100", 8, 24), ("Ada", 8, 24), ("H100", 16, 25), ("B200", 16, 25)):
        yield (unit, "float16", "float32"), UnitModel(group, bits, CUT32)
        yield (unit, "float16", "float16"), UnitModel(group, bits, NEAREST16)
        if unit != "V100":
            yield (unit, "bfloat16", "float32"), UnitModel(group, bits, CUT32)
            yield (unit, "tf32", "float32"), UnitModel(group // 2, bits, CUT32)
    for operands in ("float8_e4m3fn", "float8_e5m2"):
        yield ("Ada", operands, "float32"), UnitModel(16, 13, CUT_E8M13)
        yield ("Ada", operands, "float16"), UnitModel(16, 13, NEAREST16)
        yield ("H100", operands, "float32"), UnitModel(32, 13, CUT_E8M13)
        yield ("H100", operands, "float16"), UnitModel(16, 25, NEAREST16, by_float16=True)
        yield ("B200", operands, "float16"), UnitModel(16, 25, NEAREST16, by_float16=True)
        yield ("B200", operands, "float32"), UnitModel(16, 25, CUT32, by_float16=True, last=NEAREST32)


UNITS = dict(_model_units())


class Sample(NamedTuple):
    """Operands of many sums, in float32: a and b [sample, product], c [sample]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


class Term(NamedTuple):
    """significand * 2^quantum, aligned by `exponent`."""

    significand: int
    quantum: int
    exponent: int


ZERO = Term(0, 0, 0)


def compute(key: Key, sample: Sample, model: UnitModel | None = None) -> np.ndarray:
    """a . b + c of every sample, as the unit computes it: float64 values, no matter which sign a zero has.

    a and b hold numbers of the operands' format, c numbers of the result's. `model`: other numbers than the unit's own.
    """
    _, operands, result = key
    model = model or UNITS[key]
    grid = GRIDS["float16" if model.by_float16 else operands]
    arrays = ((sample.a, grid), (sample.b, grid), (sample.c[:, None], GRIDS[result]))
    rows = zip(*(_take_apart(array, its) for array, its in arrays), strict=True)
    return np.array([_compute_one(model, [*map(_multiply, x, y)], z[0]) for x, y, z in rows])


def _take_apart(values: np.ndarray, grid: Grid) -> Iterator[list[Term]]:
    """Every row as terms, by the fields of the numbers' codes."""
    held = values.astype(grid.dtype)
    assert (held.astype(np.float64) == values).all(), "not numbers of the format"
    codes = held.view(f"uint{8 * held.itemsize}").astype(np.int64) >> grid.unused
    fraction = codes & (2**grid.fraction_bits - 1)
    field = codes >> grid.fraction_bits & (2**grid.exponent_bits - 1)
    negative = codes >> (grid.fraction_bits + grid.exponent_bits)
    significand = (fraction + (field > 0) * 2**grid.fraction_bits) * (1 - 2 * negative)
    exponent = np.maximum(field, 1) - grid.bias
    for row, exponents in zip(significand.tolist(), exponent.tolist(), strict=True):
        yield [Term(s, e - grid.fraction_bits, e) for s, e in zip(row, exponents, strict=True)]


def _multiply(x: Term, y: Term) -> Term:
    return Term(x.significand * y.significand, x.quantum + y.quantum, x.exponent + y.exponent)


def _compute_one(model: UnitModel, products: list[Term], c: Term) -> float:
    if model.by_float16:
        early = [p for k, p in enumerate(products) if k % 4 < 2]
        products = early + [p for k, p in enumerate(products) if k % 4 >= 2]
    total = ZERO if model.by_float16 else c
    for begin in range(0, len(products), model.group):
        total = _add([total, *products[begin : begin + model.group]], model.bits, model.target)
    if model.by_float16:
        total = _round(*_add_exactly([total, c]), model.last or model.target)
    return math.ldexp(total.significand, total.quantum)


def _add(terms: list[Term], bits: int, target: Target) -> Term:
    unit = max((t.exponent for t in terms if t.significand), default=0) - bits
    total = 0
    for significand, quantum, _ in terms:
        kept = abs(significand) << quantum - unit if quantum >= unit else abs(significand) >> unit - quantum
        total += kept if significand > 0 else -kept
    return _round(total, unit, target)


def _add_exactly(terms: list[Term]) -> tuple[int, int]:
    unit = min(t.quantum for t in terms)
    return sum(t.significand << t.quantum - unit for t in terms), unit


def _round(total: int, unit: int, target: Target) -> Term:
    """total * 2^unit as a number of the target format."""
    magnitude = abs(total)
    quantum = max(magnitude.bit_length() - 1 + unit, target.least) - target.fraction_bits
    if quantum <= unit:
        kept = magnitude << unit - quantum
    else:
        kept, rest = divmod(magnitude, 2 ** (quantum - unit))
        if not target.cuts:
            kept += 2 * rest + kept % 2 > 2 ** (quantum - unit)
    exponent = max(kept.bit_length() - 1 + quantum, target.least)
    assert exponent <= target.largest, "overflow: no such sum is made here"
    return Term(kept if total > 0 else -kept, quantum, exponent)


class Maker:
    """Seeded operands of one unit, `products` to a sample: two additions' worth."""

    def __init__(self, key: Key, seed: int = 0):
        self.model = UNITS[key]
        _, operands, self.result = key
        self.grid = GRIDS[operands]
        self.products = 2 * self.model.group
        self.random = np.random.default_rng([seed, *map(ord, "".join(key))])
        # The largest exponent of an operand, so that no sum of 64 products and c overflows; float8_e4m3fn's own largest
        # is 8, but there all bits set are NaN.
        top = {"float16": 15, "bfloat16": 127, "tf32": 127, "float8_e4m3fn": 7, "float8_e5m2": 15}[operands]
        self.largest = min(top, (self.model.target.largest - 10) // 2)

    def make(self, samples: int = SAMPLES) -> dict[str, Sample]:
        """Every kind of data, by name; together that many samples."""
        kinds = {kind.__name__[5:]: kind for kind in self._list_kinds()}
        shares = [len(part) for part in np.array_split(np.arange(samples), len(kinds))]
        return {name: self._finish(*kind(n)) for (name, kind), n in zip(kinds.items(), shares, strict=True)}

    def _list_kinds(self) -> list[Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]]:
        return [self.make_normal, self.make_wide, self.make_cancelling, self.make_subnormal, self.make_ties]

    def make_normal(self, n: int):
        a, b = self.random.standard_normal((2, n, self.products))
        return a, b, self.random.standard_normal(n)

    def make_wide(self, n: int):
        """Exponents far apart, by as much as the sample says: 2 to 40."""
        spread = self.random.integers(1, 21, (n, 1))
        a, b = (
            self._draw_numbers(self.largest - self.random.integers(0, spread + 1, (n, self.products))) for _ in "ab"
        )
        c = self._draw_significands((n,)) * 2.0 ** (2 * self.largest - self.random.integers(0, 2 * spread[:, 0] + 8))
        return a, b, c

    def make_cancelling(self, n: int):
        """Half of the products take the other half back; c takes the rest back, or is larger than all of them."""
        a, b = (self._draw_numbers(self.random.integers(-3, 3, (n, self.products))) for _ in "ab")
        half = self.products // 2
        order = np.argsort(self.random.random(a.shape), axis=1)
        a[:, half:], b[:, half:] = -a[:, :half], b[:, :half]
        a, b = (np.take_along_axis(array, order, axis=1) for array in (a, b))
        changed = self.random.integers(0, self.products, n)
        a[np.arange(n), changed] *= 2.0 ** -self.random.integers(0, 3, n)
        c = -(a * b).sum(axis=1) * (1 + self.random.integers(-2, 3, n) * 2.0**-10)
        large = self._draw_significands((n,)) * 2.0 ** self.random.integers(4, min(self.model.bits, 14), n)
        return a, b, np.where(self.random.random(n) < 0.5, c, large)

    def make_subnormal(self, n: int):
        """Operands below the smallest normal number, times large ones, or so small that sums are subnormal, too."""
        shape = (n, self.products)
        below = self.random.integers(1, 2**self.grid.fraction_bits, shape) * self.random.choice([-1.0, 1.0], shape)
        a = np.ldexp(below, self.grid.least - self.grid.fraction_bits)
        common = self.random.integers(max(self.grid.least, -24), self.largest + 1, (n, 1))
        b = self._draw_numbers(np.clip(common + self.random.integers(-3, 1, shape), self.grid.least, self.largest))
        kept = self.random.random((n, 1)) < 0.7
        a = np.where(kept | (self.random.random(shape) < 0.5), a, self._draw_numbers(np.full(shape, self.grid.least)))
        c = self._draw_significands((n,)) * np.ldexp(
            1.0, self.grid.least + common[:, 0] - self.random.integers(-3, 8, n)
        )
        swapped = self.random.random(n) < 0.5
        return np.where(swapped[:, None], b, a), np.where(swapped[:, None], a, b), c

    def make_ties(self, n: int):
        """c and half a unit of its last place, mostly with a little more or less; all other products are zero."""
        lowest = 2 * (self.grid.least - self.grid.fraction_bits)
        digits = self.model.target.fraction_bits
        place = self.random.integers(max(lowest, -14), max(lowest, -14) + 3, n)
        c = (self.random.integers(0, 2**digits, n) + 2**digits) * np.ldexp(self._draw_signs((n,)), place + 1)
        a, b = np.zeros((2, n, self.products))
        first, second = np.argsort(self.random.random(a.shape), axis=1)[:, :2].T
        self._put_power(a, b, first, place)
        little = np.maximum(place - self.random.integers(0, 8, n), lowest)
        self._put_power(a, b, second, little)
        a[np.arange(n), second] *= self.random.random(n) < 0.7
        return a, b, c

    def _put_power(self, a: np.ndarray, b: np.ndarray, at: np.ndarray, exponent: np.ndarray) -> None:
        """One product of each sample becomes plus or minus 2^exponent, in any way that the operands' format allows."""
        lowest = self.grid.least - self.grid.fraction_bits
        low, high = np.maximum(lowest, exponent - self.largest), np.minimum(self.largest, exponent - lowest)
        share = self.random.integers(low, high + 1)
        rows = np.arange(len(a))
        a[rows, at] = np.ldexp(self._draw_signs(at.shape), share)
        b[rows, at] = np.ldexp(1.0, exponent - share)

    def _draw_signs(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.choice([-1.0, 1.0], shape)

    def _draw_significands(self, shape: tuple[int, ...]) -> np.ndarray:
        return (1 + self.random.random(shape)) * self._draw_signs(shape)

    def _draw_numbers(self, exponents: np.ndarray) -> np.ndarray:
        """Random significands of the operands' format; an exponent below the smallest normal one is raised to it."""
        steps = 2**self.grid.fraction_bits
        fraction = self.random.integers(0, steps, exponents.shape)
        significands = (steps + fraction) * self._draw_signs(exponents.shape) / steps
        return np.ldexp(significands, np.maximum(exponents, self.grid.least))

    def _finish(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Sample:
        """Operands rounded to their formats, c to the result's."""
        a, b = (_round_to_grid(array, self.grid) for array in (a, b))
        return Sample(a, b, _round_to_grid(c, GRIDS[self.result]))


def _round_to_grid(values: np.ndarray, grid: Grid) -> np.ndarray:
    """By the libraries' own casts; what does not fit the unused bits of a wider dtype is cut off."""
    held = values.astype(np.float32).astype(grid.dtype)
    if grid.unused:
        held = (held.view(np.uint32) >> grid.unused << grid.unused).view(np.float32)
    return held.astype(np.float32)
