"""Variants that add the declared products with less: stored results, operands, narrow sums, transforms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import plain_sums as plain
import plain_transforms as transforms
from plain_sums import Laid
from variant_making import EITHER, FAULT_FREE, LOST, Making, Variant, needs

Change = Callable[[np.ndarray], np.ndarray]
ACCUMULATOR, OPERANDS, STORED = ("low-precision-accumulator",), ("reduced-precision-operands",), ("result-rounding",)
QUANTIZED = ("quantized-operands",)
ORDER = ("summation-order", "ill-conditioned", None)


# -- fault-free -----------------------------------------------------------------------------------------------------


def _in_parts(count: int) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        total = None
        for part in plain.parts(m.laid, count):
            some = plain.sum_in_float32(part)
            total = some if total is None else total + some
        assert total is not None
        return m.store(plain.put_back(m.problem, total))

    return make


def _one_by_one(m: Making) -> np.ndarray:
    return m.store(plain.put_back(m.problem, plain.sum_by(m.laid, plain.f32, plain.f32)))


def _exactly(m: Making) -> np.ndarray:
    return m.store(m.exactly())


# -- results --------------------------------------------------------------------------------------------------------


def _stored_by(keep: Change) -> Callable[[Making], np.ndarray]:
    """Results of float32 arithmetic, bias and epilogue included, passed through another format."""

    def make(m: Making) -> np.ndarray:
        stored = m.store(m.in_float32())
        return keep(stored.astype(np.float64)).astype(stored.dtype)

    return make


def _only_float32(make: Callable[[Making], np.ndarray]) -> Callable[[Making], np.ndarray]:
    def checked(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32")
        return make(m)

    return checked


def _half_of_channels(m: Making) -> np.ndarray:
    result = m.store(m.in_float32())
    needs(m.problem.dtype == "float32" and result.shape[1] > 1)
    result = result.copy()
    half = result.shape[1] // 2
    result[:, half:] = plain.f16(result[:, half:]).astype(np.float32)
    return result


def _quantised_result(*, per_channel: bool) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32" and m.is_forward)
        result = m.store(m.in_float32()).astype(np.float64)
        axes = tuple(i for i in range(result.ndim) if i != 1) if per_channel else None
        largest = np.abs(result).max(axis=axes, keepdims=True)
        # Codes times a float32 scale, as dequantising does.
        step = (largest / 127).astype(np.float32)
        return (np.clip(np.rint(result / np.maximum(step, 1e-30)), -128, 127).astype(np.float32) * step).astype(
            np.float32
        )

    return make


def _stochastic(m: Making) -> np.ndarray:
    sums = plain.finish(m.problem, m.exactly(), m.operands.get("bias"))
    needs(m.problem.dtype in ("float16", "bfloat16"))
    bits = 11 if m.problem.dtype == "float16" else 8
    cut = plain.keep_bits(sums, bits, cut=True)
    _, e = np.frexp(sums)
    unit = np.ldexp(1.0, e - bits)
    up = m.rng.random(sums.shape) < np.abs(sums - cut) / unit
    return m.store_as(cut + np.where(up, np.sign(sums) * unit, 0.0))


def _cut(m: Making) -> np.ndarray:
    needs(m.problem.dtype in ("float16", "bfloat16"))
    sums = plain.finish(m.problem, m.exactly(), m.operands.get("bias"))
    return m.store_as(plain.keep_bits(sums, 11 if m.problem.dtype == "float16" else 8, cut=True))


# -- operands -------------------------------------------------------------------------------------------------------


def _rounds(x: Change | None, w: Change | None, store: Change | None = None) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32")
        result = m.rounded(x, w)
        done = m.store(result.in_float32())
        return done if store is None else store(done.astype(np.float64)).astype(np.float32)

    return make


def _per_tensor(most: int) -> Change:
    return lambda a: plain.steps(a, float(np.abs(a).max()), most)


def _per_channel(most: int) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32" and m.is_forward)
        axis = 1 if m.problem.kind == "matmul" or (m.problem.is_transposed and m.problem.groups == 1) else 0
        others = tuple(i for i in range(m.operands["w"].ndim) if i != axis)
        return m.store(
            m.rounded(None, lambda w: plain.steps(w, np.abs(w).max(axis=others, keepdims=True), most)).in_float32()
        )

    return make


def _per_group(most: int, group: int) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs((m.problem.dtype == "float32" and m.is_conv and m.problem.w[1] > group) or m.problem.kind == "linear")

        def change(w: np.ndarray) -> np.ndarray:
            done = w.copy()
            for i in range(0, w.shape[1], group):
                part = w[:, i : i + group]
                largest = np.abs(part).max(axis=tuple(range(1, w.ndim)), keepdims=True)
                done[:, i : i + group] = plain.steps(part, largest, most)
            return done

        return m.store(m.rounded(None, change).in_float32())

    return make


def _scaled_float8(keep: Change, largest: float) -> Change:
    def change(a: np.ndarray) -> np.ndarray:
        scale = np.abs(a).max() / largest
        return keep(a / scale) * scale

    return change


def _unsigned_steps(a: np.ndarray) -> np.ndarray:
    low, high = min(float(a.min()), 0.0), max(float(a.max()), 0.0)
    step = (high - low) / 255
    zero = np.rint(-low / step)
    return (np.clip(np.rint(a / step) + zero, 0, 255) - zero) * step


def _calibrated_steps(a: np.ndarray) -> np.ndarray:
    """As calibration on other data leaves them: a range that is not quite these data's."""
    return plain.steps(a, float(np.abs(a).max()) * 0.87, 127)


