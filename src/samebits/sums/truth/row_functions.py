"""The truth of functions of rows: every output correctly rounded from the exact value of the function.

Each output of a format narrower than float64 is computed in float64 with a bound of its error; where both ends of the
interval round to one number, that is the output. The others, and all of float64, are computed again: norms and
rotations in fractions, whose roots are taken to 400 bits, exponentials and erf in decimals of 80 digits and more. A
rational value that lies in the middle of two numbers is seen exactly; that an irrational one comes nearer to a middle
than 10^-60 of itself is taken to be impossible.

The bounds, with u = 2^-53 and n numbers in a row: exp of NumPy and erfc of the C library are allowed 64 u of themselves
(glibc's documents 1 and 5 units in the last place), a sum in any order n u of its magnitudes.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from samebits.errors import ResourceLimitError
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import Format, code_dtype, find_format, numpy_dtype
from samebits.problems.row_functions import RowFunction, check_row_operands, find_distances, join_pairs, take_pairs
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.memory import count_available_bytes
from samebits.sums.truth.convolution import round_all_to_nearest
from samebits.sums.truth.rounding import Codes, codes_of_format, encode_fraction

Floats = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_FUNCTION_UNITS = 64.0
# What float64's own underflow may lose.
_LEAST = 2.0**-1000
_DIGITS, _ROOT_BITS = 80, 400
# Enough for nearly all; a sum of rounded terms may lose the spare ones.
_FEW_DIGITS, _SPARE_DIGITS = 28, 12
# Rows are enclosed so many numbers at a time.
_TILE_NUMBERS = 2**22
# Of float64 every output takes microseconds of whole-number arithmetic.
_MOST_FLOAT64 = 2**21
_BYTES_PER_NUMBER, _SMALL_BYTES = 150, 2**28
_CUBIC = Fraction(44715, 1_000_000)
# gelu of less is below half the least number of float64.
_LOWEST_GELU = -40.0
_TINY = 1e-30


@dataclass(frozen=True)
class RowTruth:
    """The correctly rounded result, and how many outputs were settled in which way."""

    values: np.ndarray
    settled: dict[str, int]


@default_float_environment()
def compute_row_function(
    asked: RowFunction, operands: Mapping[str, np.ndarray], *, progress: Progress = ignore_progress
) -> RowTruth:
    """Every output of a row function, rounded once to nearest even; 0 where it is 0 / 0.

    Operands of shape and dtype as the problem says; the result has x's shape and dtype. Raises OperandError, and
    ResourceLimitError for more float64 than is computed exactly.

    >>> import numpy as np
    >>> from samebits.problems.row_functions import parse_row_function
    >>> compute_row_function(parse_row_function("softmax x=2"), {"x": np.float32([3, 3])}).values.tolist()
    [0.5, 0.5]
    """
    arrays = check_row_operands(asked, operands)
    check_rows_fit(asked)
    format_ = find_format(asked.dtype)
    rows = asked.to_rows(arrays["x"]).astype(np.float64)
    given = {name: array.astype(np.float64) for name, array in arrays.items() if name != "x"}
    values = np.zeros(rows.shape, numpy_dtype(asked.dtype))
    exact = 0
    step = max(_TILE_NUMBERS // rows.shape[1], 1)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        found, is_open = _settle_in_float64(asked, rows[part], given, first)
        if asked.kind == "softmax":
            # A row in which all is hidden is 0 / 0.
            is_empty = np.isneginf(rows[part]).all(axis=1)
            found[is_empty], is_open[is_empty] = 0, False
        values[part] = found
        exact += int(is_open.sum())
        for row in np.flatnonzero(is_open.any(axis=1)):
            progress("computing the truth", (first + int(row)) / len(rows))
            columns = np.flatnonzero(is_open[row])
            values[first + row, columns] = _settle(asked, rows[first + row], given, first + int(row), columns, format_)
    return RowTruth(asked.from_rows(values), {"float64": values.size - exact, "exact": exact})


def check_rows_fit(asked: RowFunction) -> None:
    """Raises ResourceLimitError for more outputs than are computed, or than fit in memory with what judges them."""
    size = math.prod(asked.x)
    needed = _BYTES_PER_NUMBER * size
    if needed > _SMALL_BYTES and needed > 0.8 * count_available_bytes():
        raise ResourceLimitError(
            f"{asked.kind} of {size:,} numbers needs about {needed / 2**30:.0f} GiB, more than is free"
        )
    if asked.dtype == "float64" and size > _MOST_FLOAT64:
        raise ResourceLimitError(f"{size:,} outputs in float64 are not computed exactly, at most {_MOST_FLOAT64:,}")


def compute_in_float64(asked: RowFunction, operands: Mapping[str, Floats]) -> Floats:
    """The function in float64 of operands in float64, of x's shape; not correctly rounded."""
    given = {name: array for name, array in operands.items() if name != "x"}
    with np.errstate(all="ignore"):
        return asked.from_rows(_ENCLOSE[asked.kind](asked, asked.to_rows(operands["x"]), given, 0)[0])


