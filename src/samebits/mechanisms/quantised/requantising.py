"""Sums of codes rescaled to codes: what is right, how far a sound kernel may be from it, and what kernels do.

The real result is the sum times x_scale w_scale / y_scale, of the float32 scales as given; the right code is the
nearest whole number, halves to the even one, plus the zero point, within the dtype's limits. Sound kernels multiply by
that quotient in float32, or by its nearest fixed-point number of 31 bits, which may come from a float32 quotient or
from scales in double, and may round twice: how far they may end from the real result is a bound, not a guess.

Sources: ONNX's QuantizeLinear; gemmlowp's doc/quantization.md and fixedpoint.h (two roundings); TensorFlow Lite's
quantization_util and common.h (one rounding, and a float32 quotient); CMSIS-NN's arm_nnsupportfunctions.h.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.mechanisms.quantised.integer_sums import IntegerCase, Whole

Floats = npt.NDArray[np.float64]
_UNIT = 2.0**-24
# xs ws, / ys, the sum, the product and the zero point round once each; so did three scales given in more bits.
_ROUNDINGS = 8
# Beyond every code, and far from where int64 ends.
_FAR = 2.0**40
# Nearer to a half than this share of its size a float64 result does not decide.
_NEAR = 2.0**-49


@dataclass(frozen=True)
class Steps:
    """The right codes, and the least and largest code that a sound kernel may return; `real` are codes not rounded."""

    right: Whole
    least: Whole
    most: Whole
    real: Floats
    away: Floats


def find_steps(case: IntegerCase, sums: Whole) -> Steps:
    """What is right for these sums, exactly, and what the bound allows."""
    scales = _list_scales(case)
    factor = case.align(np.array([float(s) for s in scales]))
    real: Floats = np.clip(sums.astype(np.float64) * factor, -_FAR, _FAR)
    whole = np.rint(real).astype(np.int64)
    near = np.abs(np.abs(real - np.floor(real)) - 0.5) <= _NEAR * np.maximum(np.abs(real), 1)
    if near.any():
        spread = np.broadcast_to(case.align(np.arange(len(scales))), sums.shape)
        for index in zip(*np.nonzero(near), strict=True):
            # Python rounds halves to even.
            whole[index] = round(int(sums[index]) * scales[int(spread[index])])
    away = _bound(case, real, factor)
    limits = (np.ceil(real + case.y_zero - 0.5 - away), np.floor(real + case.y_zero + 0.5 + away))
    least, most = (clamp(case, np.clip(limit, -2 * _FAR, 2 * _FAR).astype(np.int64)) for limit in limits)
    return Steps(clamp(case, whole + case.y_zero), least, most, real + case.y_zero, away)


def _bound(case: IntegerCase, real: Floats, factor: Floats) -> Floats:
    """How far what a sound kernel rounds last may be from the real result, in steps."""
    loss = _ROUNDINGS * _UNIT / (1 - _ROUNDINGS * _UNIT)
    floats = loss * (np.abs(real) + abs(case.y_zero))
    # Two roundings: the first to 2^-n steps, where the quotient is between 2^-n-1 and 2^-n.
    shifts = -np.frexp(factor)[1]
    second = np.where(shifts > 0, 2.0 ** -np.maximum(shifts + 1.0, 0.0), 0.0)
    return floats + second + 2.0**-31 * np.abs(real)


def clamp(case: IntegerCase, codes: Whole) -> Whole:
    """Codes within the limits of the result's dtype."""
    return np.clip(codes, case.low, case.high)


def _list_scales(case: IntegerCase) -> list[Fraction]:
    """x_scale w_scale / y_scale of each channel, exactly."""
    both = Fraction(case.x_scale) / Fraction(case.y_scale)
    return [both * Fraction(float(w)) for w in case.w_scale]


Requantise = Callable[[IntegerCase, Whole], Whole]


@dataclass(frozen=True)
class Way:
    """One way to rescale, as a predicate; `run` gives codes without limits. `is_sound`: within the bound.

    `rounds` is how it rounds alone, whatever it multiplies by.
    """

    says: str
    run: Requantise
    is_sound: bool = True
    rounds: str = ""


