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