def _settle_in_float64(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], first: int
) -> tuple[np.ndarray, npt.NDArray[np.bool_]]:
    """Outputs rounded from float64, and which of them that leaves open."""
    if asked.dtype == "float64":
        return np.zeros_like(rows), np.ones(rows.shape, bool)
    with np.errstate(all="ignore"):
        values, error = _ENCLOSE[asked.kind](asked, rows, given, first)
        ends = [_round(end, asked.dtype) for end in (values - error, values + error)]
        same = (ends[0].astype(np.float64) == ends[1].astype(np.float64)) & np.isfinite(error) & np.isfinite(values)
        # A zero has the sign that the value has.
        is_signed = (np.abs(values) > error) | (asked.kind == "softmax")
        found = np.where(values < 0, -np.abs(ends[0]), np.abs(ends[0]))
    return found, ~same | ((found == 0) & ~is_signed)


def _round(values: Floats, format_name: str) -> np.ndarray:
    return round_all_to_nearest(values.ravel(), format_name).reshape(values.shape)


def _enclose_softmax(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], first: int
) -> tuple[Floats, Floats]:
    distances = find_distances(rows)
    weights = np.exp(-distances)
    sums = weights.sum(axis=1, keepdims=True)
    mean = (weights * distances).sum(axis=1, keepdims=True) / sums
    values = weights / sums
    share = _UNIT * (distances + 2 * mean + 2 * _FUNCTION_UNITS + rows.shape[1] + 8)
    return values, 1.1 * share * values + _LEAST


def _enclose_norm(asked: RowFunction, rows: Floats, given: Mapping[str, Floats], first: int) -> tuple[Floats, Floats]:
    length = rows.shape[1]
    weight = given["weight"].ravel() if asked.has_weight else 1.0
    bias = given["bias"].ravel() if asked.has_bias else 0.0
    scattered, off = rows, np.zeros((len(rows), 1))
    if asked.kind == "layernorm":
        mean = rows.mean(axis=1, keepdims=True)
        off = (length + 4) * _UNIT * np.abs(rows).mean(axis=1, keepdims=True)
        scattered = rows - mean
        off = off + _UNIT * np.abs(rows).max(axis=1, keepdims=True)
    variance = (scattered**2).mean(axis=1, keepdims=True)
    missed = 2 * off * np.abs(scattered).mean(axis=1, keepdims=True) + off**2 + (length + 8) * _UNIT * variance
    root = np.sqrt(variance + asked.eps)
    share = missed / (variance + asked.eps) + 8 * _UNIT
    share[~(share < 0.1)] = np.nan
    values = scattered / root * weight
    error = np.abs(weight) / root * (off + 2 * _UNIT * np.abs(scattered)) + 1.2 * share * np.abs(values)
    return values + bias, 1.1 * error + 4 * _UNIT * (np.abs(values) + np.abs(bias)) + _LEAST


def _enclose_gelu(asked: RowFunction, rows: Floats, given: Mapping[str, Floats], first: int) -> tuple[Floats, Floats]:
    if asked.approximate == "tanh":
        bent = 2 * math.sqrt(2 / math.pi) * (rows + float(_CUBIC) * rows**3)
        falling = np.exp(-bent)
        values = np.where(np.isinf(falling), -0.0, rows / (1 + falling))
        share = _UNIT * (8 + 12 * np.abs(bent) + _FUNCTION_UNITS)
    else:
        at = -rows / math.sqrt(2)
        falling = np.array([math.erfc(z) for z in at.ravel()]).reshape(at.shape)
        values = 0.5 * rows * falling
        share = _UNIT * (8 + 4 * (2 * at**2 + 2) + _FUNCTION_UNITS)
    return values, 1.1 * share * np.abs(values) + _LEAST


