"""Kernels as people write them, in plain NumPy and numba: correct ones in many orders and formats, and faulty ones.

The faults are those that collections of kernel bugs describe: tails, tiles, strides, accumulators, races, NaN; many of
them pass a comparison with `allclose` on normal data.
"""

from __future__ import annotations

import ml_dtypes
import numba
import numpy as np

RNG = np.random.default_rng(0)


def gather(problem, operands):
    """Windows and weights: [n, k, positions] and [m, k], both float64 copies of what the operands hold."""
    x, w = (operands[name].astype(np.float64) for name in ("x", "w"))
    pads = [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in problem.axes)]
    x = np.pad(x, pads)
    _, _, height, width = problem.out_shape
    (sh, sw), (dh, dw) = problem.stride, problem.dilation
    taps = [
        x[:, :, i * dh : i * dh + height * sh : sh, j * dw : j * dw + width * sw : sw]
        for i in range(w.shape[2])
        for j in range(w.shape[3])
    ]
    windows = np.stack(taps, axis=2)
    n = x.shape[0]
    return windows.reshape(n, -1, height * width), w.reshape(w.shape[0], -1)


def finish(problem, operands, sums):
    """The bias, the shape and the format of the result."""
    if problem.bias:
        sums = sums + operands["bias"].astype(sums.dtype)[None, :, None]
    out = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}
    return sums.reshape(problem.out_shape).astype(out[problem.out])


def sums_dtype(problem):
    return np.float64 if problem.dtype == "float64" else np.float32


def in_order(problem, operands, order=None, dtype=None, product=None):
    """Products added one by one."""
    dtype = dtype or sums_dtype(problem)
    windows, weights = gather(problem, operands)
    terms = range(windows.shape[1]) if order is None else order(windows.shape[1])
    total = np.zeros((windows.shape[0], weights.shape[0], windows.shape[2]), dtype)
    for k in terms:
        products = windows[:, None, k] * weights[None, :, k, None]
        total = (total + products.astype(product or dtype)).astype(dtype)
    return total


def correct(order=None, dtype=None, product=None):
    return lambda problem, operands: finish(problem, operands, in_order(problem, operands, order, dtype, product))


def pairs(problem, operands):
    windows, weights = gather(problem, operands)
    parts = (windows[:, None] * weights[None, :, :, None]).astype(sums_dtype(problem))
    while parts.shape[2] > 1:
        even = parts.shape[2] // 2 * 2
        rest = parts[:, :, even:]
        parts = np.concatenate([parts[:, :, 0:even:2] + parts[:, :, 1:even:2], rest], axis=2)
    return finish(problem, operands, parts[:, :, 0])


def by_blas(problem, operands):
    windows, weights = gather(problem, operands)
    dtype = sums_dtype(problem)
    sums = np.stack([weights.astype(dtype) @ item.astype(dtype) for item in windows])
    return finish(problem, operands, sums)


def in_float64(problem, operands):
    windows, weights = gather(problem, operands)
    return finish(problem, operands, np.einsum("mk,nkp->nmp", weights, windows))


@numba.njit(cache=False)
def _add_by_lanes(windows, weights, lanes, out):
    for n in range(windows.shape[0]):
        for m in range(weights.shape[0]):
            for p in range(windows.shape[2]):
                total = np.float32(0)
                for lane in range(lanes):
                    own = np.float32(0)
                    for k in range(lane, windows.shape[1], lanes):
                        own += np.float32(windows[n, k, p]) * np.float32(weights[m, k])
                    total += own
                out[n, m, p] = total


def lanes_in_numba(problem, operands):
    if problem.dtype == "float64":
        return in_float64(problem, operands)
    windows, weights = gather(problem, operands)
    out = np.empty((windows.shape[0], weights.shape[0], windows.shape[2]), np.float32)
    _add_by_lanes(windows, weights, 8, out)
    return finish(problem, operands, out)


CORRECT = {
    "in order": correct(),
    "backwards": correct(lambda k: range(k - 1, -1, -1)),
    "every third": correct(lambda k: [i for s in range(3) for i in range(s, k, 3)]),
    "pairs": pairs,
    "BLAS": by_blas,
    "float64": in_float64,
    "numba by lanes": lanes_in_numba,
}


def changed(change):
    """A correct kernel whose operands or result something happens to: `change(problem, windows, weights, result)`."""

    def kernel(problem, operands):
        windows, weights = gather(problem, operands)
        windows, weights, after = change(problem, windows.copy(), weights.copy())
        dtype = sums_dtype(problem)
        sums = np.stack([weights.astype(dtype) @ item.astype(dtype) for item in windows])
        result = finish(problem, operands, sums)
        return after(result) if after else result

    return kernel


def lose(index):
    def change(problem, windows, weights):
        weights[:, index] = 0
        return windows, weights, None

    return change


def alter(after):
    return lambda problem, windows, weights: (windows, weights, lambda result: after(problem, result.copy()))


