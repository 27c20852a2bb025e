"""Correctly rounded sums of products in integers, for `truth_sweep.py`: no code of the truth's, no float arithmetic.

Operands are integers times powers of two, read from their bits; products are listed one by one by the definition of the
problem; sums are kept in 64-bit limbs by NumPy, joined to Python's integers and rounded there, once, ties to even.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from samebits.problems import Problem

Integers = npt.NDArray[np.int64]


class Layout(NamedTuple):
    """The bits of a format: after IEEE 754, and for float8 the OCP 8-bit floating point specification, revision 1.0."""

    exponent_bits: int
    fraction_bits: int
    has_infinity: bool = True

    @property
    def lowest(self) -> int:
        """Exponent of the smallest subnormal number."""
        return 2 - 2 ** (self.exponent_bits - 1) - self.fraction_bits

    @property
    def largest(self) -> int:
        """The code of the largest number."""
        codes = 2 ** (self.exponent_bits + self.fraction_bits)
        return codes - 2 if not self.has_infinity else codes - 2**self.fraction_bits - 1

    @property
    def highest(self) -> int:
        """e such that the largest number lies in [2^e, 2^(e+1))."""
        return (self.largest >> self.fraction_bits) - 1 + self.lowest + self.fraction_bits


LAYOUTS = {
    "float64": Layout(11, 52),
    "float32": Layout(8, 23),
    "bfloat16": Layout(8, 7),
    "float16": Layout(5, 10),
    "float8_e4m3fn": Layout(4, 3, has_infinity=False),
    "float8_e5m2": Layout(5, 2),
}
# What became of an output. Near a tie: no more than 2^-9 units in the last place away from it, subnormal or not.
OUTCOMES = (
    "exact", "rounded", "tie", "near a tie", "subnormal", "subnormal tie", "exact zero", "underflow", "overflow",
    "infinity or NaN among the terms", "no product",
)  # fmt: skip
EXACT, ROUNDED, TIE, NEAR_TIE, SUBNORMAL, SUBNORMAL_TIE, ZERO, UNDERFLOW, OVERFLOW, SPECIAL, EMPTY = range(11)
# Numbers that one block of sums may take: 64 MiB.
_LARGEST_BLOCK = 2**23


@dataclass(frozen=True)
class Products:
    """Which elements of the two operands (flat) meet in which output; the bias stands at the end of the first one."""

    outputs: int
    target: Integers
    first: Integers
    second: Integers
    reached: npt.NDArray[np.bool_]


class Reference(NamedTuple):
    """The bits of every output, flat, and what became of it (an index into OUTCOMES)."""

    codes: npt.NDArray[np.uint64]
    outcomes: npt.NDArray[np.uint8]


def compute_reference(problem: Problem, operands: dict[str, np.ndarray]) -> Reference:
    """Every output of a problem without epilogue, from integers alone."""
    products = list_products(problem)
    first_name, second_name = name_factors(problem)
    first, second = operands[first_name].ravel(), operands[second_name].ravel()
    if problem.bias:
        first = np.concatenate([first, operands["bias"]])
        second = np.concatenate([second, np.ones(1, second.dtype)])
    layout = LAYOUTS[problem.out]
    codes = np.zeros(products.outputs, np.uint64)
    outcomes = np.full(products.outputs, ZERO, np.uint8)
    sums, unit = _add_exactly(products, _split(first, problem.dtype), _split(second, problem.dtype))
    for n, value in enumerate(sums):
        if value:
            codes[n], outcomes[n] = round_integer(value, unit, layout)
    _put_special_values(products, first, second, layout, codes, outcomes)
    outcomes[~products.reached] = EMPTY
    return Reference(codes, outcomes)


def name_factors(problem: Problem) -> tuple[str, str]:
    """The two operands whose elements are multiplied."""
    return {"forward": ("w", "x"), "grad_input": ("w", "dy"), "grad_weight": ("dy", "x")}[problem.direction]


def list_terms(problem: Problem, operands: dict[str, np.ndarray], output: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of numbers that one output (its flat index) adds up, the bias as a product with one at the end."""
    products = list_products(problem)
    mine = products.target == output
    first, second = (operands[name].ravel() for name in name_factors(problem))
    if problem.bias:
        first = np.concatenate([first, operands["bias"]])
        second = np.concatenate([second, np.ones(1, second.dtype)])
    return first[products.first[mine]], second[products.second[mine]]


