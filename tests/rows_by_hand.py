"""Functions of rows in mpmath, and in plain NumPy as other people compute them; shares nothing with samebits."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np


def compute_exactly(
    kind: str, row: list, *, eps: float = 0.0, weight=None, bias=None, approximate: str = "none"
) -> list:
    """One row of a function, in mpmath's working precision."""
    numbers = [mpmath.mpf(float(x)) for x in row]
    if kind == "softmax":
        weights = [mpmath.exp(x - max(numbers)) for x in numbers]
        return [w / mpmath.fsum(weights) for w in weights]
    if kind == "gelu":
        if approximate == "tanh":
            bent = [2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(44715) / 1000000 * x**3) for x in numbers]
            return [x / (1 + mpmath.exp(-b)) for x, b in zip(numbers, bent, strict=True)]
        return [x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 for x in numbers]
    mean = mpmath.fsum(numbers) / len(numbers) if kind == "layernorm" else mpmath.mpf(0)
    variance = mpmath.fsum([(x - mean) ** 2 for x in numbers]) / len(numbers)
    weights = [1] * len(numbers) if weight is None else [mpmath.mpf(float(w)) for w in weight]
    biases = [0] * len(numbers) if bias is None else [mpmath.mpf(float(b)) for b in bias]
    root = mpmath.sqrt(variance + mpmath.mpf(eps))
    return [(x - mean) / root * w + b for x, w, b in zip(numbers, weights, biases, strict=True)]


def norm_in_two_passes(x: np.ndarray, eps: float) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True, dtype=x.dtype)
    return d / np.sqrt((d * d).mean(-1, keepdims=True, dtype=x.dtype) + x.dtype.type(eps))


def norm_by_running_means(x: np.ndarray, eps: float) -> np.ndarray:
    """Welford's means, one number after the other."""
    mean = np.zeros(x.shape[:-1], x.dtype)
    square = np.zeros(x.shape[:-1], x.dtype)
    for i in range(x.shape[-1]):
        off = x[..., i] - mean
        mean = mean + off / x.dtype.type(i + 1)
        square = square + off * (x[..., i] - mean)
    root = np.sqrt(square / x.dtype.type(x.shape[-1]) + x.dtype.type(eps))
    return (x - mean[..., None]) / root[..., None]


def norm_folded(x: np.ndarray, eps: float) -> np.ndarray:
    """x times a factor, plus a number of the row's own; sums from the end."""
    mean = x[..., ::-1].cumsum(-1, dtype=x.dtype)[..., -1:] / x.dtype.type(x.shape[-1])
    d = x - mean
    factor = 1 / np.sqrt((d * d)[..., ::-1].cumsum(-1, dtype=x.dtype)[..., -1:] / x.dtype.type(x.shape[-1]) + eps)
    factor = factor.astype(x.dtype)
    return x * factor + (-mean * factor)


def norm_in_one_pass(x: np.ndarray, eps: float) -> np.ndarray:
    """The mean of squares less the squared mean."""
    mean = x.mean(-1, keepdims=True, dtype=x.dtype)
    variance = (x * x).mean(-1, keepdims=True, dtype=x.dtype) - mean * mean
    return (x - mean) / np.sqrt(np.maximum(variance, 0) + x.dtype.type(eps))


def softmax_plain(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True, dtype=x.dtype)


def make_softmax_in_blocks(size: int) -> Callable[[np.ndarray], np.ndarray]:
    """An online softmax: sums of blocks, rescaled where the maximum grows; powers of 2."""

    def compute(x: np.ndarray) -> np.ndarray:
        scaled = x * x.dtype.type(1 / math.log(2))
        most = np.full(x.shape[:-1], -np.inf, x.dtype)
        total = np.zeros(x.shape[:-1], x.dtype)
        for first in range(0, x.shape[-1], size):
            block = scaled[..., first : first + size]
            own = np.maximum(most, block.max(-1))
            total = total * np.exp2(most - own) + np.exp2(block - own[..., None]).sum(-1, dtype=x.dtype)
            most = own
        return np.exp2(scaled - most[..., None]) / total[..., None]

    return compute


def gelu_by_erf(x: np.ndarray) -> np.ndarray:
    erf = (
        np.array([math.erf(v) for v in (x / math.sqrt(2)).astype(np.float64).ravel()]).reshape(x.shape).astype(x.dtype)
    )
    return x.dtype.type(0.5) * x * (1 + erf)


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    bent = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return x.dtype.type(0.5) * x * (1 + np.tanh(bent))


def rotate_halves(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_neighbours(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)
