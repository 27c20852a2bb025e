"""Runners in plain NumPy that add the products of a small convolution in a known way, for probes to find it out.

Which products an output adds is listed by the definition of the convolution (`exact_terms`), not by the package.
"""

from __future__ import annotations

import functools
import math

import ml_dtypes
import numpy as np

from exact_terms import list_terms
from samebits.engines.runner import Identity
from samebits.errors import EngineRaised
from samebits.numbers import numpy_dtype


@functools.lru_cache(maxsize=32)
def index_terms(problem):
    """Of every output (row) and term (column) the flat index into both operands, rows operand first; -1: no term.

    Terms are numbered by the definition: channel then tap; in gradients of weights batch item then output position.
    """
    listed = list_terms(problem)
    small = "x" if problem.is_transposed else "dy"
    forward = problem.direction == "forward"
    names = (
        ("w", "x" if forward else "dy") if problem.direction != "grad_weight" else (small, {"x": "dy"}.get(small, "x"))
    )
    shapes = problem.operand_shapes
    gathers = forward != problem.is_transposed
    rows = problem.w[0] // problem.groups
    spatial = shapes[small][2:] if problem.direction == "grad_weight" else problem.w[2:]
    depth = problem.x[0] if problem.direction == "grad_weight" else problem.w[1] if gathers else rows
    count = depth * math.prod(spatial)
    table = np.full((2, len(listed), count), -1, np.int64)
    for output, terms in enumerate(listed.values()):
        for term in terms:
            own = term[names[0]]
            first = own[0] if problem.direction == "grad_weight" else own[1] if gathers else own[0] % rows
            number = int(np.ravel_multi_index((first, *own[2:]), (depth, *spatial)))
            for side, name in enumerate(names):
                table[side, output, number] = np.ravel_multi_index(term[name], shapes[name])
    return names, table


def round_to_odd(a, b):
    """a + b in float64 with the last bit set where anything was cut off, so that rounding on is rounding once."""
    total = a + b
    other = total - a
    lost = (a - (total - other)) + (b - other)
    even = total.view(np.int64) % 2 == 0
    cut = np.isfinite(total) & (lost != 0) & even
    return np.where(cut, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)


def keep_bits(count, how=np.rint):
    """Rounding to so many significant bits without limits of range: nearest even, or `np.trunc` toward zero."""

    def round_(values):
        significand, exponent = np.frexp(values)
        return np.ldexp(how(np.ldexp(significand, count)), exponent - count)

    return round_


def to_dtype(dtype):
    """Rounding float64 values to a NumPy dtype."""

    def round_(values):
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(np.float64)

    return round_


to_float32, to_float16 = to_dtype(np.float32), to_dtype(np.float16)


def to_float64(values):
    """Sums kept in float64 (those of NumPy itself)."""
    return values


def cut_float32(bits):
    """float32 values without their last so many bits, as hardware that truncates operands reads them."""

    def round_(values):
        codes = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
        return codes.view(np.float32).astype(np.float64)

    return round_


to_bfloat16_cut, to_tf32_cut = cut_float32(16), cut_float32(13)


def to_bfloat16_if_odd(values):
    """What is kept goes up by half of the upper bits' last one where that is set: OpenVINO's class of numbers."""
    codes = values.astype(np.float32).view(np.uint32)
    codes = (codes + ((codes & np.uint32(0x10000)) >> np.uint32(1))) & np.uint32(0xFFFF0000)
    return codes.view(np.float32).astype(np.float64)


def flush(values):
    """Values below the smallest normal float32 taken for zero."""
    return np.where(np.abs(values) < 2.0**-126, 0.0, values)


