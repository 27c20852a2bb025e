"""Sums of products of 8-bit codes: exact, or as kernels go wrong that add in 16 bits.

`IntegerCase` has the codes, scales and zero points of an integer problem; `add_saturating_pairs` adds as x86's
vpmaddubsw does, which multiplies unsigned by signed bytes and adds two products in 16 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from samebits.problems.integer_problem import IntegerProblem
from samebits.problems.problem import PRODUCTS

Whole = npt.NDArray[np.int64]
ScalarT = TypeVar("ScalarT", np.int64, np.float64)
_LEAST, _MOST = -(2**15), 2**15 - 1
# Rows of products that are held at once.
_MOST_HELD = 2_000_000
_NARROW_BITS = 16
# Products that are added one by one.
_MOST_RUNNING = 200_000_000


@dataclass(frozen=True)
class IntegerCase:
    """An integer problem's operands: codes as whole numbers, zero points and scales; w's by channel.

    Scales are the float32 numbers that were given, in float64. `pad` is the code that a convolution's padding has.
    """

    problem: IntegerProblem
    x: Whole
    w: Whole
    x_zero: int
    w_zero: Whole
    bias: Whole
    x_scale: float
    w_scale: npt.NDArray[np.float64]
    y_scale: float
    y_zero: int
    pad: int

    @property
    def low(self) -> int:
        """The least code of the result."""
        return int(np.iinfo(self.problem.out).min)

    @property
    def high(self) -> int:
        """The largest code of the result."""
        return int(np.iinfo(self.problem.out).max)

    def align(self, values: npt.NDArray[ScalarT]) -> npt.NDArray[ScalarT]:
        """One number a channel, shaped to go with the result; a single one as it is."""
        is_product = self.problem.plain.kind in PRODUCTS
        return values if values.size == 1 or is_product else values.reshape(-1, *(1,) * self.problem.plain.rank)


@dataclass(frozen=True)
class _Rows:
    """What every output reads, [group, place, term], and the weights of each row, [group, row, term]; `taps` each."""

    read: Whole
    weights: Whole
    taps: int


class PairOrder(StrEnum):
    """Which products are neighbours: of two channels, of two taps, or of channels of which an odd last one is alone."""

    CHANNELS = "channels fastest"
    TAPS = "taps fastest"
    EVEN_CHANNELS = "channels fastest, an even number of them"


def list_pair_orders(channels: int, taps: int) -> tuple[PairOrder, ...]:
    """The sequences that differ, for so many channels of a group and so many taps."""
    if min(channels, taps) == 1:
        return (PairOrder.TAPS,)
    odd = (PairOrder.EVEN_CHANNELS,) if channels % 2 else ()
    return (PairOrder.CHANNELS, PairOrder.TAPS, *odd)


def sum_exactly(case: IntegerCase) -> Whole:
    """The exact sums with their bias, of the result's shape."""
    return _finish(case, _multiply(_lay_out(case), _add_exactly))


def list_orders_of(case: IntegerCase) -> tuple[PairOrder, ...]:
    """The sequences that differ for a case."""
    plain = case.problem.plain
    if plain.kind in PRODUCTS:
        return (PairOrder.TAPS,)
    return list_pair_orders(plain.w[1], math.prod(plain.w[2:]))


def sum_in_pairs(case: IntegerCase, order: PairOrder) -> Whole | None:
    """The sums of `add_saturating_pairs`; None where nothing saturates, or no byte is unsigned and the other signed."""
    if case.problem.w != "int8":
        return None
    # Zero points are put right after the sum, exactly.
    lift = 128 if case.problem.x == "int8" else 0
    raw = replace(case, x=case.x + lift, x_zero=0, w_zero=np.zeros_like(case.w_zero), pad=case.pad + lift)
    rows = _lay_out(raw)
    if order is not PairOrder.TAPS:
        rows = _with_channels_fastest(rows, even=order is PairOrder.EVEN_CHANNELS)
    sums, whole = _multiply(rows, add_saturating_pairs), _multiply(rows, _add_exactly)
    if (sums == whole).all():
        return None
    exact = _multiply(_lay_out(case), _add_exactly)
    return _finish(case, exact + sums - whole)


def sum_in_bits(case: IntegerCase, sums: Whole, bits: int, *, wraps: bool) -> Whole | None:
    """The exact sums ended in so many bits, at their limits or wrapped around; None where none leaves them.

    In 16 bits the bias is added after, in more bits it is part of the sum.
    """
    late = case.align(case.bias) if bits <= _NARROW_BITS else np.zeros(1, np.int64)
    kept, half = sums - late, 2 ** (bits - 1)
    ended = (kept + half) % (2 * half) - half if wraps else np.clip(kept, -half, half - 1)
    return None if (ended == kept).all() else ended + late