def _enclose_rope(asked: RowFunction, rows: Floats, given: Mapping[str, Floats], first: int) -> tuple[Floats, Floats]:
    a, b, cos, sin = take_pairs(asked, rows, given, first)
    # Products of two numbers of 24 digits are exact in float64.
    values = join_pairs(asked, a * cos - b * sin, b * cos + a * sin)
    return values, 2 * _UNIT * np.abs(values)


_ENCLOSE: dict[str, Callable[[RowFunction, Floats, Mapping[str, Floats], int], tuple[Floats, Floats]]] = {
    "softmax": _enclose_softmax,
    "layernorm": _enclose_norm,
    "rmsnorm": _enclose_norm,
    "gelu": _enclose_gelu,
    "rope": _enclose_rope,
}


def _settle(
    asked: RowFunction,
    row: Floats,
    given: Mapping[str, Floats],
    number: int,
    columns: npt.NDArray[np.intp],
    format_: Format,
) -> np.ndarray:
    """Some outputs of one row, from exact numbers, or from enough digits."""
    if asked.kind in ("softmax", "gelu"):
        codes = _settle_by_digits(asked, row, columns, codes_of_format(format_))
    else:
        if asked.kind == "rope":
            found = _find_rotated(asked, row, given, number, columns)
        else:
            found = _find_normalized(asked, row, given, columns)
        codes = [encode_fraction(value, codes_of_format(format_)) for value in found]
    return np.array(codes, np.uint64).astype(code_dtype(format_)).view(numpy_dtype(format_.name))


def _settle_by_digits(asked: RowFunction, row: Floats, columns: npt.NDArray[np.intp], codes: Codes) -> list[int]:
    """Codes of exponentials: first from few digits, where both ends of what these leave are one number."""

    def find(chosen: npt.NDArray[np.intp], digits: int) -> list[Fraction]:
        if asked.kind == "softmax":
            return _find_softmax(row, chosen, digits)
        find_one = _find_tanh_gelu if asked.approximate == "tanh" else _find_gelu
        return [find_one(float(row[i]), digits) for i in chosen]

    off = Fraction(1, 10**_FEW_DIGITS)
    near = find(columns, _FEW_DIGITS + _SPARE_DIGITS)
    ends = [(encode_fraction(v * (1 - off), codes), encode_fraction(v * (1 + off), codes)) for v in near]
    found = [low for low, _ in ends]
    is_open = [i for i, (low, high) in enumerate(ends) if low != high]
    for i, value in zip(is_open, find(columns[is_open], _DIGITS) if is_open else [], strict=True):
        found[i] = encode_fraction(value, codes)
    return found


