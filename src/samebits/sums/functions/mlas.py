"""Functions of MLAS, onnxruntime's library of kernels, on x86-64 processors with AVX2 and FMA.

What is no kernel of MLAS, onnxruntime computes by Eigen, in packets of four. All functions take and give float32; rows
lie along the last axis. Source: onnxruntime, which states coefficients and the sequence of operations in
core/mlas/lib (logistic.cpp, tanh.cpp, erf.cpp, gelu.cpp, compute.cpp, layernorm_kernel_avx2.cpp, x86_64/*Fma3.S),
core/providers/cpu/nn (layer_norm_impl.cc, instance_norm.cc, batch_norm.h) and contrib_ops/cpu (skip_layer_norm.cc,
bert/bias_gelu_helper.h, bert/fast_gelu.cc).
"""

from __future__ import annotations

import numpy as np

from samebits.sums.functions.fused import evaluate, multiply_add
from samebits.sums.functions.lane_sums import add_aligned, add_in_lanes, add_packets, join_lanes

_LOGISTIC_ABOVE = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
                   2.48287947061529e-01)  # fmt: skip
_LOGISTIC_BELOW = (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
                   1.16817656904453e-01, 9.93151921023180e-01)  # fmt: skip
_TANH_ABOVE = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
               1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03)  # fmt: skip
