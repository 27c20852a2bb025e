"""Functions of rows as people write them with an array library's own operations, for numpy, torch, jax and Keras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from samebits.problems.row_functions import RowFunction


def rotate(library: Any, problem: RowFunction, given: Mapping[str, Any]) -> Any:
    """A rotation, x * cos + (-b, a) * sin; `library` joins arrays, and `given` are its arrays."""
    x, cos, sin = given["x"], given["cos"], given["sin"]
    half = problem.x[3] // 2
    if problem.interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return library.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(problem.x)
    both = [library.concatenate([angles, angles], -1) for angles in (cos, sin)]
    turned = library.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * both[0] + turned * both[1]


def scale(problem: RowFunction, normalized: Any, given: Mapping[str, Any]) -> Any:
    """What is normalised times weight, plus bias."""
    scaled = normalized * given["weight"] if problem.has_weight else normalized
    return scaled + given["bias"] if problem.has_bias else scaled


def normalize(library: Any, problem: RowFunction, given: Mapping[str, Any]) -> Any:
    """A norm in two passes: the mean, then the mean of the squares of what is left."""
    x, axes = given["x"], tuple(range(len(problem.x) - problem.axes, len(problem.x)))
    if problem.kind == "layernorm":
        x = x - library.mean(x, axes, keepdims=True)
    variance = library.mean(x * x, axes, keepdims=True)
    return scale(problem, x / library.sqrt(variance + x.dtype.type(problem.eps)), given)


def bend(library: Any, problem: RowFunction, given: Mapping[str, Any]) -> Any:
    """gelu by tanh."""
    x, number = given["x"], given["x"].dtype.type
    bent = number(math.sqrt(2 / math.pi)) * (x + number(0.044715) * x * x * x)
    return number(0.5) * x * (number(1) + library.tanh(bent))


def weigh(library: Any, problem: RowFunction, given: Mapping[str, Any]) -> Any:
    """A softmax: the largest is taken off first."""
    x = given["x"]
    weights = library.exp(x - library.max(x, problem.axis, keepdims=True))
    return weights / library.sum(weights, problem.axis, keepdims=True)


def compute_plainly(library: Any, problem: RowFunction, given: Mapping[str, Any]) -> Any:
    """Any of them but gelu by erf, with NumPy's functions."""
    ways = {"softmax": weigh, "layernorm": normalize, "rmsnorm": normalize, "gelu": bend, "rope": rotate}
    return ways[problem.kind](library, problem, given)