class PlainRunner:
    """Adds float64 products in a tree of tuples and rounds after every addition; counts its calls.

    `tree` (None: all terms left to right) holds term numbers; a tuple is summed left to right; a frozenset of two terms
    is added with one rounding. `fused` adds a later product unrounded, `reversed_` the first two products the other way
    round. `reads` rounds operands by name; `bias` is first, last, rounded, or a number of terms after which it joins
    the outermost sum.
    """

    def __init__(
        self, tree=None, *, accumulator=to_float32, fused=False, reads=None, bias="last", result=None,
        padding="skipped", start=0.0, reversed_=False, clip=None,
    ):  # fmt: skip
        self.tree, self.accumulator, self.fused, self.reads = tree, accumulator, fused, reads or {}
        self.bias, self.result, self.padding, self.start = bias, result or (lambda v: v), padding, start
        self.reversed, self.clip = reversed_, clip or clip_keeping_nan
        self.text, self.calls = "plain", 0

    def identify(self):
        return Identity(self.text, self.text, "0", "CPU")

    def close(self):
        return

    def run(self, problem, operands):
        self.calls += 1
        with np.errstate(all="ignore"):
            sums = self.sum(problem, {n: a.astype(np.float64) for n, a in operands.items()})
            return self.result(sums).reshape(problem.out_shape).astype(numpy_dtype(problem.out))

    def sum(self, problem, operands):
        """Finished sums in float64, flat."""
        (rows, source), table = index_terms(problem)
        read = {n: self.reads.get(n, self.reads.get("all", lambda v: v))(a) for n, a in operands.items()}
        a, b = (read[n].reshape(-1)[table[i]] for i, n in enumerate((rows, source)))
        exists = table[0] >= 0
        if self.padding == "multiplied":
            a = np.where(exists, a, self._find_missing_rows(problem, read[rows], table[0]))
        else:
            a = np.where(exists, a, 0.0)
        products = a * np.where(exists, b, 0.0)
        tree = tuple(range(products.shape[1])) if self.tree is None else self.tree
        bias = 0.0
        if problem.bias:
            channel = np.arange(len(products)) // math.prod(problem.out_shape[2:]) % problem.c_out
            bias = operands["bias"][channel]
        sums = self._add_tree(tree, products, bias if self.bias == "first" else self.start, bias)
        if problem.bias and self.bias == "last":
            sums = self.accumulator(sums + bias)
        if problem.bias and self.bias == "rounded":
            sums = self.accumulator(to_dtype(numpy_dtype(problem.out))(sums) + bias)
        return sums if problem.then is None else self.clip(sums, problem.then.low, problem.then.high)

    def _find_missing_rows(self, problem, rows, table):
        """What a term that is not there would have been multiplied with: another position's factor of the same row."""
        outputs = table.reshape(*problem.out_shape[:2], -1, table.shape[1])
        best = outputs.max(axis=2, keepdims=True)
        return rows.reshape(-1)[np.broadcast_to(best, outputs.shape).reshape(table.shape)]

    def _add_tree(self, tree, products, start, bias=0.0):
        total = np.broadcast_to(np.float64(start), len(products)).copy()
        for number, item in enumerate(tree):
            if isinstance(item, (int, np.integer)):
                total = self._add_term(total, products[:, item])
            elif isinstance(item, frozenset):
                one, two = (products[:, i] for i in sorted(item))
                total = self._add(total, round_to_odd(one, two))
            else:
                inner = self._add_tree(item, products, 0.0)
                total = self.accumulator(total + inner) if number else inner
            if self.reversed and number == 1:
                total = self._add(products[:, tree[0]], self.accumulator(products[:, tree[1]]))
            if self.bias == number + 1:
                total = self.accumulator(total + bias)
        return total

    def _add_term(self, total, product):
        return self._add(total, product if self.fused else self.accumulator(product))

    def _add(self, total, value):
        return total + value if self.accumulator is to_float64 else self.accumulator(round_to_odd(total, value))


class NanRunner(PlainRunner):
    """Returns NaN everywhere."""

    def run(self, problem, operands):
        self.calls += 1
        return np.full(problem.out_shape, np.nan, numpy_dtype(problem.out))


class FailingRunner(PlainRunner):
    """Raises from its call number `at` on."""

    def __init__(self, at=1):
        super().__init__()
        self.at = at

    def run(self, problem, operands):
        if self.calls + 1 >= self.at:
            self.calls += 1
            raise EngineRaised("out of order")
        return super().run(problem, operands)


def clip_keeping_nan(values, low, high):
    """min(max(values, low), high), NaN staying NaN."""
    return np.minimum(np.maximum(values, low), high)


def clip_losing_nan(values, low, high):
    """The same with C's fmin and fmax, which return the number where the other is NaN."""
    return np.fmin(np.fmax(values, low), high)


def round_to_bfloat16(values):
    """Nearest even, as ml_dtypes rounds."""
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