def list_ways() -> Iterator[Way]:
    """The ways that kernels rescale, the usual ones first."""
    for rounding, multiplier, wide in itertools.product(_SOUND, _MULTIPLIERS, (False, True)):
        yield _by_floats(multiplier, _SOUND[rounding], rounding, wide=wide, is_sound=True)
    yield from _list_fixed()
    yield Way("rescales as FakeQuantize from y's range: one multiplication and addition in float32", _fake_quantise)
    for rounding, multiplier in itertools.product(_SOUND, _MULTIPLIERS):
        # Halves of numbers with the zero point in them are other halves.
        yield _by_floats(multiplier, _SOUND[rounding], rounding, wide=False, is_sound=True, zero_first=True)
    for rounding, multiplier in itertools.product(_UNSOUND, _MULTIPLIERS[:2]):
        for zero_first in (False, True):
            yield _by_floats(
                multiplier, _UNSOUND[rounding], rounding, wide=False, is_sound=False, zero_first=zero_first
            )


def _round_away(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    # As C's roundf: the half is added in more bits, so that nothing below a half becomes one.
    wide = values.astype(np.float64)
    return np.trunc(wide + np.copysign(0.5, wide))


def _round_up(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    # As floorf(x + 0.5f), which rounds the sum.
    return np.floor(values + np.asarray(0.5, values.dtype))


_Rounding = Callable[..., npt.NDArray[np.floating]]
_SOUND: dict[_Rounding, str] = {
    np.rint: "rounds halves to even",
    _round_away: "rounds halves away from zero",
    _round_up: "rounds halves up",
}


def _cut_after_half(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return np.trunc(values + np.asarray(0.5, values.dtype))


_UNSOUND: dict[_Rounding, str] = {
    _cut_after_half: "adds a half and cuts off, below zero too",
    np.trunc: "cuts off in place of rounding",
    np.floor: "rounds down in place of to the nearest",
    np.ceil: "rounds up in place of to the nearest",
}
_MULTIPLIERS = ("x_scale w_scale / y_scale", "x_scale (w_scale / y_scale)", "(x_scale / y_scale) w_scale", "/ y_scale")


def _by_floats(
    multiplier: str,
    name: str,
    rounding: _Rounding,
    *,
    wide: bool,
    is_sound: bool,
    zero_first: bool = False,
) -> Way:
    """The sum times a float32 quotient, or, `wide`, in float64; the last multiplier divides by y_scale in the end.

    With `zero_first` the zero point is added before the sum is rounded.
    """
    kind = np.float64 if wide else np.float32

    def run(case: IntegerCase, sums: Whole) -> Whole:
        xs, ys = kind(case.x_scale), kind(case.y_scale)
        ws = case.align(case.w_scale).astype(kind)
        held = sums.astype(kind)
        with np.errstate(over="ignore"):
            if multiplier == _MULTIPLIERS[3]:
                scaled = held * (xs * ws) / ys
            else:
                quotients = {_MULTIPLIERS[0]: lambda: xs * ws / ys, _MULTIPLIERS[1]: lambda: xs * (ws / ys)}
                scaled = held * quotients.get(multiplier, lambda: (xs / ys) * ws)()
            moved = scaled + kind(case.y_zero) if zero_first else scaled
            rounded = rounding(np.clip(moved, -_FAR, _FAR)).astype(np.int64)
        return rounded if zero_first else rounded + case.y_zero

    last = multiplier == _MULTIPLIERS[3]
    by = "times x_scale w_scale, divided by y_scale" if last else f"times {multiplier}"
    then = f"adds the zero point and {name}" if zero_first else name
    return Way(f"rescales in {np.dtype(kind).name} ({by}) and {then}", run, is_sound, name)


def _fake_quantise(case: IntegerCase, sums: Whole) -> Whole:
    """OpenVINO's: real numbers by a scale and a shift that the ends of y's range give, fused, to codes from 0 on."""
    step, ends = np.float32(case.y_scale), (case.low - case.y_zero, case.high - case.y_zero)
    low, high = (np.float32(end) * step for end in ends)
    levels, span = np.float32(case.high - case.low), high - low
    real = sums.astype(np.float32) * (np.float32(case.x_scale) * case.align(case.w_scale).astype(np.float32))
    scale, shift = levels / span, -low * levels / span
    moved = (real.astype(np.float64) * np.float64(scale) + np.float64(shift)).astype(np.float32)
    return np.rint(np.clip(moved, -_FAR, _FAR)).astype(np.int64) + case.low


def _list_fixed() -> Iterator[Way]:
    kinds = {
        "rounds twice, as gemmlowp does": _round_twice,
        "rounds twice, halves up both times, as ruy does": _round_up_twice,
        "rounds once, halves up": _round_once,
    }
    for (says, run), narrow in itertools.product(kinds.items(), (False, True)):
        of = " (of x_scale w_scale in float32)" if narrow else ""
        own = functools.partial(run, narrow=narrow)
        yield Way(f"rescales by a fixed-point number of 31 bits{of} and {says}", own)
    for bits in (15, 7):
        says = f"rescales by a fixed-point number of {bits} bits and rounds once, halves up"
        yield Way(says, functools.partial(_round_once, bits=bits), False)
    yield Way("rescales by a fixed-point number of 31 bits and shifts without rounding", _shift, False)


def _split(case: IntegerCase, bits: int, *, narrow: bool) -> tuple[Whole, Whole]:
    """Each channel's quotient as a whole number of `bits` bits and a shift to the right, halves away from zero.

    As kernels prepare it: in float64, but for the product of both scales where it is `narrow`.
    """
    numbers: list[int] = []
    shifts: list[int] = []
    for w in case.w_scale:
        product = float(np.float32(case.x_scale) * np.float32(w)) if narrow else case.x_scale * float(w)
        mantissa, exponent = math.frexp(product / case.y_scale)
        number = math.floor(mantissa * 2**bits + 0.5)
        if number == 2**bits:
            number, exponent = number // 2, exponent + 1
        numbers.append(number)
        shifts.append(-exponent)
    return tuple(case.align(np.array(values, np.int64)) for values in (numbers, shifts))  # type: ignore[return-value]  (two of them)


def _hold(sums: Whole) -> Whole:
    return np.clip(sums, -(2**31), 2**31 - 1)


def _round_twice(case: IntegerCase, sums: Whole, *, narrow: bool) -> Whole:
    """gemmlowp's SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT."""
    number, shift = _split(case, 31, narrow=narrow)
    left, right = np.maximum(-shift, 0), np.maximum(shift, 0)
    product = _hold(sums << left) * number
    nudge = np.where(product >= 0, 2**30, 1 - 2**30)
    # C++ divides towards zero.
    high = np.sign(product + nudge) * (np.abs(product + nudge) >> 31)
    mask = (np.int64(1) << right) - 1
    rest, threshold = high & mask, (mask >> 1) + (high < 0)
    return (high >> right) + (rest > threshold) + case.y_zero


def _round_up_twice(case: IntegerCase, sums: Whole, *, narrow: bool) -> Whole:
    """ruy's kernels for x86: the high half of the product, rounded, and its shift to the right, rounded again."""
    number, shift = _split(case, 31, narrow=narrow)
    left, right = np.maximum(-shift, 0), np.maximum(shift, 0)
    high = (_hold(sums << left) * number + 2**30) >> 31
    return ((high + _half(right)) >> right) + case.y_zero


def _round_once(case: IntegerCase, sums: Whole, *, bits: int = 31, narrow: bool = False) -> Whole:
    number, shift = _split(case, bits, narrow=narrow)
    total = np.clip(shift + bits, 0, 62)
    return ((_hold(sums) * number + _half(total)) >> total) + case.y_zero


def _shift(case: IntegerCase, sums: Whole) -> Whole:
    number, shift = _split(case, 31, narrow=False)
    return (_hold(sums) * number >> np.clip(shift + 31, 0, 62)) + case.y_zero


def _half(shift: Whole) -> Whole:
    """What is added before a shift to the right rounds."""
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