def sum_running(case: IntegerCase) -> Whole | None:
    """Sums that saturate in 16 bits after every product; None where none leaves them, and where that takes too long."""
    rows = _lay_out(case)
    if rows.read.size * rows.weights.shape[1] > _MOST_RUNNING:
        return None
    sums, whole = _multiply(rows, _add_saturating), _multiply(rows, _add_exactly)
    return None if (sums == whole).all() else _finish(case, sums)


def _add_saturating(rows: Whole, weights: Whole) -> Whole:
    total = np.zeros((len(rows), len(weights)), np.int64)
    for k in range(rows.shape[1]):
        total = np.clip(total + rows[:, k, None] * weights[None, :, k], _LEAST, _MOST)
    return total


def add_saturating_pairs(rows: Whole, weights: Whole) -> Whole:
    """Sums of rows [place, term] times weights [row, term], pairs of products saturated in 16 bits: [place, row]."""
    odd = rows.shape[1] % 2
    rows, weights = (np.pad(a, ((0, 0), (0, odd))) for a in (rows, weights))
    total = np.zeros((len(rows), len(weights)), np.int64)
    for k in range(0, rows.shape[1], 2):
        pair = rows[:, k, None] * weights[None, :, k] + rows[:, k + 1, None] * weights[None, :, k + 1]
        total += np.clip(pair, _LEAST, _MOST)
    return total


def _add_exactly(rows: Whole, weights: Whole) -> Whole:
    # Whole numbers below 2^53 are exact in float64, and so are their sums.
    return np.rint(rows.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)


def _multiply(rows: _Rows, add: Callable[[Whole, Whole], Whole]) -> Whole:
    """[group, place, row], some places at a time."""
    groups, places, terms = rows.read.shape
    found = np.empty((groups, places, rows.weights.shape[1]), np.int64)
    step = max(_MOST_HELD // max(terms, rows.weights.shape[1]), 1)
    for group in range(groups):
        for start in range(0, places, step):
            part = slice(start, start + step)
            found[group, part] = add(rows.read[group, part], rows.weights[group])
    return found


def _lay_out(case: IntegerCase) -> _Rows:
    """The codes less their zero points as rows of terms, taps fastest."""
    plain = case.problem.plain
    x = case.x - case.x_zero
    if plain.kind in PRODUCTS:
        columns = case.w.T if plain.kind == "matmul" else case.w
        weights = columns - case.w_zero.reshape(-1, 1)
        return _Rows(x.reshape(1, -1, x.shape[-1]), weights[None], 1)
    weights = case.w - case.w_zero.reshape(-1, *(1,) * (case.w.ndim - 1))
    pads = [(0, 0), (0, 0), *((axis.pad_begin, axis.pad_end) for axis in plain.axes)]
    padded = np.pad(x, pads, constant_values=case.pad - case.x_zero)
    spans = [(axis.kernel - 1) * axis.dilation + 1 for axis in plain.axes]
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, padded.ndim)))
    strides = [slice(None, None, axis.stride) for axis in plain.axes]
    steps = [slice(None, None, axis.dilation) for axis in plain.axes]
    windows = windows[(slice(None), slice(None), *strides, *steps)]
    # (batch, channels, places ..., taps ...) -> (groups, batch and places, channels of the group and taps).
    batch, channels = windows.shape[:2]
    taps = math.prod(windows.shape[2 + plain.rank :])
    split = windows.reshape(batch, plain.groups, channels // plain.groups, -1, taps)
    read = split.transpose(1, 0, 3, 2, 4).reshape(plain.groups, -1, channels // plain.groups * taps)
    return _Rows(read, weights.reshape(plain.groups, len(case.w) // plain.groups, -1), taps)


def _with_channels_fastest(rows: _Rows, *, even: bool) -> _Rows:
    def turn(values: Whole) -> Whole:
        turned = values.reshape(*values.shape[:2], -1, rows.taps).swapaxes(2, 3)
        if even and turned.shape[3] % 2:
            turned = np.pad(turned, ((0, 0), (0, 0), (0, 0), (0, 1)))
        return turned.reshape(*values.shape[:2], -1)

    return replace(rows, read=turn(rows.read), weights=turn(rows.weights))


def _finish(case: IntegerCase, sums: Whole) -> Whole:
    """Sums [group, place, row] in the result's shape, with the bias."""
    plain = case.problem.plain
    if plain.kind in PRODUCTS:
        shaped = sums[0].reshape(plain.out_shape)
    else:
        batch, channels, *places = plain.out_shape
        shaped = sums.reshape(plain.groups, batch, math.prod(places), -1).transpose(1, 0, 3, 2)
        shaped = shaped.reshape(batch, channels, *places)
    return shaped + case.align(case.bias)