def _find_rotated(
    asked: RowFunction, row: Floats, given: Mapping[str, Floats], number: int, columns: npt.NDArray[np.intp]
) -> list[Fraction]:
    a, b, cos, sin = (part[0] for part in take_pairs(asked, row[None], given, number))
    half = len(a)

    def rotate(i: int) -> Fraction:
        pair, is_second = (i // 2, i % 2) if asked.interleaved else (i % half, i // half)
        x, y, c, s = (Fraction(float(part[pair])) for part in (a, b, cos, sin))
        return y * c + x * s if is_second else x * c - y * s

    return [rotate(int(i)) for i in columns]


def _find_normalized(
    asked: RowFunction, row: Floats, given: Mapping[str, Floats], columns: npt.NDArray[np.intp]
) -> list[Fraction]:
    numbers = [Fraction(float(x)) for x in row]
    count = len(numbers)
    mean = sum(numbers, Fraction(0)) / count if asked.kind == "layernorm" else Fraction(0)
    variance = sum(((x - mean) ** 2 for x in numbers), Fraction(0)) / count + Fraction(asked.eps)
    root = _take_root(variance)
    weight = given["weight"].ravel() if asked.has_weight else None
    bias = given["bias"].ravel() if asked.has_bias else None
    found: list[Fraction] = []
    for i in columns:
        # A row of equal numbers without eps is 0 / 0; nobody can say more of it than that nothing scatters.
        value = (numbers[i] - mean) / root if root else Fraction(0)
        value = value * Fraction(float(weight[i])) if weight is not None else value
        found.append(value + Fraction(float(bias[i])) if bias is not None else value)
    return found


def _take_root(value: Fraction) -> Fraction:
    """The square root: exact where it is rational, else to `_ROOT_BITS` bits."""
    numerator, denominator = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if numerator**2 == value.numerator and denominator**2 == value.denominator:
        return Fraction(numerator, denominator)
    shift = max(2 * _ROOT_BITS - value.numerator.bit_length() + value.denominator.bit_length(), 0)
    shift += shift % 2
    return Fraction(math.isqrt((value.numerator << shift) // value.denominator), 1 << (shift // 2))


def _find_softmax(row: Floats, columns: npt.NDArray[np.intp], digits: int) -> list[Fraction]:
    with decimal.localcontext(_make_context(digits)) as context:
        largest = Decimal(float(row.max()))
        # What is hidden behind -inf has no weight.
        weights = [context.exp(context.subtract(Decimal(float(x)), largest)) for x in row]
        total = Decimal(0)
        for weight in weights:
            total += weight
        return [Fraction(weights[i] / total) for i in columns]


def _find_tanh_gelu(x: float, digits: int) -> Fraction:
    """x / (1 + exp(-2 t)), t = sqrt(2 / pi) (x + 0.044715 x^3)."""
    if (easy := _find_easy_gelu(x)) is not None:
        return easy
    with decimal.localcontext(_make_context(digits)):
        number = Decimal(x)
        cubic = Decimal(_CUBIC.numerator) / Decimal(_CUBIC.denominator)
        bent = (Decimal(2) / find_pi(digits)).sqrt() * (number + cubic * number**3)
        return Fraction(number / (1 + (-2 * bent).exp()))


def _find_easy_gelu(x: float) -> Fraction | None:
    """Either gelu of 0 and of what is very small or large; None of others."""
    if x < _LOWEST_GELU or (x == 0 and math.copysign(1, x) < 0):
        # Less than half the least number of any format, and negative; and -0, which keeps its sign.
        return Fraction(-1, 2**2000)
    if x == 0 or x > -_LOWEST_GELU:
        # Less than x by 10^-340 of it.
        return Fraction(x)
    if abs(x) < _TINY:
        # x / 2, and x^2 / sqrt(2 pi) more: less than any step, but it decides ties.
        return Fraction(x) / 2 * (1 + Fraction(1 if x > 0 else -1, 10**40))
    return None


def _find_gelu(x: float, digits: int) -> Fraction:
    """x (1 + erf(x / sqrt 2)) / 2."""
    if (easy := _find_easy_gelu(x)) is not None:
        return easy
    # 1 + erf loses the digits of exp(-x^2 / 2).
    digits += math.ceil(x * x / 2 / math.log(10)) if x < 0 else 0
    with decimal.localcontext(_make_context(digits)):
        number = Decimal(x)
        at = number / Decimal(2).sqrt()
        return Fraction(number * (1 + _erf(at, digits)) / 2)


def _erf(at: Decimal, digits: int) -> Decimal:
    """2 / sqrt(pi) exp(-z^2) sum 2^k z^(2k+1) / (2k+1)!!: a series of one sign (Abramowitz and Stegun, 7.1.6)."""
    term = total = at
    k, least = 0, Decimal(10) ** (-digits - 5)
    while abs(term) > least * abs(total):
        k += 1
        term = term * 2 * at * at / (2 * k + 1)
        total += term
    return 2 / find_pi(digits).sqrt() * (-at * at).exp() * total


@cache
def find_pi(digits: int) -> Decimal:
    """pi = 16 atan(1/5) - 4 atan(1/239), Machin's formula, in whole numbers."""
    one = 10 ** (digits + 10)

    def atan(inverse: int) -> int:
        power = total = one // inverse
        k, sign = 1, -1
        while power:
            power //= inverse * inverse
            k += 2
            total += sign * (power // k)
            sign = -sign
        return total

    with decimal.localcontext(_make_context(digits + 5)):
        return Decimal(16 * atan(5) - 4 * atan(239)) / Decimal(one)


def _make_context(digits: int) -> decimal.Context:
    return decimal.Context(prec=digits + 10, Emin=-(10**6), Emax=10**6, traps=[])
