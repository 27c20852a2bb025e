"""Compiled rounding of float64 values and sums to narrower formats, in any mode; the fast form of formats.scalar.

A sum of two float64 numbers is first rounded to odd: if it is inexact, its last bit is set. Rounding that to a format
of at most 51 bits gives what rounding the exact sum gives, in every mode (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", IEEE Trans. Computers 2008, theorem 2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from samebits.numbers.format import Format
from samebits.numbers.scalar import MODES
from samebits.sums.tiles.compiled_cache import compiled

_EVEN, _AWAY, _ZERO, _UP, _DOWN, _IF_ODD = range(6)
_FRACTION = 52
_MASK = (1 << 52) - 1
# What flushing hardware takes for subnormal, whatever the format a value is kept in.
_LEAST_NORMAL32 = 2.0**-126


class Target(NamedTuple):
    """A format and a mode as the kernels read them."""

    drop: int  # fraction bits of float64 that the format lacks
    least_exponent: int  # biased float64 exponent of its smallest normal number
    largest: float
    beyond: float  # what overflow to nearest gives
    mode: int
    flushes: bool


def make_target(format_: Format, mode: str, *, flushes: bool = False) -> Target:
    """The target of a format of at most float32's precision."""
    return Target(
        _FRACTION - format_.fraction_bits,
        format_.smallest_normal_exponent + 1023,
        float(format_.largest),
        float("inf") if format_.has_infinity else float("nan"),
        MODES.index(mode),
        flushes,
    )


def _fused32(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float32, rounded once."""
    return types.float32(types.float32, types.float32, types.float32), _generate_fma


def _fused64(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float64, rounded once."""
    return types.float64(types.float64, types.float64, types.float64), _generate_fma


def _generate_fma(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fma(*args)


def _bits_of(typingctx: Any, value: Any) -> Any:
    """The bits of a float64 as an int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _float_of(typingctx: Any, bits: Any) -> Any:
    """The float64 with these bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


# Typed as anything: pyright cannot see that numba calls these without their first parameter.
fused32: Any = intrinsic(_fused32)
fused64: Any = intrinsic(_fused64)
bits_of: Any = intrinsic(_bits_of)
float_of: Any = intrinsic(_float_of)


@compiled(inline="always")
def add_to_odd(a: float, b: float) -> float:
    """a + b rounded to odd."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    bits = bits_of(total)
    odd = bits & 1
    step = 1 if (rest > 0.0) == (total > 0.0) else -1
    # False for NaN, which infinities leave.
    inexact = ((rest > 0.0) | (rest < 0.0)) & (odd == 0)
    return float_of(bits + (step if inexact else 0))


@compiled(inline="always")
def round_value(value: float, drop: int, least: int, largest: float, beyond: float, mode: int, flushes: bool) -> float:
    """A float64 rounded to a format; see Target."""
    bits = bits_of(value)
    negative = bits < 0
    exponent = (bits >> 52) & 2047
    significand = (bits & _MASK) | ((1 << 52) if exponent > 0 else 0)
    deficit = least - exponent
    lost = min(drop + (deficit if deficit > 0 else 0), 60)
    kept = significand >> lost
    rest = significand & ((1 << lost) - 1)
    half = 1 << (lost - 1)
    up = 0
    if mode == _EVEN:
        up = 1 if (rest > half) | ((rest == half) & ((kept & 1) == 1)) else 0
    elif mode == _AWAY:
        up = 1 if rest >= half else 0
    elif mode == _UP:
        up = 1 if (rest > 0) & (not negative) else 0
    elif mode == _DOWN:
        up = 1 if (rest > 0) & negative else 0
    elif mode == _IF_ODD:
        up = 1 if (rest >= half) & ((kept & 1) == 1) else 0
    # The exponent of the spacing, as a float64 power of two.
    rounded = float(kept + up) * float_of(((exponent if exponent > least else least) + drop - 52) << 52)
    to_largest = (mode == _ZERO) | ((mode == _UP) & negative) | ((mode == _DOWN) & (not negative))
    rounded = (largest if to_largest else beyond) if rounded > largest else rounded
    small = flushes & (rounded < _LEAST_NORMAL32)
    rounded = 0.0 if small else rounded
    signed = -rounded if negative else rounded
    special = value if value != value else (value if beyond > largest else value - value)
    return special if exponent == 2047 else (value if exponent == 0 else signed)


@compiled(inline="always")
def round_nearest(value: float, drop: int, least: int, largest: float, beyond: float) -> float:
    """As round_value to nearest, ties to even, nothing flushed, in fewer steps.

    Below the least normal number, adding and taking away 1.5 * 2^52 quanta makes the processor round to a quantum.
    """
    bits = bits_of(value)
    normal = float_of((bits + (1 << (drop - 1)) - 1 + ((bits >> drop) & 1)) & ~((1 << drop) - 1))
    shifter = 1.5 * float_of((least + drop) << 52)
    magnitude = abs(value)
    small = (magnitude + shifter) - shifter
    rounded = abs(normal) if magnitude >= float_of(least << 52) else small
    rounded = beyond if rounded > largest else rounded
    rounded = -rounded if bits < 0 else rounded
    return rounded if value == value else value
