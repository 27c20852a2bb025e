"""Operands as networks have them: behind a relu, pictures, letterboxed ones, folded normalisation, mostly zeros."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from samebits.problems import Problem

KINDS = ("relu", "picture", "letterbox", "normal", "mostly zeros")
_DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}


def make_operands(problem: Problem, kind: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Seeded operands; weights by He's rule, each output channel times a factor as folded batch norms have."""
    shapes = problem.operand_shapes
    operands: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        if name == "x":
            values = _make_activations(shape, kind, rng)
        elif name == "dy":
            values = rng.normal(0, 1e-2, shape) * (rng.random(shape) < 0.6)
        elif name == "bias":
            values = rng.normal(0, 1, shape)
        else:
            values = _make_weights(problem, shape, rng)
        operands[name] = values.astype(np.float32).astype(_DTYPES[problem.dtype])
    return operands


def _make_activations(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    values = rng.normal(0, 1, shape)
    if kind == "normal":
        return values
    if kind == "relu":
        channels = (1, -1, *(1,) * (len(shape) - 2)) if len(shape) > 2 else (1, -1)
        scale = np.exp(rng.normal(0, 0.7, shape[1])).reshape(channels)
        return np.maximum(values * scale + 0.2, 0)
    if kind == "mostly zeros":
        return values * (rng.random(shape) < 0.1)
    smooth = values
    for axis in range(min(2, len(shape)), len(shape)):
        smooth = (smooth + np.roll(smooth, 1, axis) + np.roll(smooth, -1, axis)) / 2
    picture = np.clip(np.rint(128 + 50 * smooth), 0, 255)
    if kind == "letterbox" and len(shape) > 2:
        # Bars of one grey above and below.
        bar = max(shape[2] // 5, 1)
        picture[:, :, :bar] = 114
        picture[:, :, -bar:] = 114
    return picture


def _make_weights(problem: Problem, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if problem.kind == "matmul":
        return rng.normal(0, (2 / shape[0]) ** 0.5, shape) * np.exp(rng.normal(0, 0.4, (1, shape[1])))
    fan = int(np.prod(shape[1:]))
    values = rng.normal(0, (2 / fan) ** 0.5, shape)
    if problem.is_transposed:
        return values
    return values * np.exp(rng.normal(0, 0.4, (shape[0], *(1,) * (len(shape) - 1))))