_TANH_BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
_EXP = (*map(float.fromhex, ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2")), 1.0)
_ERF_SMALL = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
_ERF_LARGE = (1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2, 1.06777847e-1, 6.34846687e-1,
              1.28717512e-1)  # fmt: skip
_ERF_EXP = (1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1.0, 1.0)
# Until 2025 the first was 3.725, where what follows is not 1 yet.
_ERF_ENDS, _ERF_SPLITS = 3.925, 0.921875
# Adding it rounds to a whole number, and shifts that to the last bits.
_ROUNDING = 12582912.0
_PER_LN2, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, -6.93145752e-1, -1.42860677e-6
_EXP_RANGE, _SUMMED_EXP_LEAST = (-103.9720840454, 88.7762626647950), -88.3762626647949
_PER_ROOT2 = 0.70710678118654752440
_GELU_LINEAR, _GELU_CUBIC = 0.7978845608028654, 0.035677408136300125
_LANES, _PACKET = 8, 4


def compute_logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), as one half more than a quotient of polynomials."""
    x = np.clip(x, np.float32(-18), np.float32(18))
    square = x * x
    above = evaluate(_LOGISTIC_ABOVE, square) * x
    found = above / evaluate(_LOGISTIC_BELOW, square) + np.float32(0.5)
    return np.clip(found, np.float32(0), np.float32(1))


def compute_tanh(x: np.ndarray) -> np.ndarray:
    """tanh(x), a quotient of polynomials."""
    x = np.clip(x, np.float32(-9), np.float32(9))
    square = x * x
    return evaluate(_TANH_ABOVE, square) * x / evaluate(_TANH_BELOW, square)


def compute_exp(x: np.ndarray) -> np.ndarray:
    """exp(x): a power of two, in two factors, times a polynomial of what is left."""
    least, most = _EXP_RANGE
    x = np.clip(x, np.float32(least), np.float32(most))
    power, rest = _reduce(x)
    usual = np.clip(power, -126, 127)
    beyond = _raise_two(power - usual)
    value = multiply_add(evaluate(_EXP, rest), rest * beyond, beyond)
    return value * _raise_two(usual)


def compute_erf(x: np.ndarray) -> np.ndarray:
    """The error function: a polynomial below a split, 1 - exp of another one above."""
    size = np.minimum(np.abs(x), np.float32(_ERF_ENDS))
    small = multiply_add(evaluate(_ERF_SMALL, size * size), size, size)
    power, rest = _reduce(
        np.maximum(-multiply_add(evaluate(_ERF_LARGE, size), size, size), np.float32(-88.3762626647949))
    )
    large = np.float32(1) - evaluate(_ERF_EXP, rest) * _raise_two(power)
    return np.copysign(np.where(size >= np.float32(_ERF_SPLITS), large, small), x)


def compute_gelu(x: np.ndarray) -> np.ndarray:
    """x (1 + erf(x / sqrt 2)) / 2."""
    return np.float32(0.5) * x * (compute_erf(x * np.float32(_PER_ROOT2)) + np.float32(1))


def compute_fast_gelu(x: np.ndarray) -> np.ndarray:
    """x (1 + tanh(x (c x x + b))) / 2, which is near gelu."""
    inner = x * (np.float32(_GELU_CUBIC) * x * x + np.float32(_GELU_LINEAR))
    return np.float32(0.5) * x * (compute_tanh(inner) + np.float32(1))


def compute_softmax(x: np.ndarray) -> np.ndarray:
    """The softmax of every row: exp of the distance from the largest, times the rounded reciprocal of their sum."""
    moved = np.maximum(x - x.max(-1, keepdims=True), np.float32(_SUMMED_EXP_LEAST))
    power, rest = _reduce(moved)
    powers = multiply_add(evaluate(_EXP, rest), rest, np.float32(1)) * _raise_two(power)
    return powers * (np.float32(1) / add_in_lanes(powers, _LANES, "neighbours", masked=True))[..., None]


def compute_layer_norm(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray | None, epsilon: float, *, centred: bool = True
) -> np.ndarray:
    """Every row less its mean, which is added in float64, divided by the root of its mean square distance from that.

    Without `centred` nothing is subtracted. Short rows are computed one element after the other.
    """
    count = x.shape[-1]
    if count < (_LANES if centred else 2 * _LANES):
        return compute_layer_norm_in_sequence(x, scale, shift, epsilon, centred=centred)
    mean = np.zeros(x.shape[:-1], np.float32)
    if centred:
        lanes = count // 4 * 4
        sums = np.zeros((*x.shape[:-1], 4))
        for i in range(0, lanes, 4):
            sums = sums + x[..., i : i + 4]
        total = sums[..., :2] + sums[..., 2:]
        total = total[..., 0] + total[..., 1]
        for i in range(lanes, count):
            total = total + x[..., i]
        mean = (total / count).astype(np.float32)
    apart = x - mean[..., None] if centred else x
    whole = count // _LANES * _LANES
    squares = np.zeros((*x.shape[:-1], _LANES), np.float32)
    for i in range(0, whole, _LANES):
        squares = multiply_add(apart[..., i : i + _LANES], apart[..., i : i + _LANES], squares)
    square = join_lanes(squares, "halves")
    for i in range(whole, count):
        # What is left after the blocks: four squares at once, added one by one, then fused.
        one = apart[..., i]
        square = square + one * one if i - whole < (count - whole) // 4 * 4 else multiply_add(one, one, square)
    inverse = np.float32(1) / np.sqrt(square / np.float32(count) + np.float32(epsilon))
    scaled = apart * inverse[..., None]
    return scaled * scale if shift is None else multiply_add(scaled, scale, shift)


def compute_layer_norm_in_one_pass(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray | None, epsilon: float, *, centred: bool = True
) -> np.ndarray:
    """The norm of older releases: sums of x and of x x, one element after the other, nothing fused."""
    total, square = (np.zeros(x.shape[:-1], np.float32) for _ in range(2))
    for i in range(x.shape[-1]):
        total, square = total + x[..., i], square + x[..., i] * x[..., i]
    count = np.float32(x.shape[-1])
    mean, moment = total / count, square / count
    spread = moment - mean * mean if centred else moment
    return _finish_norm(x, mean, spread, scale, shift, epsilon, centred=centred)


def compute_layer_norm_in_sequence(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray | None, epsilon: float, *, centred: bool = True
) -> np.ndarray:
    """The norm where it is fused with the sums before it: mean and spread corrected with each element."""
    return _finish_norm(x, *_add_running(x, centred=centred), scale, shift, epsilon, centred=centred)


def _add_running(x: np.ndarray, *, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square distance from it, both corrected with each element (Welford); or the mean square."""
    mean, square = (np.zeros(x.shape[:-1], np.float32) for _ in range(2))
    for i in range(x.shape[-1]):
        if centred:
            before = x[..., i] - mean
            mean = mean + before / np.float32(i + 1)
            square = square + before * (x[..., i] - mean)
        else:
            square = square + x[..., i] * x[..., i]
    return mean, square / np.float32(x.shape[-1])


def _finish_norm(
    x: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    scale: np.ndarray,
    shift: np.ndarray | None,
    epsilon: float,
    *,
    centred: bool,
) -> np.ndarray:
    deviation = np.sqrt(spread + np.float32(epsilon))
    scaled = (x - mean[..., None] if centred else x) / deviation[..., None] * scale
    return scaled if shift is None else scaled + shift


def compute_instance_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, epsilon: float) -> np.ndarray:
    """Every row of (items, channels, elements) normed, by one factor and one shift; sums as Eigen adds them."""
    count = np.float32(x.shape[-1])
    mean = add_aligned(x, _PACKET) / count
    apart = x - mean[..., None]
    factor = scale * (np.float32(1) / np.sqrt(add_packets(apart * apart, _PACKET) / count + np.float32(epsilon)))
    return x * factor[..., None] + (shift - mean * factor)[..., None]


def fold_batch_norm(
    scale: np.ndarray, shift: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """A batch norm as one factor and one shift for each channel."""
    factor = scale * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))
    return factor, shift - mean * factor


def _reduce(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m and r of x = m ln 2 + r, m whole: as float32 numbers."""
    rounding = np.float32(_ROUNDING)
    power = multiply_add(x, _PER_LN2, rounding) - rounding
    return power, multiply_add(power, _LN2_LOW, multiply_add(power, _LN2_HIGH, x))


def _raise_two(power: np.ndarray) -> np.ndarray:
    """2 to whole powers, put into a float32's exponent as bits: 2 to the -127 is 0 there."""
    return ((power.astype(np.int32) + 127) << 23).view(np.float32)
