"""Convolutions of integers by their definition, with any relation between indices, and observations of them.

large = small * stride - begin + tap * dilation, one 0-1 array per axis; all sums are sums of integers, so exact.
"""

from __future__ import annotations

import string

import numpy as np

from samebits.mechanisms.facts.observation import Observation
from samebits.numbers import numpy_dtype


def find_begins(problem):
    """Padding at the beginning of every axis, `same` resolved as ONNX defines it."""
    if not isinstance(problem.padding, str):
        return tuple(begin for begin, _ in problem.padding)
    begins = []
    for size, kernel, stride, dilation in zip(
        problem.x[2:], problem.w[2:], problem.stride, problem.dilation, strict=True
    ):
        outputs, inputs = (size, size * stride) if problem.is_transposed else (-(-size // stride), size)
        total = max((outputs - 1) * stride + (kernel - 1) * dilation + 1 - inputs, 0)
        begins.append(total // 2 if problem.padding == "same_upper" else total - total // 2)
    return tuple(begins)


def convolve(problem, operands, *, begins=None, strides=None, dilations=None):
    """The sums of products of a problem in int64 (float64 if an operand is), without bias and epilogue."""
    begins = find_begins(problem) if begins is None else begins
    strides, dilations = strides or problem.stride, dilations or problem.dilation
    forward = "result" if problem.direction == "forward" else "dy"
    small, large = ("x", forward) if problem.is_transposed else (forward, "x")
    target = {"forward": "result", "grad_input": "x", "grad_weight": "w"}[problem.direction]
    n, g, rank = problem.x[0], problem.groups, len(problem.w) - 2
    sizes = {"x": problem.x[2:], "w": problem.w[2:], forward: problem.y_shape[2:]}
    if "x" in operands:
        sizes["x"] = operands["x"].shape[2:]
    letters = iter(string.ascii_lowercase.replace("n", "").replace("g", ""))
    s, c, *rest = (next(letters) for _ in range(2 + 3 * rank))
    i, t, m = rest[:rank], rest[rank : 2 * rank], rest[2 * rank :]
    axes = {small: "ng" + s + "".join(i), large: "ng" + c + "".join(m), "w": "g" + s + c + "".join(t)}
    shapes = {
        small: (n, g, problem.w[0] // g, *sizes[small]),
        large: (n, g, problem.w[1], *sizes[large]),
        "w": (g, problem.w[0] // g, problem.w[1], *problem.w[2:]),
    }
    names = [name for name in axes if name != target]
    arrays = [operands[name].reshape(shapes[name]) for name in names]
    texts = [axes[name] for name in names]
    for a in range(rank):
        at = np.add.outer(
            np.arange(sizes[small][a]) * strides[a] - begins[a], np.arange(problem.w[2 + a]) * dilations[a]
        )
        arrays.append((at[:, :, None] == np.arange(sizes[large][a])).astype(np.int64))
        texts.append(i[a] + t[a] + m[a])
    return np.einsum(",".join(texts) + "->" + axes[target], *arrays, optimize=True).reshape(problem.out_shape)


def make_integers(problem, seed=0):
    """Operands of integers from -9 to 9 without zero, in int64."""
    random = np.random.default_rng(seed)
    return {n: random.integers(1, 10, s) * random.choice([-1, 1], s) for n, s in problem.operand_shapes.items()}


def finish(problem, sums, bias=None):
    """Bias added, epilogue applied."""
    if bias is not None:
        sums = sums + bias.reshape(1, -1, *(1,) * (sums.ndim - 2))
    return sums if problem.then is None else np.minimum(np.maximum(sums, problem.then.low), problem.then.high)


def compute(problem, operands, **relation):
    """The whole result in exact arithmetic."""
    return finish(problem, convolve(problem, operands, **relation), operands.get("bias"))


def observe(problem, operands, result=None):
    """An observation of the exact result (or of another), for predictions; its bound is nothing to go by."""
    truth = compute(problem, operands).astype(np.float64)
    typed = {n: a.astype(numpy_dtype(problem.dtype)) for n, a in operands.items()}
    dtype = numpy_dtype(problem.out)
    given = truth if result is None else result
    ones = np.ones(problem.out_shape)
    return Observation(problem, typed, given.astype(dtype), truth.astype(dtype), ones, ones)


def by_row(problem, result):
    """A result as predictions stand: a row for each output channel, or each filter of a weight gradient."""
    if problem.direction == "grad_weight":
        return result.reshape(problem.w[0], -1)
    return np.moveaxis(result, 1, 0).reshape(result.shape[1], -1)


def predict(hypothesis, observation):
    """A hypothesis's prediction of every output."""
    return hypothesis.predict(observation, observation.whole())