# -- sums -----------------------------------------------------------------------------------------------------------


def _accumulates(keep: Change, product: Change | None = None) -> Callable[[Making], np.ndarray]:
    def make(m: Making) -> np.ndarray:
        needs(m.laid.length >= 32)
        return m.store(plain.put_back(m.problem, plain.sum_by(m.laid, keep, product)))

    return make


def _splits(count: int, store: Change, total: Change) -> Callable[[Making], np.ndarray]:
    """Split-K: float32 sums of so many parts, each stored, added up in another format."""

    def make(m: Making) -> np.ndarray:
        needs(m.laid.length >= 8 * count)
        done = np.zeros(())
        for n, part in enumerate(plain.parts(m.laid, count)):
            some = store(plain.sum_in_float32(part).astype(np.float64))
            done = some if n == 0 else total(done + some)
        return m.store(plain.put_back(m.problem, done))

    return make


def _promotes(block: int, keep: Change, product: Change | None, *, channels: bool) -> Callable[[Making], np.ndarray]:
    """Narrow sums of a block, added to a float32 sum."""

    def make(m: Making) -> np.ndarray:
        needs(m.laid.length >= 2 * block)
        laid = m.laid
        some = plain.channels_first(m.problem, laid, block) if channels and m.is_conv else None
        needs(some is None or len(some) > 1)
        pieces = some or plain.blocks(laid, block)
        total = np.zeros(())
        for piece in pieces:
            total = plain.f32(total + plain.sum_by(piece, keep, product))
        return m.store(plain.put_back(m.problem, total))

    return make


def _splits_operands(terms: int) -> Callable[[Making], np.ndarray]:
    """float32 products from bfloat16 ones: x = x1 + x2 (+ x3), the smallest products left out."""

    def make(m: Making) -> np.ndarray:
        needs(m.problem.dtype == "float32")
        laid = m.laid
        rows, columns = _pieces(laid.rows, terms), _pieces(laid.columns, terms)
        pairs = [(i, j) for i in range(terms) for j in range(terms) if i + j < terms]
        total = sum(
            plain.sum_in_float32(Laid(rows[i], columns[j])).astype(np.float64) for i, j in sorted(pairs, reverse=True)
        )
        return m.store(plain.put_back(m.problem, np.asarray(total)))

    return make


def _pieces(values: np.ndarray, count: int) -> list[np.ndarray]:
    left, pieces = values, []
    for _ in range(count):
        pieces.append(plain.bf16(left))
        left = left - pieces[-1]
    return pieces


def _cut32(a: np.ndarray) -> np.ndarray:
    return plain.keep_bits(a, 24, cut=True)


# -- bias -----------------------------------------------------------------------------------------------------------


def _bias_beside(operands: Change, sums: Change, bias: Change) -> Callable[[Making], np.ndarray]:
    """Sums of rounded operands stored narrow, then a bias of a format of its own added in float32."""

    def make(m: Making) -> np.ndarray:
        needs(m.problem.bias and m.problem.dtype == "float32")
        rounded = m.rounded(operands, operands).in_float32().astype(np.float64)
        return m.store(sums(rounded), bias(m.operands["bias"].astype(np.float64)))

    return make