def last_position_stale(problem, result):
    result[..., -1, -1] = result[..., -1, -2]
    return result


def scaled(factor):
    def after(problem, result):
        return (result.astype(np.float64) * factor).astype(result.dtype)

    return after


def wrong_pad(problem, operands):
    """The border repeated where zeros belong."""
    x = operands["x"]
    pads = [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in problem.axes)]
    padded = np.pad(x.astype(np.float64), pads, mode="edge")
    w = operands["w"].astype(np.float64)
    _, _, height, width = problem.out_shape
    sums = sum(
        np.einsum("nchw,mc->nmhw", padded[:, :, i : i + height, j : j + width], w[:, :, i, j])
        for i in range(w.shape[2])
        for j in range(w.shape[3])
    )
    return finish(problem, operands, sums.reshape(*sums.shape[:2], -1))


def unordered(problem, operands):
    """Atomic additions: another order in every run."""
    return finish(problem, operands, in_order(problem, operands, lambda k: RNG.permutation(k)))


def nan_lost(problem, operands):
    """A maximum with zero that takes NaN for a small number."""
    clean = {
        name: np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        for name, a in operands.items()
    }
    return by_blas(problem, clean)


def infinities_clamped(problem, operands):
    clean = {name: np.clip(a.astype(np.float64), -1e4, 1e4) for name, a in operands.items()}
    return by_blas(problem, clean)


def round_to(values, dtype):
    return values.astype(np.float32).astype(dtype).astype(np.float64)


def cut_to_tf32(values):
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def batch_leaks(problem, result):
    result[0] = result[0] + result[-1] * np.asarray(2.0**-12, result.dtype)
    return result


def remainder_tile_zero(problem, result):
    result[:, -(result.shape[1] % 3 or 1) :, -1] = 0
    return result


def bias_twice_for_last(problem, operands):
    result = by_blas(problem, operands)
    result = result.copy()
    result[:, -1] += operands["bias"][-1]
    return result


def bias_in_half(problem, operands):
    return by_blas(problem, {**operands, "bias": operands["bias"].astype(np.float16).astype(np.float32) * 1.001})


def store_as(dtype):
    return alter(lambda problem, result: result.astype(dtype).astype(result.dtype))


def seldom_off(problem, result):
    places = np.arange(result.size).reshape(result.shape) % 1000 == 999
    return np.where(places, result * np.asarray(1.001, result.dtype), result)


def with_operand(name, change):
    return lambda problem, operands: by_blas(problem, {**operands, name: np.ascontiguousarray(change(operands[name]))})


def without_last_row(x):
    x = x.copy()
    x[:, :, -1] = 0
    return x


def both_rounded(rounding):
    return changed(lambda problem, windows, weights: (rounding(windows), rounding(weights), None))


# Each with the verdict and, where it can be told, words of the cause that the message of its failure has.
FAULTY = {
    "wrong pad": (wrong_pad, "wrong", "padding"),
    "half accumulator": (correct(dtype=np.float16), "downgrade", "float16"),
    "lost tail of products": (changed(lose(slice(-3, None))), "wrong", ""),
    "a lost product": (changed(lose(7)), "wrong", ""),
    "unordered reduction": (unordered, "", "another run"),
    "NaN lost": (nan_lost, "", ""),
    "infinities clamped": (infinities_clamped, "", ""),
    "operands in bfloat16": (both_rounded(lambda a: round_to(a, ml_dtypes.bfloat16)), "downgrade", "bfloat16"),
    "weights in float16": (
        changed(lambda problem, windows, weights: (windows, round_to(weights, np.float16), None)),
        "downgrade",
        "float16",
    ),
    "operands cut to TF32": (both_rounded(cut_to_tf32), "downgrade", "tf32"),
    "products in float16": (correct(product=np.float16), "downgrade", "every product to float16"),
    "stored in bfloat16": (changed(store_as(ml_dtypes.bfloat16)), "downgrade", "bfloat16"),
    "a stale corner": (changed(alter(last_position_stale)), "wrong", ""),
    "scaled by 0.9999": (changed(alter(scaled(0.9999))), "", ""),
    "items leak": (changed(alter(batch_leaks)), "", ""),
    "remainder tile": (changed(alter(remainder_tile_zero)), "wrong", ""),
    "bias of the last channel twice": (bias_twice_for_last, "wrong", "bias"),
    "another bias": (bias_in_half, "", ""),
    "mirrored kernel": (with_operand("w", lambda w: w[:, :, ::-1, ::-1]), "wrong", ""),
    "channels of the weights shuffled": (with_operand("w", lambda w: w[:, ::-1]), "wrong", ""),
    "last row of x ignored": (with_operand("x", without_last_row), "wrong", ""),
    "one output in a thousand off": (changed(alter(seldom_off)), "", ""),
    "two filters exchanged": (changed(alter(lambda p, y: y[:, [1, 0, *range(2, y.shape[1])]])), "wrong", ""),
}
