"""Variants that cases made by others showed to be missed: their arrangements, in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import plain_sums as plain
from plain_sums import Laid
from variant_making import LOST, WRONG, Making, Variant, needs

Change = Callable[[np.ndarray], np.ndarray]
ACCUMULATOR, OPERANDS, STORED = ("low-precision-accumulator",), ("reduced-precision-operands",), ("result-rounding",)
QUANTIZED = ("quantized-operands",)


# -- results --------------------------------------------------------------------------------------------------------


def _stores(keep: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Callable[[Making], np.ndarray]:
    """Results of float32 arithmetic, bias and epilogue included, kept otherwise."""

    def make(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32")
        return m.store_as(keep(m.store(m.in_float32()).astype(np.float64), m.rng))

    return make


def _keep_decimals(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Four, fewer of large values."""
    return np.round(values, 4 - int(np.log10(np.abs(values).max())))


def _floor_to_steps(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """256 steps from zero to a large value, and a few bits more; a power of two."""
    step = 2.0 ** np.floor(np.log2(np.abs(values).max() / 2**11))
    return np.floor(values / step) * step


def _round_by_chance(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bfloat16, up as often as the rest is large."""
    low = plain.keep_bits(values, 8, cut=True)
    step = np.where(values == low, 0.0, 2.0 ** (np.floor(np.log2(np.abs(np.where(low == 0, 1.0, low)))) - 7))
    up = rng.random(values.shape) < np.abs(values - low) / np.where(step == 0, 1.0, step)
    return np.where(low == 0, plain.bf16(values), low + np.sign(values) * step * up)


def _last_places_in_bf16(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """The last quarter along the last axis that is no channel."""
    axis = values.ndim - 1 if values.ndim > 2 else 0
    needs(values.shape[axis] >= 8)
    places = np.moveaxis(values.copy(), axis, 0)
    places[-(len(places) // 4) :] = plain.bf16(places[-(len(places) // 4) :])
    return np.moveaxis(places, 0, axis)


def _halves_around_the_bias(m: Making) -> np.ndarray:
    needs(m.problem.bias and m.problem.dtype == "float32")
    return m.store_as(plain.f16(m.store(plain.f16(m.in_float32().astype(np.float64))).astype(np.float64)))


# -- operands -------------------------------------------------------------------------------------------------------


def _power_of_two_steps(w: np.ndarray) -> np.ndarray:
    flat = w.reshape(len(w), -1)
    step = 2.0 ** np.ceil(np.log2(np.maximum(np.abs(flat).max(axis=1, keepdims=True), 1e-30) / 127))
    return (np.clip(np.rint(flat / step), -127, 127) * step).reshape(w.shape)


def _steps_per_channel(w: np.ndarray) -> np.ndarray:
    flat = w.reshape(len(w), -1)
    step = np.maximum(np.abs(flat).max(axis=1, keepdims=True), 1e-30) / 127
    return (np.rint(flat / step) * step).reshape(w.shape)


def _without_smallest(w: np.ndarray) -> np.ndarray:
    return np.where(np.abs(w) < np.quantile(np.abs(w), 0.1), 0.0, w)


def _changes(x: Change | None, w: Change) -> Callable[[Making], np.ndarray]:
    """Weights of a forward problem that positions enough meet to distinguish others from them."""

    def make(m: Making) -> np.ndarray:
        needs(m.is_forward and not m.problem.is_transposed and m.problem.kind != "matmul")
        needs(m.problem.dtype == "float32" and m.laid.columns.shape[1] >= 3 * m.laid.length)
        changed = m.rounded(x, w)
        return changed.store(changed.in_float32())

    return make


# -- sums -----------------------------------------------------------------------------------------------------------


def _tap_by_tap(m: Making) -> Laid:
    """Products with channels fastest."""
    taps = int(np.prod(m.problem.w[2:]))
    needs(m.is_conv and taps > 1 and m.laid.length > taps)
    order = np.arange(m.laid.length).reshape(-1, taps).T.reshape(-1)
    return Laid(m.laid.rows[..., order], m.laid.columns[..., order])


def _each_tap_stored(m: Making) -> np.ndarray:
    laid, depth = _tap_by_tap(m), m.laid.length // int(np.prod(m.problem.w[2:]))
    total = 0.0
    for start in range(0, laid.length, depth):
        own = slice(start, start + depth)
        part = plain.sum_in_float32(Laid(laid.rows[..., own], laid.columns[..., own]))
        total = plain.f16(total + plain.f16(part.astype(np.float64)))
    return m.store(plain.put_back(m.problem, np.asarray(total)))


def _narrow_per_32(m: Making) -> np.ndarray:
    laid = _tap_by_tap(m)
    needs(laid.length > 64)
    total = np.zeros((*laid.rows.shape[:2], laid.columns.shape[1]), np.float32)
    for start in range(0, laid.length, 32):
        own = slice(start, start + 32)
        total = total + plain.sum_by(Laid(laid.rows[..., own], laid.columns[..., own]), plain.bf16, None)
    return m.store(plain.put_back(m.problem, total.astype(np.float32)))


def _from_the_bias_on(m: Making) -> np.ndarray:
    """A float16 running sum that begins with the bias."""
    needs(m.problem.bias and m.is_forward and m.problem.then is None)
    laid = m.laid
    groups, rows = laid.rows.shape[:2]
    start = plain.f16(m.operands["bias"].astype(np.float64)).reshape(groups, rows, 1)
    sums = np.broadcast_to(start, (groups, rows, laid.columns.shape[1]))
    for k in range(laid.length):
        sums = plain.f16(sums + laid.rows[:, :, None, k] * laid.columns[:, None, :, k])
    return m.store_as(plain.put_back(m.problem, sums))


# -- parts ----------------------------------------------------------------------------------------------


def _turned(m: Making) -> np.ndarray:
    needs(m.is_forward and not m.problem.product and m.problem.rank == 2)
    return np.ascontiguousarray(m.store(m.in_float32())[:, :, ::-1, ::-1])


def _tiles_transposed(m: Making) -> np.ndarray:
    needs(m.is_forward and not m.problem.product and m.problem.rank == 2)
    result = m.store(m.in_float32())
    height, width = result.shape[2:]
    needs(height % 4 == 0 and width % 4 == 0)
    for top in range(0, height, 4):
        for left in range(0, width, 4):
            tile = np.s_[:, :, top : top + 4, left : left + 4]
            result[tile] = result[tile].swapaxes(2, 3).copy()
    return result


def _one_group_transposed(m: Making) -> np.ndarray:
    p = m.problem
    needs(m.is_conv and p.rank == 2 and 1 < p.groups < 8 and p.w[2] == p.w[3] > 1)
    w = m.operands["w"].astype(np.float64).copy()
    own = w[: len(w) // p.groups]
    own[...] = own.swapaxes(2, 3).copy()
    return m.using(w=w).store(m.using(w=w).in_float32())


def _tiles_twice(m: Making) -> np.ndarray:
    """Some tiles are added to what is there already."""
    needs(m.is_forward and not m.problem.product and m.problem.rank == 2 and m.problem.then is None)
    sums = m.in_float32()
    mask = np.zeros(sums.shape, bool)
    mask[0, :: max(sums.shape[1] // 3, 1), 2:8, 3:9] = True
    return m.store(np.where(mask, 2 * sums, sums))


VARIANTS = [
    Variant("few decimals", "1 grid", LOST, STORED, _stores(_keep_decimals)),
    Variant("fixed point, floored", "1 grid", LOST, STORED, _stores(_floor_to_steps)),
    Variant("bfloat16 by chance", "1 grid", LOST, STORED, _stores(_round_by_chance)),
    Variant("last places stored bfloat16", "1 grid", LOST, STORED, _stores(_last_places_in_bf16)),
    Variant("w int8, powers of two", "2 operands", LOST, QUANTIZED, _changes(None, _power_of_two_steps)),
    Variant("x float16, w int8", "2 operands", LOST, (*QUANTIZED, *OPERANDS), _changes(plain.f16, _steps_per_channel)),
    Variant("the smallest weights zero", "3 weights", WRONG, ("other-operands",), _changes(None, _without_smallest)),
    Variant("float16 around the bias", "4 bias", LOST, STORED, _halves_around_the_bias),
    Variant("each tap stored in float16", "6 sums", LOST, ACCUMULATOR, _each_tap_stored),
    Variant("bfloat16 per 32 products, channels fastest", "6 sums", LOST, ACCUMULATOR, _narrow_per_32),
    Variant("float16 from the bias on", "6 sums", LOST, ACCUMULATOR, _from_the_bias_on),
    Variant("turned by half", "2 mirrored", WRONG, ("axis-order",), _turned),
    Variant("tiles transposed", "7 parts", WRONG, ("axis-order",), _tiles_transposed),
    Variant("kernels of one group transposed", "7 parts", WRONG, ("axis-order",), _one_group_transposed),
    Variant("tiles added twice", "7 parts", WRONG, ("shape-specific-kernel",), _tiles_twice),
]  # fmt: skip