def list_products(problem: Problem) -> Products:
    """All products of a problem that are not with padding."""
    return _list_products(problem.direction, problem.is_transposed, problem.x, problem.w, problem.groups,
                          problem.bias, problem.axes, problem.out_shape)  # fmt: skip


@lru_cache(maxsize=128)
def _list_products(direction, is_transposed, x, w, groups, bias, axes, out_shape) -> Products:
    """S (whose index the stride multiplies), L and W meet where l = s * stride - pad + tap * dilation."""
    at = [np.zeros(1, np.int64)] * 3
    volumes = [1, 1, 1]
    for axis in axes:
        s, tap = np.divmod(np.arange(axis.size_small * axis.kernel), axis.kernel)
        large = s * axis.stride - axis.pad_begin + tap * axis.dilation
        inside = (large >= 0) & (large < axis.size_large)
        here = (s[inside], large[inside], tap[inside])
        sizes = (axis.size_small, axis.size_large, axis.kernel)
        at = [np.add.outer(a * size, b).ravel() for a, b, size in zip(at, here, sizes, strict=True)]
        volumes = [v * size for v, size in zip(volumes, sizes, strict=True)]
    per_group, depth = w[0] // groups, w[1]
    n, g, s, c = (i.ravel() for i in np.indices((x[0], groups, per_group, depth)))
    channels = ((n * groups + g) * per_group + s, (n * groups + g) * depth + c, (g * per_group + s) * depth + c)
    flat = [np.add.outer(a * v, b).ravel() for a, v, b in zip(channels, volumes, at, strict=True)]
    y, x_index = (flat[1], flat[0]) if is_transposed else (flat[0], flat[1])
    target, first, second = {
        "forward": (y, flat[2], x_index),
        "grad_input": (x_index, flat[2], y),
        "grad_weight": (flat[2], y, x_index),
    }[direction]
    outputs = int(np.prod(out_shape))
    reached = np.zeros(outputs, bool)
    reached[target] = True
    if bias:
        every = np.arange(outputs)
        channel = every // int(np.prod(out_shape[2:])) % out_shape[1]
        target = np.concatenate([target, every])
        first = np.concatenate([first, int(np.prod(w)) + channel])
        second = np.concatenate([second, np.full(outputs, int(np.prod(x)))])
    return Products(outputs, target, first, second, reached)


def _split(array: np.ndarray, name: str) -> list[tuple[Integers, Integers]]:
    """A format's numbers as sums of integer * 2^exponent, the integers below 2^27; 0 for infinities and NaN."""
    layout = LAYOUTS[name]
    codes = array.view(f"u{array.dtype.itemsize}").astype(np.int64)
    width = 8 * array.dtype.itemsize
    magnitude = codes & ((1 << (width - 1)) - 1)
    field = magnitude >> layout.fraction_bits
    significand = magnitude & ((1 << layout.fraction_bits) - 1)
    significand |= np.where(field > 0, np.int64(1) << layout.fraction_bits, 0)
    significand[magnitude > layout.largest] = 0
    signs = np.where((codes >> (width - 1)) & 1, -1, 1)
    exponents = np.maximum(field, 1) - 1 + layout.lowest
    if name != "float64":
        return [(signs * significand, exponents)]
    return [(signs * (significand & (2**27 - 1)), exponents), (signs * (significand >> 27), exponents + 27)]


