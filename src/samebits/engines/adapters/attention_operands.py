"""Operands of an attention as engines take them: one mask of all that is hidden, heads repeated, other axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.problems.attention import Attention


def merge_mask(
    problem: Attention, operands: Mapping[str, np.ndarray], *, has_causal: bool = False
) -> np.ndarray | None:
    """The mask that an engine is given, with what `causal` and `window` hide: true where a key is seen, or to be added.

    Four axes; None where nothing is hidden. With `has_causal` the engine is told of `causal` in another way.
    """
    bare = Attention(problem.q, problem.k, problem.v, window=problem.window) if has_causal else problem
    seen = bare.sees()[None, None]
    if problem.mask is None:
        return None if seen.all() else seen
    mask = operands["mask"]
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if problem.mask == "bool":
        return seen & mask
    return np.where(seen, mask, np.asarray(-np.inf, mask.dtype)) if not seen.all() else mask


def repeat_heads(problem: Attention, array: np.ndarray) -> np.ndarray:
    """k or v with a head for each head of q, for engines without groups."""
    return np.repeat(array, problem.group, axis=1) if problem.group > 1 else array


def put_length_first(array: np.ndarray) -> np.ndarray:
    """(N, heads, length, features) as (N, length, heads, features), or the reverse."""
    return np.ascontiguousarray(array.swapaxes(1, 2))


def explain_no_cap(problem: Attention, engine: str) -> str | None:
    """Why an engine without a cap of scores cannot compute an attention with one."""
    return f"{engine}'s attention has no softcap" if problem.softcap is not None else None


def attend_in_parts(xp: Any, problem: Attention, operands: Mapping[str, np.ndarray]) -> Any:
    """An attention as people write it with an array library's matmul, exp and sum."""
    q, k, v = operands["q"], repeat_heads(problem, operands["k"]), repeat_heads(problem, operands["v"])
    scores = xp.matmul(q, k.swapaxes(-1, -2)) * xp.asarray(problem.factor, q.dtype)
    if problem.softcap is not None:
        cap = xp.asarray(problem.softcap, q.dtype)
        scores = cap * xp.tanh(scores / cap)
    mask = merge_mask(problem, operands)
    if mask is not None and mask.dtype == bool:
        scores = xp.where(mask, scores, xp.asarray(-xp.inf, q.dtype))
    elif mask is not None:
        scores = scores + mask
    weights = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return xp.matmul(weights / weights.sum(axis=-1, keepdims=True), v)
