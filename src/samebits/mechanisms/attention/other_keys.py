"""Hypotheses: other keys, values or heads are read. Shifted, stale, lost or counted twice; heads and axes exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.attention.plain_attention import (
    Altered,
    Floats,
    Operands,
    Queries,
    count_keys,
    hide_as,
    weigh_plainly,
)
from samebits.problems.attention import Attention

_BLOCKS = (8, 16, 32, 64, 128, 256, 512)
_SHIFTED_FROM, _MOST_SHIFTS = 8, 32


def list_other_keys(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Keys and values of other positions, and such as are left out or counted twice."""
    own = CauseCode.OTHER_KEYS
    last = asked.k[2] - 1
    for names, what in ((("k",), "keys"), (("v",), "values"), (("k", "v"), "keys and values")):
        if names != ("k", "v") or not asked.sees_with(operands).all():
            for step, where in ((1, "before"), (-1, "behind")):
                moved = {n: np.roll(operands[n], step, axis=2) for n in names}
                says = f"reads the {what} of the position {where}"
                yield Altered(says, own, asked, {**operands, **moved})
                end = 0 if step > 0 else last
                kept = {n: _copy(a, end + step, end) for n, a in moved.items()} if last else {}
                yield Altered(f"{says}, and the one at the end twice", own, asked, {**operands, **kept})
                cleared = {n: _clear(a, end) for n, a in moved.items()}
                yield Altered(f"{says}, and zeros at the end", own, asked, {**operands, **cleared})
        yield Altered(
            f"has zeros for the last {what}", own, asked, {**operands, **{n: _clear(operands[n], last) for n in names}}
        )
        if last:
            stale = {n: _copy(operands[n], last - 1, last) for n in names}
            yield Altered(
                f"has the {what} of the last position but one for the last: stale by one",
                own,
                asked,
                {**operands, **stale},
            )
    for first in range(_SHIFTED_FROM, min(asked.k[2], _SHIFTED_FROM * _MOST_SHIFTS), _SHIFTED_FROM):
        for names, what in ((("k",), "keys"), (("v",), "values")):
            for step, where in ((1, "before"), (-1, "behind")):
                moved = {n: np.roll(operands[n], step, axis=2) for n in names}
                # Behind the last key there is none.
                moved = {n: a if step > 0 else _copy(a, last - 1, last) for n, a in moved.items()}
                kept = {
                    n: np.concatenate([operands[n][:, :, :first], a[:, :, first:]], axis=2) for n, a in moved.items()
                }
                says = f"reads the {what} of the position {where}, from key {first} on"
                yield Altered(says, own, asked, {**operands, **kept})
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    for part, says in _list_parts(asked.k[2]):
        yield Altered(f"leaves out {says}", own, *hide_as(asked, operands, seen & ~part))
        yield Altered(f"counts {says} twice", own, asked, operands, count_keys(np.where(part, 2.0, 1.0)))


