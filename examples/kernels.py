"""Kernels of one's own, each with one fault that people really write; `plain` is right.

samebits compare "conv1d x=2x4x32 w=8x4x5 padding=2" --on ./examples/kernels.py:flipped
"""

from collections.abc import Mapping

import numpy as np

from samebits.engine import Problem

Operands = Mapping[str, np.ndarray]


def find_padding(problem: Problem) -> tuple[int, int]:
    """How much is padded at the beginning and at the end."""
    assert not isinstance(problem.padding, str), "a number is needed"
    return problem.padding[0]


def add_taps(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sum over the taps of a kernel, of x that has its padding."""
    length = x.shape[2] - w.shape[2] + 1
    taps = [np.einsum("nci,oc->noi", x[:, :, k : k + length], w[:, :, k]) for k in range(w.shape[2])]
    return np.ascontiguousarray(np.sum(taps, axis=0), np.float32)


def plain(problem: Problem, operands: Operands) -> np.ndarray:
    """A 1-D convolution with stride 1, tap by tap."""
    return add_taps(np.pad(operands["x"], ((0, 0), (0, 0), find_padding(problem))), operands["w"])


def flipped(problem: Problem, operands: Operands) -> np.ndarray:
    """Convolves as signal processing does it: the kernel from behind."""
    return plain(problem, {**operands, "w": operands["w"][:, :, ::-1]})


def halved(problem: Problem, operands: Operands) -> np.ndarray:
    """Keeps its result in float16 on the way."""
    return plain(problem, operands).astype(np.float16).astype(np.float32)


def padded_late(problem: Problem, operands: Operands) -> np.ndarray:
    """Pads at the end alone, as much as was asked for on both sides."""
    begin, end = find_padding(problem)
    return add_taps(np.pad(operands["x"], ((0, 0), (0, 0), (0, begin + end))), operands["w"])


def packets(problem: Problem, operands: Operands) -> np.ndarray:
    """Right, in two orders: outputs go in packets of four that add taps in pairs; those left over add one by one.

    So did a framework of 2017: an input of 7 has three outputs and no packet, one of 8 has a packet.
    """
    x, w = np.pad(operands["x"], ((0, 0), (0, 0), find_padding(problem))), operands["w"]
    bias = operands.get("bias", np.zeros(w.shape[0], np.float32))
    length = x.shape[2] - w.shape[2] + 1
    terms = [x[:, None, c, k : k + length] * w[:, c, k, None] for c, k in np.ndindex(w.shape[1:])]
    one_by_one, pairs = np.zeros_like(terms[0]), list(terms)
    for term in terms:
        one_by_one = one_by_one + term
    while len(pairs) > 1:
        pairs = [a + b for a, b in zip(pairs[::2], pairs[1::2], strict=False)] + pairs[len(pairs) // 2 * 2 :]
    in_packet = np.arange(length) < length // 4 * 4
    return np.where(in_packet, pairs[0], one_by_one) + bias[:, None]


def softmax(problem: object, operands: Operands) -> np.ndarray:
    """A softmax of rows, whose sum leaves out what is behind the last whole block of 32 numbers."""
    weights = np.exp(operands["x"] - operands["x"].max(axis=-1, keepdims=True))
    blocks = weights.shape[-1] // 32 * 32
    return weights / weights[..., :blocks].sum(axis=-1, keepdims=True)
