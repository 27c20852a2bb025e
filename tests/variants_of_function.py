"""Variants that compute another function: other operands, activations, bias, parts left wrong; in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special

import plain_sums as plain
from plain_sums import Laid
from variant_making import OPEN, WRONG, Making, Variant, needs

Change = Callable[[np.ndarray], np.ndarray]
PART, FUSED, LOST_PART = ("shape-specific-kernel",), ("fusion",), ("shape-specific-kernel", "dropped-attribute")
# Where a stride skips them, not all outermost outputs read padding.
RING = (*PART, "padding")
OTHERS = ("other-operands",)


# -- after the sums -------------------------------------------------------------------------------------------------


def _activates(function: Change) -> Callable[[Making], np.ndarray]:
    """An activation that is not in the problem, on float32 sums with their bias."""

    def make(m: Making) -> np.ndarray:
        needs(m.is_forward and m.problem.then is None)
        return m.store_as(function(m.store(m.in_float32()).astype(np.float64)))

    return make


def _scales(factor: float, shift: float) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        return m.store_as(m.store(m.in_float32()).astype(np.float64) * factor + shift)

    return make


def _folds(power: float, eps: float) -> Callable[[Making], np.ndarray]:
    """A batch norm folded by variance + eps to another power, where the record holds what folding should have given."""

    def make(m: Making) -> np.ndarray:
        needs(m.problem.bias and m.is_forward)
        variance = np.exp(m.rng.normal(-1, 1, m.problem.c_out))
        right = 1 / np.sqrt(variance + 1e-3)
        wrong = (variance + eps) ** power
        shape = (-1,) if m.problem.product else (1, -1, *(1,) * m.problem.rank)
        sums = m.in_float32().astype(np.float64) * (wrong / right).reshape(shape)
        return m.store(sums)

    return make


# -- operands -------------------------------------------------------------------------------------------------------


def _narrow_record(keep: Change, name: str) -> Callable[[Making], tuple[dict[str, np.ndarray], np.ndarray]]:
    """Rounded copies are on record; what was multiplied had more digits."""

    def make(m: Making) -> tuple[dict[str, np.ndarray], np.ndarray]:
        own = "w" if name == "w" else "x"
        needs(m.problem.dtype == "float32" and own in m.operands)
        result = m.store(m.in_float32())
        array = m.operands[own]
        narrow = keep(array.astype(np.float64)).astype(array.dtype)
        needs((narrow != array).mean() > 0.05)
        return {**m.operands, own: narrow}, result

    return make


def _other(name: str) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(name in m.operands)
        array = m.operands[name]
        other = m.rng.permutation(array.ravel()).reshape(array.shape)
        return m.using(**{name: other}).store(m.using(**{name: other}).in_float32())

    return make


def _changed_weights(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.is_forward and not m.problem.is_transposed and m.problem.kind != "matmul")
        w = change(m.operands["w"].astype(np.float64), m.rng)
        return m.using(w=w).store(m.using(w=w).in_float32())

    return make


def _zero(axis: int, least: int, where: Callable[[int, np.random.Generator], slice]) -> Callable[..., np.ndarray]:
    def change(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        needs(w.ndim > axis and w.shape[axis] >= least)
        w = w.copy()
        w[(slice(None),) * axis + (where(w.shape[axis], rng),)] = 0
        return w

    return change


def _one(size: int, rng: np.random.Generator) -> slice:
    at = int(rng.integers(size))
    return slice(at, at + 1)


def _shuffle(axis: int) -> Callable[..., np.ndarray]:
    def change(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        needs(w.shape[axis] > 2)
        return np.take(w, rng.permutation(w.shape[axis]), axis)

    return change


def _lose_tap(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    needs(w.ndim > 2 and math.prod(w.shape[2:]) > 1)
    flat = w.reshape(*w.shape[:2], -1).copy()
    flat[:, :, int(rng.integers(flat.shape[2]))] = 0
    return flat.reshape(w.shape)


def _factor_per_input(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    needs(w.shape[1] > 1)
    return w * np.exp(rng.normal(0, 0.5, w.shape[1])).reshape(1, -1, *(1,) * (w.ndim - 2))


def _lose_tail(m: Making) -> np.ndarray:
    """The products beyond a whole number of vectors."""
    laid = m.laid
    left = laid.length % 16 or 16
    needs(laid.length > 2 * left)
    return m.store(
        plain.put_back(m.problem, plain.sum_in_float32(Laid(laid.rows[..., :-left], laid.columns[..., :-left])))
    )


# -- padding --------------------------------------------------------------------------------------------------------


def _pads_with(fill: float) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.is_conv and any(a.pad_begin or a.pad_end for a in m.problem.axes))
        met = plain.find_patches(m.problem, m.operands["x"].astype(np.float64), fill).transpose(1, 0, 4, 2, 3)
        laid = Laid(m.laid.rows, met.reshape(m.problem.groups, -1, m.laid.length))
        return m.store(plain.put_back(m.problem, plain.sum_in_float32(laid)))

    return make


def _ring(values: str) -> Callable[[Making], np.ndarray]:
    """The outermost outputs, which read padding, are not computed."""

    def make(m: Making) -> np.ndarray:
        needs(m.is_conv and m.problem.rank == 2 and all(a.pad_begin for a in m.problem.axes))
        needs(values != "bias" or m.problem.bias)
        result = m.store(m.in_float32()).astype(np.float64)
        ring = np.ones(result.shape[2:], bool)
        ring[1:-1, 1:-1] = False
        if values == "zeros":
            result[:, :, ring] = 0
        elif values == "bias":
            then = m.problem.then
            bias = m.operands["bias"].astype(np.float64)
            bias = bias if then is None else np.clip(bias, then.low, then.high)
            result[:, :, ring] = bias[None, :, None]
        else:
            result[:, :, ring] = result[:, ::-1, ring][:, :, ::-1]
        return m.store_as(result)

    return make


# -- parts ----------------------------------------------------------------------------------------------------------


def _right_edge(m: Making) -> np.ndarray:
    needs(m.is_conv and m.problem.rank == 2 and m.problem.out_shape[3] > 4)
    result = m.store(m.in_float32()).astype(np.float64)
    result[..., -1] = 0
    return m.store_as(result)


def _one_phase(m: Making) -> np.ndarray:
    """One column in two takes what belongs to the column before."""
    needs(m.is_forward and not m.problem.product and m.problem.rank == 2)
    result = m.store(m.in_float32()).astype(np.float64)
    width = result.shape[3] // 2 * 2
    result[..., 1:width:2] = result[..., 0:width:2]
    return m.store_as(result)


def _remainder_tiles(m: Making) -> np.ndarray:
    """Rows and columns beyond the last whole tile of 4 are left unwritten, zero."""
    needs(m.is_conv and m.problem.rank == 2 and m.problem.out_shape[2] % 4)
    result = m.store(m.in_float32()).astype(np.float64)
    result[:, :, result.shape[2] // 4 * 4 :] = 0
    return m.store_as(result)


def _beyond_clip(m: Making) -> np.ndarray:
    needs(m.problem.then is not None and math.isfinite(m.problem.then.high))
    result = m.store(m.in_float32()).astype(np.float64)
    flat = result.reshape(-1)
    flat[int(m.rng.integers(flat.size))] = m.problem.then.high * 1.25
    return m.store_as(result)


def _negative_behind_relu(m: Making) -> np.ndarray:
    """The relu of one channel is lost."""
    needs(m.problem.then is not None and m.problem.then.low == 0 and m.problem.c_out > 1)
    plain_sums = plain.put_back(m.problem, plain.sum_in_float32(m.laid)).astype(np.float64)
    bias = m.operands["bias"].astype(np.float64).reshape(1, -1, *(1,) * m.problem.rank)
    result = m.store(m.in_float32()).astype(np.float64)
    at = int(m.rng.integers(m.problem.c_out))
    result[:, at] = (plain_sums + bias)[:, at]
    needs((result[:, at] < 0).sum() > 3)
    return m.store_as(result)


def _two_channels(m: Making) -> np.ndarray:
    """Two channels that do not stand together are exchanged."""
    needs(m.is_forward and not m.problem.product and m.problem.c_out >= 8)
    result = m.store(m.in_float32())
    order = np.arange(result.shape[1])
    order[[0, -2]] = order[[-2, 0]]
    return result[:, order]


def _finite_to_nan(m: Making) -> np.ndarray:
    """One output in a hundred is NaN although everything that was multiplied is finite."""
    result = m.store(m.in_float32()).astype(np.float64)
    flat = result.reshape(-1)
    flat[m.rng.choice(flat.size, max(flat.size // 100, 2), replace=False)] = np.nan
    return m.store_as(result)


def _stale_values(m: Making) -> np.ndarray:
    """Huge values in a block of outputs."""
    needs(m.is_conv and m.problem.rank == 2)
    result = m.store(m.in_float32()).astype(np.float64)
    result[0, 0, :, -2:] = m.rng.normal(0, 1e4 * np.abs(result).max(), result[0, 0, :, -2:].shape)
    return m.store_as(np.clip(result, -6e4, 6e4) if m.problem.dtype == "float16" else result)


def _mirrored(axis: int) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.is_forward and not m.problem.product)
        return np.ascontiguousarray(np.flip(m.store(m.in_float32()), axis))

    return make


def _gelu(a: np.ndarray) -> np.ndarray:
    return 0.5 * a * (1 + scipy.special.erf(a / math.sqrt(2)))


def _gelu_tanh(a: np.ndarray) -> np.ndarray:
    return 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


VARIANTS = [
    Variant("gelu", "2 activation", WRONG, FUSED, _activates(_gelu)),
    Variant("gelu by tanh", "2 activation", WRONG, FUSED, _activates(_gelu_tanh)),
    Variant("silu", "2 activation", WRONG, FUSED, _activates(lambda a: a * scipy.special.expit(a))),
    Variant("leaky relu 0.01", "2 activation", WRONG, FUSED, _activates(lambda a: np.where(a > 0, a, 0.01 * a))),
    Variant("leaky relu 0.2", "2 activation", WRONG, FUSED, _activates(lambda a: np.where(a > 0, a, 0.2 * a))),
    Variant("hardswish", "2 activation", WRONG, FUSED, _activates(lambda a: a * np.clip(a + 3, 0, 6) / 6)),
    Variant("sigmoid", "2 activation", WRONG, FUSED, _activates(scipy.special.expit)),
    Variant("tanh", "2 activation", WRONG, FUSED, _activates(np.tanh)),
    Variant("a factor", "2 scale", WRONG, FUSED, _scales(1 / 255, 0.0)),
    Variant("an offset", "2 scale", WRONG, FUSED, _scales(1.0, -0.45)),
    Variant("folded without the root", "2 scale", WRONG, FUSED, _folds(-1.0, 1e-3)),
    Variant("folded without eps", "2 scale", WRONG, FUSED, _folds(-0.5, 0.0)),
    Variant("pads with -1", "2 padding", WRONG, ("padding",), _pads_with(-1.0)),
    Variant("pads with 114", "2 padding", WRONG, ("padding",), _pads_with(114.0)),
    Variant("pads with 0.5", "2 padding", WRONG, ("padding",), _pads_with(0.5)),
    Variant("rounded weights on record", "2 record", OPEN, OTHERS, _narrow_record(plain.f16, "w")),
    Variant("bfloat16 weights on record", "2 record", OPEN, OTHERS, _narrow_record(plain.bf16, "w")),
    Variant("rounded inputs on record", "2 record", OPEN, OTHERS, _narrow_record(plain.f16, "x")),
    Variant("other weights", "2 record", WRONG, OTHERS, _other("w")),
    Variant("other inputs", "2 record", WRONG, OTHERS, _other("x")),
    Variant("mirrored left to right", "2 mirrored", WRONG, ("axis-order",), _mirrored(-1)),
    Variant("mirrored top to bottom", "2 mirrored", WRONG, ("axis-order",), _mirrored(2)),
    Variant("NaN from finite sums", "2 NaN", WRONG, ("uninitialized-memory",), _finite_to_nan),
    Variant("an input channel lost", "3 weights", WRONG, LOST_PART, _changed_weights(_zero(1, 2, _one))),
    Variant("the last input channels lost", "3 weights", WRONG, LOST_PART,
            _changed_weights(_zero(1, 8, lambda n, _: slice(n - n // 4, n)))),
    Variant("a tap lost", "3 weights", WRONG, LOST_PART, _changed_weights(_lose_tap)),
    Variant("tail of products lost", "3 weights", WRONG, LOST_PART, _lose_tail),
    Variant("input channels shuffled", "3 weights", WRONG, ("axis-order", *OTHERS), _changed_weights(_shuffle(1))),
    Variant("filters shuffled", "3 weights", WRONG, ("axis-order",), _changed_weights(_shuffle(0))),
    Variant("a factor per input channel", "3 weights", WRONG, FUSED, _changed_weights(_factor_per_input)),
    Variant("ring of zeros", "7 parts", WRONG, RING, _ring("zeros")),
    Variant("ring of biases", "7 parts", WRONG, RING, _ring("bias")),
    Variant("ring of stale values", "7 parts", WRONG, RING, _ring("stale")),
    Variant("last column zero", "7 parts", WRONG, PART, _right_edge),
    Variant("every second column", "7 parts", WRONG, PART, _one_phase),
    Variant("remainder rows zero", "7 parts", WRONG, PART, _remainder_tiles),
    Variant("one value beyond the clip", "7 parts", WRONG, FUSED, _beyond_clip),
    Variant("one channel without its relu", "7 parts", WRONG, FUSED, _negative_behind_relu),
    Variant("two channels exchanged", "7 parts", WRONG, ("axis-order",), _two_channels),
    Variant("stale block", "7 parts", WRONG, ("uninitialized-memory",), _stale_values),
]  # fmt: skip