def list_lost_features(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Features of q and k that a loop over blocks leaves out of their product."""
    features = asked.q[3]
    for kept in sorted({features // 2, features - 1, *(features // block * block for block in _BLOCKS)}):
        if 0 < kept < features:
            cut = {
                n: np.where(np.arange(features) < kept, operands[n], np.zeros((), operands[n].dtype))
                for n in ("q", "k")
            }
            says = f"leaves features from {kept} on out of the scores"
            # The scale stays that of all features.
            yield Altered(says, CauseCode.OTHER_KEYS, asked, {**operands, **cut})


def _clear(array: np.ndarray, position: int) -> np.ndarray:
    cleared = array.copy()
    cleared[:, :, position] = 0
    return cleared


def _copy(array: np.ndarray, source: int, target: int) -> np.ndarray:
    copied = array.copy()
    copied[:, :, target] = array[:, :, source]
    return copied


def _list_parts(keys: int) -> Iterator[tuple[np.ndarray, str]]:
    """Keys that a loop over blocks may lose: the first, the last, the tail behind whole blocks, one block."""
    positions = np.arange(keys)
    yield positions == 0, "the first key"
    yield positions == keys - 1, "the last key"
    for block in (b for b in _BLOCKS if b < keys):
        whole = keys // block * block
        if whole < keys:
            yield positions >= whole, f"the last {keys - whole} keys, which fill no block of {block}"
        else:
            yield positions >= keys - block, f"the last block of {block} keys"
        yield positions < block, f"the first block of {block} keys"
        for number in range(1, min(keys // block, 8)):
            inside = (positions >= number * block) & (positions < (number + 1) * block)
            if (number + 1) * block < keys:
                yield inside, f"keys {number * block} to {(number + 1) * block - 1}, a block of {block}"
        if block + 1 < keys:
            yield positions % block == 0, f"the first key of each block of {block}"
            yield positions % block == block - 1, f"the last key of each block of {block}"


def list_other_heads(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Heads of k and v for other heads of q; arrays read as if heads and lengths stood in another sequence."""
    own = CauseCode.AXIS_ORDER
    heads, groups = asked.q[1], asked.k[1]
    flat = replace(asked, k=(asked.k[0], heads, *asked.k[2:]), v=(asked.v[0], heads, *asked.v[2:]))
    by_block = np.arange(heads) // asked.group
    if 1 < groups < heads:
        picked = {n: operands[n][:, np.arange(heads) % groups] for n in ("k", "v")}
        says = "maps heads of q to heads of k by the remainder, h % H_kv, in place of blocks, h // (H / H_kv)"
        yield Altered(says, own, flat, {**operands, **picked})
    if groups > 1:
        first = {n: operands[n][:, np.zeros(heads, int)] for n in ("k", "v")}
        yield Altered("reads the first head of k and v for all heads of q", own, flat, {**operands, **first})
        for names, what in ((("k",), "k"), (("v",), "v"), (("k", "v"), "k and v")):
            for step, where in ((1, "before"), (-1, "behind")):
                picked = {n: np.roll(operands[n], step, axis=1) for n in names}
                yield Altered(f"reads the head {where} of {what}", own, asked, {**operands, **picked})
            turned = {n: operands[n][:, ::-1] for n in names}
            yield Altered(f"reads the heads of {what} in reverse", own, asked, {**operands, **turned})
    for a, b in itertools.islice(itertools.combinations(range(heads), 2), 120):
        order = np.arange(heads)
        order[[a, b]] = b, a
        picked = {n: operands[n][:, by_block[order]] for n in ("k", "v")}
        moved = {**operands, "q": operands["q"][:, order], **picked}
        if operands.get("mask") is not None and operands["mask"].ndim > 2 and operands["mask"].shape[-3] > 1:
            moved["mask"] = operands["mask"][..., order, :, :]
        yield Altered(f"exchanges heads {a} and {b}", own, flat, moved)
    yield from _list_layouts(asked, operands)
    if asked.q[0] > 1:
        for names, what in ((("k", "v"), "k and v"), (("q",), "q"), (("v",), "v")):
            for step, where in ((1, "before"), (-1, "behind")):
                moved = {n: np.roll(operands[n], step, axis=0) for n in names}
                yield Altered(f"reads {what} of the item {where}", own, asked, {**operands, **moved})


def _list_layouts(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Memory of (N, heads, length, features) read as (N, length, heads, features), or written so."""
    own = CauseCode.AXIS_ORDER
    for names in (("q",), ("k",), ("v",), ("k", "v"), ("q", "k"), ("q", "k", "v")):
        if all(operands[n].shape[1] > 1 and operands[n].shape[2] > 1 for n in names):
            read = {n: _read_lengths_first(operands[n]) for n in names}
            says = f"reads {' and '.join(names)} as if lengths stood before heads"
            yield Altered(says, own, asked, {**operands, **read})
    if asked.q[1] > 1 and asked.q[2] > 1:
        says = "writes its result with lengths before heads"
        yield Altered(says, own, asked, operands, _write_lengths_first, needs_all=True)
        yield Altered(
            "reads q, k and v as if lengths stood before heads, and writes its result so", own, asked,
            {**operands, **{n: _read_lengths_first(operands[n]) for n in ("q", "k", "v")}}, _write_lengths_first,
            needs_all=True,
        )  # fmt: skip


def _read_lengths_first(array: np.ndarray) -> np.ndarray:
    items, heads, length, features = array.shape
    return np.ascontiguousarray(array).reshape(items, length, heads, features).swapaxes(1, 2)


def _write_lengths_first(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
    found = weigh_plainly(scores, values, queries)
    result, magnitudes = (np.ascontiguousarray(a.swapaxes(1, 2)).reshape(a.shape) for a in found)
    return result, magnitudes