def _add_exactly(products: Products, first: list, second: list) -> tuple[list[int], int]:
    """The sum of every output as a Python integer, and the exponent of its unit."""
    present = [[e[m != 0] for m, e in pieces if m.any()] for pieces in (first, second)]
    if not all(present):
        return [0] * products.outputs, 0
    lowest = sum(int(min(e.min() for e in exponents)) for exponents in present)
    highest = sum(int(max(e.max() for e in exponents)) for exponents in present)
    # A product shifted to a limb's place stays below 2^63: 24 + 24 bits by up to 15, or 27 + 27 bits by up to 7.
    pitch = 16 if len(first) == 1 else 8
    # 54 bits of a product, 32 of their number and a sign above the highest exponent.
    limbs = (highest - lowest + 54 + 32 + 1) // pitch + 2
    per_block = max(1, _LARGEST_BLOCK // limbs)
    sums: list[int] = []
    for begin in range(0, products.outputs, per_block):
        end = min(begin + per_block, products.outputs)
        mine = slice(None)
        if end - begin < products.outputs:
            mine = np.flatnonzero((products.target >= begin) & (products.target < end))
        where = products.target[mine] - begin, products.first[mine], products.second[mine]
        total = np.zeros((limbs, end - begin), np.int64)
        for a in first:
            for b in second:
                _add_products(total, where, a, b, lowest, pitch)
        sums += _join_limbs(total, pitch)
    return sums, lowest


def _add_products(total: Integers, where: tuple, a: tuple, b: tuple, lowest: int, pitch: int) -> None:
    """Adds every product to the limbs of its output, in two halves of 32 bits (the upper one with the sign)."""
    target, first, second = where
    significand = a[0][first] * b[0][second]
    shift = a[1][first] + b[1][second] - lowest
    kept = significand != 0
    target, significand, shift = target[kept], significand[kept], shift[kept]
    limb, places = np.divmod(shift, pitch)
    significand <<= places
    cells = total.reshape(-1)
    np.add.at(cells, limb * total.shape[1] + target, significand & 0xFFFFFFFF)
    np.add.at(cells, (limb + 32 // pitch) * total.shape[1] + target, significand >> 32)


def _join_limbs(total: Integers, pitch: int) -> list[int]:
    """Carries settled, limb by limb; then each column is the two's complement of its number."""
    for lower, upper in itertools.pairwise(total):
        upper += lower >> pitch
        lower &= 2**pitch - 1
    text = total.astype(f"<i{pitch // 4}").astype(f"<u{pitch // 8}").T.tobytes()
    width = total.shape[0] * pitch // 8
    return [int.from_bytes(text[i : i + width], "little", signed=True) for i in range(0, len(text), width)]


def round_integer(value: int, unit: int, layout: Layout) -> tuple[int, int]:
    """The code nearest to value * 2^unit, ties to even, and what became of it."""
    magnitude = abs(value)
    sign = (value < 0) << (layout.exponent_bits + layout.fraction_bits)
    last_place = max(magnitude.bit_length() - 1 + unit - layout.fraction_bits, layout.lowest)
    dropped = last_place - unit
    if dropped <= 0:
        kept, rest, half = magnitude << -dropped, 0, 1
    else:
        kept, half = magnitude >> dropped, 1 << (dropped - 1)
        rest = magnitude - (kept << dropped)
        kept += rest > half or (rest == half and kept & 1)
    # kept has the leading bit that a normal number's fraction does not: it carries into the exponent.
    code = ((last_place - layout.lowest) << layout.fraction_bits) + kept
    if code > layout.largest:
        return (layout.largest + 1) | sign, OVERFLOW
    outcome = EXACT if rest == 0 else TIE if rest == half else ROUNDED
    if outcome == ROUNDED and abs(rest - half) << 8 <= half:
        outcome = NEAR_TIE
    if code < 1 << layout.fraction_bits:
        outcome = SUBNORMAL_TIE if outcome == TIE else outcome if outcome == NEAR_TIE else SUBNORMAL
        outcome = UNDERFLOW if code == 0 and outcome == SUBNORMAL else outcome
    return code | sign, outcome


def _put_special_values(
    products: Products, first: np.ndarray, second: np.ndarray, layout: Layout, codes: np.ndarray, outcomes: np.ndarray
) -> None:
    """Where a term is infinite or NaN: NaN if any is or if infinities of both signs meet, else the infinity."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    if np.isfinite(a).all() and np.isfinite(b).all():
        return
    with np.errstate(all="ignore"):
        # Of finite factors only the finiteness and the sign count: neither may overflow.
        a, b = (np.where(np.isfinite(v), np.sign(v), v) for v in (a, b))
        terms = a[products.first] * b[products.second]
    nan, up, down = (
        np.bincount(products.target, weights=found, minlength=products.outputs) > 0
        for found in (np.isnan(terms), terms == np.inf, terms == -np.inf)
    )
    outcomes[nan | up | down] = SPECIAL
    sign = np.uint64(1 << (layout.exponent_bits + layout.fraction_bits))
    infinity = np.uint64(layout.largest + 1)
    codes[up], codes[down] = infinity, infinity | sign
    quiet = 0 if not layout.has_infinity else 1 << (layout.fraction_bits - 1)
    codes[nan | (up & down)] = infinity | np.uint64(quiet)
