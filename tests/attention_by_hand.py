"""Attention in plain NumPy: sound ways to compute it in float32, and faults, each a way that kernels went wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Arrays = dict[str, np.ndarray]
F32 = np.float32


def draw(
    seed: int, *, queries: int = 24, keys: int = 40, heads: int = 4, groups: int = 2, features: int = 16
) -> Arrays:
    """q, k and v of two items, as networks have them: N(0, 1) with one feature that is larger."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((2, heads, queries, features)).astype(F32)
    k = rng.standard_normal((2, groups, keys, features)).astype(F32)
    v = rng.standard_normal((2, groups, keys, features)).astype(F32)
    q[..., 3] *= 2
    return {"q": q, "k": k, "v": v}


def repeat(array: np.ndarray, heads: int) -> np.ndarray:
    """A head of k or v for each of q's, in blocks."""
    return np.repeat(array, heads // array.shape[1], axis=1)


def find_scores(given: Arrays, scale: float | None = None) -> np.ndarray:
    """q k^T scale, in float32."""
    q, k = given["q"], repeat(given["k"], given["q"].shape[1])
    own = F32(q.shape[-1] ** -0.5 if scale is None else scale)
    return np.matmul(q, k.swapaxes(-1, -2)) * own


def see(queries: int, keys: int, moved: int = 0) -> np.ndarray:
    """A causal mask: j <= i + moved."""
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + moved


def weigh(scores: np.ndarray, given: Arrays, axis: int = -1) -> np.ndarray:
    """softmax(scores) v, in float32."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    weights = weights / weights.sum(axis=axis, keepdims=True)
    return np.matmul(weights, repeat(given["v"], given["q"].shape[1]))


def hide(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Scores with -inf where a key is not seen."""
    return np.where(seen, scores, F32(-np.inf))


def in_blocks(given: Arrays, block: int, seen: np.ndarray | None = None, *, rescales: bool = True) -> np.ndarray:
    """An online softmax over blocks of keys; a faulty one does not rescale what it has."""
    scores = find_scores(given)
    scores = scores if seen is None else hide(scores, seen)
    v = repeat(given["v"], given["q"].shape[1])
    most = np.full((*scores.shape[:-1], 1), -np.inf, F32)
    total, result = np.zeros_like(most), np.zeros((*scores.shape[:-1], v.shape[-1]), F32)
    for first in range(0, scores.shape[-1], block):
        part = scores[..., first : first + block]
        new = np.maximum(most, part.max(axis=-1, keepdims=True))
        with np.errstate(invalid="ignore"):
            factor = np.where(np.isfinite(most), np.exp(most - new), F32(0)) if rescales else F32(1)
            weights = np.where(np.isfinite(part), np.exp(part - new), F32(0))
        total = total * factor + weights.sum(axis=-1, keepdims=True)
        result = result * factor + np.matmul(weights, v[..., first : first + block, :])
        most = new
    return result / total


def in_reverse(given: Arrays) -> np.ndarray:
    """Keys from the last to the first, one product after the other."""
    scores, v = find_scores(given), repeat(given["v"], given["q"].shape[1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result, total = np.zeros((*weights.shape[:-1], v.shape[-1]), F32), np.zeros((*weights.shape[:-1], 1), F32)
    for j in range(weights.shape[-1] - 1, -1, -1):
        result = result + weights[..., j : j + 1] * v[:, :, j : j + 1]
        total = total + weights[..., j : j + 1]
    return result / total


def with_powers_of_two(given: Arrays) -> np.ndarray:
    """exp2 with log2(e) in the scale, as GPU kernels have it."""
    scores = find_scores(given, given["q"].shape[-1] ** -0.5 * 1.4426950408889634)
    weights = np.exp2(scores - scores.max(axis=-1, keepdims=True))
    return np.matmul(weights, repeat(given["v"], given["q"].shape[1])) / weights.sum(axis=-1, keepdims=True)


def with_split_scale(given: Arrays) -> np.ndarray:
    """The square root of the scale in q and in k."""
    root = F32(given["q"].shape[-1] ** -0.25)
    return weigh(find_scores({**given, "q": given["q"] * root, "k": given["k"] * root}, 1.0), given)


SOUND: dict[str, Callable[[Arrays], np.ndarray]] = {
    "plainly": lambda given: weigh(find_scores(given), given),
    "in blocks of 8": lambda given: in_blocks(given, 8),
    "in blocks of 16": lambda given: in_blocks(given, 16),
    "in reverse": in_reverse,
    "with powers of two": with_powers_of_two,
    "with a split scale": with_split_scale,
}


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The nearest numbers of bfloat16, in float32."""
    bits = array.astype(F32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(F32)


def _mask(given: Arrays) -> np.ndarray:
    """Padding: the second item has fewer keys."""
    keys = given["k"].shape[2]
    return np.arange(keys)[None, None, None, :] < np.array([keys - 7, keys - 15]).reshape(2, 1, 1, 1)


def _round_weights(given: Arrays, round_: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    scores = find_scores(given)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = round_(weights / weights.sum(axis=-1, keepdims=True))
    return np.matmul(weights, repeat(given["v"], given["q"].shape[1]))


def _other_sum(given: Arrays) -> np.ndarray:
    scores = find_scores(given)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    extra = 24 * np.exp(-scores.max(axis=-1, keepdims=True))
    return np.matmul(weights / (weights.sum(axis=-1, keepdims=True) + extra), repeat(given["v"], given["q"].shape[1]))


def _one_head(given: Arrays) -> np.ndarray:
    result = weigh(find_scores(given), given)
    other = weigh(hide(find_scores(given), see(given["q"].shape[2], given["k"].shape[2])), given)
    result[1, 2] = other[1, 2]
    return result


def _lengths_first(given: Arrays) -> np.ndarray:
    result = weigh(find_scores(given), given)
    return np.ascontiguousarray(result.swapaxes(1, 2)).reshape(result.shape)


def _heads_by_remainder(given: Arrays) -> np.ndarray:
    tiled = {**given, **{n: np.tile(given[n], (1, 2, 1, 1)) for n in ("k", "v")}}
    return weigh(find_scores(tiled), tiled)


def _last_query_sees_all(given: Arrays) -> np.ndarray:
    queries, keys = given["q"].shape[2], given["k"].shape[2]
    seen = see(queries, keys)
    seen[-1] = True
    return weigh(hide(find_scores(given), seen), given)


def _other_cap(given: Arrays) -> np.ndarray:
    return weigh(F32(3) * np.tanh(find_scores(given) / F32(3)), given)


def _counted(given: Arrays) -> np.ndarray:
    """Keys 9 to 14 twice, key 30 not at all."""
    times = np.ones(given["k"].shape[2], F32)
    times[9:15], times[30] = 2, 0
    scores = find_scores(given)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True)) * times
    return np.matmul(weights / weights.sum(axis=-1, keepdims=True), repeat(given["v"], given["q"].shape[1]))


def _split(given: Arrays) -> np.ndarray:
    """Four parts of the keys, averaged."""
    parts = [{**given, **{n: given[n][:, :, i : i + 10] for n in ("k", "v")}} for i in range(0, 40, 10)]
    return sum(weigh(find_scores(part), part) for part in parts) / F32(4)


def _dropout(given: Arrays) -> np.ndarray:
    """On two heads only; there are fewer keys than features."""
    scores = hide(find_scores(given), np.arange(given["k"].shape[2]) < 12)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    dropped = np.random.default_rng(5).random(weights.shape) < 0.2
    weights[:, :2] = np.where(dropped, F32(0), weights / F32(0.8))[:, :2]
    return np.matmul(weights, repeat(given["v"], given["q"].shape[1]))


def _narrow_sum(given: Arrays) -> np.ndarray:
    """The sum of the weights in float16, key by key."""
    scores = find_scores(given)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = np.zeros(weights.shape[:-1], np.float16)
    for j in range(weights.shape[-1]):
        total = (total.astype(F32) + weights[..., j]).astype(np.float16)
    return np.matmul(weights, repeat(given["v"], given["q"].shape[1])) / total.astype(F32)[..., None]


def _narrow_heads(given: Arrays) -> np.ndarray:
    result = weigh(find_scores(given), given)
    result[:, 1:3] = weigh(find_scores({n: to_bfloat16(a) for n, a in given.items()}), given)[:, 1:3]
    return result


# By name: what the problem says behind its shapes, the extra operands, the fault, and its cause.
Fault = tuple[str, Callable[[Arrays], Arrays], Callable[[Arrays], np.ndarray], str]
_NOTHING: Callable[[Arrays], Arrays] = lambda given: {}  # noqa: E731  (a table of small functions)
_PADDED: Callable[[Arrays], Arrays] = lambda given: {"mask": _mask(given)}  # noqa: E731  (as above)


def _shape(given: Arrays) -> tuple[int, int]:
    return given["q"].shape[2], given["k"].shape[2]


FAULTS: dict[str, Fault] = {
    "upper left in place of lower right": (
        "causal=lower_right", _NOTHING, lambda g: weigh(hide(find_scores(g), see(*_shape(g))), g), "hidden-keys",
    ),
    "lower right in place of upper left": (
        "causal", _NOTHING, lambda g: weigh(hide(find_scores(g), see(*_shape(g), 16)), g), "hidden-keys",
    ),
    "causal left out": ("causal", _NOTHING, lambda g: weigh(find_scores(g), g), "hidden-keys"),
    "causal though not asked": ("", _NOTHING, lambda g: weigh(hide(find_scores(g), see(*_shape(g))), g), "hidden-keys"),
    "one key too many": (
        "causal", _NOTHING, lambda g: weigh(hide(find_scores(g), see(*_shape(g), 1)), g), "hidden-keys",
    ),
    "the last query sees all": ("causal", _NOTHING, _last_query_sees_all, "hidden-keys"),
    "mask ignored": ("mask=bool", _PADDED, lambda g: weigh(find_scores(g), g), "hidden-keys"),
    "mask inverted": ("mask=bool", _PADDED, lambda g: weigh(hide(find_scores(g), ~_mask(g)), g), "hidden-keys"),
    "mask of the other item": (
        "mask=bool", _PADDED, lambda g: weigh(hide(find_scores(g), _mask(g)[::-1]), g), "hidden-keys",
    ),
    "hidden by 0": (
        "mask=bool", _PADDED, lambda g: weigh(np.where(_mask(g), find_scores(g), F32(0)), g), "hidden-keys",
    ),
    "window ignored": (
        "causal window=5", _NOTHING, lambda g: weigh(hide(find_scores(g), see(*_shape(g))), g), "hidden-keys",
    ),
    "no scale": ("", _NOTHING, lambda g: weigh(find_scores(g, 1.0), g), "dropped-attribute"),
    "scale of padded features": ("", _NOTHING, lambda g: weigh(find_scores(g, 24**-0.5), g), "dropped-attribute"),
    "softcap left out": ("softcap=2.0", _NOTHING, lambda g: weigh(find_scores(g), g), "dropped-attribute"),
    "heads by remainder": ("", _NOTHING, _heads_by_remainder, "axis-order"),
    "lengths first": ("", _NOTHING, _lengths_first, "axis-order"),
    "keys shifted": (
        "", _NOTHING, lambda g: weigh(find_scores({**g, "k": np.roll(g["k"], 1, axis=2)}), g), "other-keys",
    ),
    "tail lost": (
        "", _NOTHING, lambda g: weigh(hide(find_scores(g), np.arange(g["k"].shape[2]) < 32), g), "other-keys",
    ),
    "over the queries": ("", _NOTHING, lambda g: weigh(find_scores(g), g, axis=-2), "softmax"),
    "not rescaled": ("", _NOTHING, lambda g: in_blocks(g, 16, rescales=False), "softmax"),
    "padding in the sum": ("", _NOTHING, _other_sum, "softmax"),
    "another softcap": ("softcap=2.0", _NOTHING, _other_cap, "dropped-attribute"),
    "hidden by -4": (
        "mask=bool", _PADDED, lambda g: weigh(np.where(_mask(g), find_scores(g), find_scores(g) - F32(4)), g),
        "hidden-keys",
    ),
    "window one too wide behind": (
        "window=5", _NOTHING,
        lambda g: weigh(hide(find_scores(g), see(*_shape(g), 5) & ~see(*_shape(g), -5)), g), "hidden-keys",
    ),
    "keys counted twice, one lost": ("", _NOTHING, _counted, "other-keys"),
    "parts averaged": ("", _NOTHING, _split, "softmax"),
    "sum in float16": ("", _NOTHING, _narrow_sum, "narrow-intermediate"),
    "two heads in bfloat16": ("", _NOTHING, _narrow_heads, "reduced-precision-operands"),
    "dropout": ("mask=bool", _NOTHING, _dropout, "softmax"),
    "one head causal": ("", _NOTHING, _one_head, "hidden-keys"),
    "weights in bfloat16": ("", _NOTHING, lambda g: _round_weights(g, to_bfloat16), "narrow-intermediate"),
    "weights in float16": (
        "", _NOTHING, lambda g: _round_weights(g, lambda a: a.astype(np.float16).astype(F32)), "narrow-intermediate",
    ),
    "operands in bfloat16": (
        "", _NOTHING,
        lambda g: weigh(
            find_scores({n: to_bfloat16(a) for n, a in g.items()}), {n: to_bfloat16(a) for n, a in g.items()}
        ),
        "reduced-precision-operands",
    ),
}  # fmt: skip