def _same(a: np.ndarray) -> np.ndarray:
    return a


VARIANTS = [
    Variant("float32 by BLAS", "fault-free", FAULT_FREE, ORDER, lambda m: m.store(m.in_float32())),
    Variant("float32 in 4 parts", "fault-free", FAULT_FREE, ORDER, _in_parts(4)),
    Variant("float32 in 13 parts", "fault-free", FAULT_FREE, ORDER, _in_parts(13)),
    Variant("float32 one by one", "fault-free", FAULT_FREE, ORDER, _one_by_one),
    Variant("float64, rounded", "fault-free", FAULT_FREE, ORDER, _exactly),
    Variant("NNPACK", "sound transform", EITHER, ("winograd",), transforms.run_nnpack),
    Variant("F(2,3) float32", "sound transform", EITHER, ("winograd",), transforms.winograd(2)),
    Variant("F(4,3) float32", "sound transform", EITHER, ("winograd",), transforms.winograd(4)),
    Variant("F(6,3) float32", "sound transform", EITHER, ("winograd",), transforms.winograd(6)),
    Variant("scipy fft float32", "sound transform", EITHER, ("fft",), transforms.run_fft),
    Variant("stored float16", "1 grid", LOST, STORED, _only_float32(_stored_by(plain.f16))),
    Variant("stored bfloat16", "1 grid", LOST, STORED, _only_float32(_stored_by(plain.bf16))),
    Variant("stored TF32", "1 grid", LOST, STORED, _only_float32(_stored_by(plain.tf32))),
    Variant("stored e8m13", "1 grid", LOST, STORED, _only_float32(_stored_by(lambda a: plain.keep_bits(a, 14)))),
    Variant("stored cut", "1 grid", LOST, STORED,
            _only_float32(_stored_by(lambda a: plain.keep_bits(a, 14, cut=True)))),
    Variant("half of it stored float16", "1 grid", LOST, STORED, _half_of_channels),
    Variant("int8 result", "1 grid", LOST, STORED, _quantised_result(per_channel=False)),
    Variant("int8 result per channel", "1 grid", LOST, STORED, _quantised_result(per_channel=True)),
    Variant("stochastic rounding", "6 sums", LOST, STORED, _stochastic),
    Variant("cut result", "6 sums", LOST, STORED, _cut),
    Variant("TF32", "2 operands", LOST, OPERANDS, _rounds(plain.tf32, plain.tf32)),
    Variant("float16, stored float16", "2 operands", LOST, OPERANDS, _rounds(plain.f16, plain.f16, plain.f16)),
    Variant("bfloat16, stored bfloat16", "2 operands", LOST, OPERANDS, _rounds(plain.bf16, plain.bf16, plain.bf16)),
    Variant("x bfloat16, w float16", "2 operands", LOST, OPERANDS, _rounds(plain.bf16, plain.f16)),
    Variant("x TF32, w bfloat16", "2 operands", LOST, OPERANDS, _rounds(plain.tf32, plain.bf16)),
    Variant("w float16, stored bfloat16", "2 operands", LOST, OPERANDS, _rounds(None, plain.f16, plain.bf16)),
    Variant("w int8 per tensor", "2 operands", LOST, QUANTIZED, _rounds(None, _per_tensor(127))),
    Variant("w int8 per channel", "2 operands", LOST, QUANTIZED, _per_channel(127)),
    Variant("w int4 per channel", "2 operands", LOST, QUANTIZED, _per_channel(7)),
    Variant("w int4 per 32 channels", "2 operands", LOST, QUANTIZED, _per_group(7, 32)),
    Variant("w float8 scaled", "2 operands", LOST, QUANTIZED, _rounds(None, _scaled_float8(plain.e4m3, 448))),
    Variant("w float8 e5m2", "2 operands", LOST, QUANTIZED, _rounds(None, plain.e5m2)),
    Variant("x int8", "2 operands", LOST, QUANTIZED, _rounds(_per_tensor(127), None)),
    Variant("x uint8 with a zero point", "2 operands", LOST, QUANTIZED, _rounds(_unsigned_steps, None)),
    Variant("x int8 calibrated", "2 operands", LOST, QUANTIZED, _rounds(_calibrated_steps, None)),
    Variant("x and w int8", "2 operands", LOST, QUANTIZED, _rounds(_unsigned_steps, _per_tensor(127))),
    Variant("x and w float8", "2 operands", LOST, QUANTIZED,
            _rounds(_scaled_float8(plain.e4m3, 448), _scaled_float8(plain.e4m3, 448))),
    Variant("bfloat16 sums, float32 bias", "4 bias", LOST, OPERANDS, _bias_beside(plain.bf16, plain.bf16, _same)),
    Variant("bfloat16 sums and bias", "4 bias", LOST, OPERANDS, _bias_beside(plain.bf16, plain.bf16, plain.bf16)),
    Variant("bias float16", "4 bias", LOST, OPERANDS, _bias_beside(_same, _same, plain.f16)),
    Variant("bias bfloat16", "4 bias", LOST, OPERANDS, _bias_beside(_same, _same, plain.bf16)),
    Variant("float16 sums, float32 bias", "4 bias", LOST, OPERANDS, _bias_beside(plain.f16, plain.f16, _same)),
    Variant("F(2,3) float16 inside", "5 transforms", EITHER, ("winograd",), transforms.winograd(2, plain.f16)),
    Variant("F(4,3) float16 inside", "5 transforms", EITHER, ("winograd",), transforms.winograd(4, plain.f16)),
    Variant("F(4,3) bfloat16 inside", "5 transforms", EITHER, ("winograd",), transforms.winograd(4, plain.bf16)),
    Variant("F(2,3) TF32 inside", "5 transforms", EITHER, ("winograd",), transforms.winograd(2, plain.tf32)),
    Variant("F(6,3) float16 data only", "5 transforms", EITHER, ("winograd",),
            transforms.winograd(6, plain.f16, weights=plain.f32)),
    Variant("F(4,3) along rows only", "5 transforms", EITHER, ("winograd",), transforms.winograd_1d(4, plain.f16)),
    Variant("F(2,3) all in float16", "5 transforms", EITHER, ("winograd",),
            transforms.winograd(2, plain.f16, sums=plain.f16, store=plain.f16)),
    Variant("fft in tiles", "5 transforms", EITHER, ("fft",), transforms.run_tiled_fft),
    Variant("float16 sums", "6 sums", LOST, ACCUMULATOR, _accumulates(plain.f16, plain.f16)),
    Variant("bfloat16 sums", "6 sums", LOST, ACCUMULATOR, _accumulates(plain.bf16)),
    Variant("split-K 2 in float16", "6 sums", LOST, ACCUMULATOR, _splits(2, plain.f16, plain.f16)),
    Variant("split-K 4 in float16, added in float32", "6 sums", LOST, ACCUMULATOR, _splits(4, plain.f16, plain.f32)),
    Variant("split-K 16 in float16", "6 sums", LOST, ACCUMULATOR, _splits(16, plain.f16, plain.f16)),
    Variant("split-K 6 in bfloat16", "6 sums", LOST, ACCUMULATOR, _splits(6, plain.bf16, plain.bf16)),
    Variant("float16 per 16 channels", "6 sums", LOST, ACCUMULATOR, _promotes(16, plain.f16, plain.f16, channels=True)),
    Variant("float16 per 32 products", "6 sums", LOST, ACCUMULATOR, _promotes(32, plain.f16, None, channels=False)),
    Variant("float16 per 64 products", "6 sums", LOST, ACCUMULATOR, _promotes(64, plain.f16, None, channels=False)),
    Variant("14 bits per 128 products", "6 sums", LOST, ACCUMULATOR,
            _promotes(128, lambda a: plain.keep_bits(a, 14, cut=True), None, channels=False)),
    Variant("truncated float32 sums", "6 sums", EITHER, ACCUMULATOR, _accumulates(_cut32)),
    Variant("truncated float32 sums and products", "6 sums", EITHER, ACCUMULATOR, _accumulates(_cut32, _cut32)),
    Variant("bfloat16 x2", "6 sums", LOST, OPERANDS, _splits_operands(2)),
    Variant("bfloat16 x3", "6 sums", EITHER, (*ORDER, *OPERANDS), _splits_operands(3)),
]  # fmt: skip
