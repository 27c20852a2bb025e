"""Hypotheses: another scale or cap, and another softmax. Over another axis, not normalised, blocks not rescaled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.attention.plain_attention import (
    Altered,
    Bend,
    Floats,
    Operands,
    Queries,
    apply_weights,
    exponentiate,
    find_weights,
)
from samebits.problems.attention import Attention

BLOCKS = (8, 16, 32, 64, 128, 256, 512)
_SPLITS = (2, 3, 4, 6, 8, 16)


def list_bent_softmaxes(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Other scales and caps as attributes, then other softmaxes."""
    yield from _list_attributes(asked, operands)
    own = CauseCode.SOFTMAX
    yield Altered("does not divide by the sum of the weights", own, asked, operands, _leave_sum)
    yield Altered(
        "normalises over the queries in place of the keys", own, asked, operands, _over_axis(-2), needs_all=True
    )
    if asked.q[1] > 1:
        yield Altered("normalises over the heads in place of the keys", own, asked, operands, _over_axis(1))
    yield Altered(
        "has 1 more in the sum of the weights: a softmax with a zero beside the keys", own, asked, operands, _add_one
    )
    for step, where in ((1, "before"), (-1, "behind")):
        bend = _of_another_row(step)
        yield Altered(f"divides by the sum of the query {where}", own, asked, operands, bend, needs_all=True)
    for block in BLOCKS:
        if block < asked.k[2]:
            keys = f"blocks of {block} keys"
            for what, rescaled in (
                ("neither sum nor result", (False, False)),
                ("the sum and not the result", (True, False)),
                ("the result and not the sum", (False, True)),
            ):
                says = f"rescales {what} of earlier {keys} when the largest score grows"
                yield Altered(says, own, asked, operands, _in_blocks(block, *rescaled))
            yield Altered(f"divides by the sum of the last of its {keys}", own, asked, operands, _by_last_block(block))

    for parts in _SPLITS:
        if parts < asked.k[2]:
            for weighed, what in (
                (False, "the same"),
                (True, "as much as their sums, each relative to its own maximum"),
            ):
                says = f"joins the results of {parts} parts of the keys as if they weighed {what}"
                yield Altered(says, own, asked, operands, _join_parts(parts, weighed=weighed))


def _join_parts(parts: int, *, weighed: bool) -> Bend:
    """Splits over the keys, as in decoding, whose results are joined without their largest scores."""

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        size = -(-scores.shape[-1] // parts)
        found: list[tuple[Floats, Floats, Floats]] = []
        for first in range(0, scores.shape[-1], size):
            part = scores[..., first : first + size]
            most = part.max(axis=-1, keepdims=True)
            weights = np.where(np.isfinite(part), np.exp(part - np.where(np.isfinite(most), most, 0.0)), 0.0)
            total = weights.sum(axis=-1, keepdims=True)
            own = apply_weights(weights / np.where(total > 0, total, 1.0), values[..., first : first + size, :])
            found.append((*own, total if weighed else (total > 0).astype(np.float64)))
        whole = sum(share for _, _, share in found)
        result, magnitudes = (sum(part[i] * part[2] for part in found) / whole for i in (0, 1))
        return np.asarray(result), np.asarray(magnitudes)

    return bend


def _list_attributes(asked: Attention, operands: Operands) -> Iterator[Altered]:
    own = CauseCode.DROPPED_ATTRIBUTE
    features = asked.q[3]
    scale = asked.factor
    others = {
        "no scale": 1.0,
        "the scale applied twice": scale * scale,
        "a scale of 1/d": 1 / features,
        "the default scale of 1/sqrt(d)": replace(asked, scale=None).factor,
        "the square root of the scale": math.sqrt(scale),
        "the reciprocal of the scale": 1 / scale,
        "the scale of all heads' features together": (features * asked.q[1]) ** -0.5,
        "the scale of values' features": asked.v[3] ** -0.5,
        "powers of 2 in place of those of e": scale * math.log(2),
        "exponents that were multiplied by log2(e) without taking powers of 2": scale / math.log(2),
        "half the scale": scale / 2,
        "double the scale": 2 * scale,
        "a scale of sqrt(2)/sqrt(d)": scale * math.sqrt(2),
        "a scale of 1/sqrt(2d)": scale / math.sqrt(2),
    }
    for says, other in others.items():
        if other != scale:
            yield Altered(
                f"has {says}: {other:.6g} in place of {scale:.6g}", own, replace(asked, scale=other), operands
            )
    if asked.softcap is not None:
        yield Altered("leaves the softcap out", own, replace(asked, softcap=None), operands)
        for factor in (0.5, 2.0):
            cap = asked.softcap * factor
            says = f"has a softcap of {cap:g} in place of {asked.softcap:g}"
            yield Altered(says, own, replace(asked, softcap=cap), operands)
        yield Altered("caps scores before it scales them", own, replace(asked, softcap=asked.softcap * scale), operands)
        if asked.mask == "add":
            yield Altered(
                "caps scores after the mask was added", own, replace(asked, softcap=None), operands, _cap(asked)
            )


def _cap(asked: Attention) -> Bend:
    cap = asked.softcap or 1.0

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        capped = np.where(np.isfinite(scores), cap * np.tanh(scores / cap), -np.inf)
        return apply_weights(find_weights(capped), values)

    return bend


def _leave_sum(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
    return apply_weights(exponentiate(scores), values)


def _over_axis(axis: int) -> Bend:
    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        most = np.where(np.isfinite(scores), scores, -np.inf).max(axis=axis, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(most), most, 0.0))
        return apply_weights(weights / weights.sum(axis=axis, keepdims=True), values)

    return bend


def _add_one(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
    # exp(0) beside the others: with or without the largest score taken out, the same function.
    weights = np.exp(scores)
    return apply_weights(weights / (1 + weights.sum(axis=-1, keepdims=True)), values)


def _of_another_row(step: int) -> Bend:
    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        weights = exponentiate(scores)
        sums = weights.sum(axis=-1, keepdims=True)
        return apply_weights(weights / np.roll(sums, step, axis=-2), values)

    return bend


def _in_blocks(block: int, rescales_sum: bool, rescales_result: bool) -> Bend:
    """An online softmax, block by block, that forgets to rescale what it has when the largest score grows."""

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        running = np.full((*scores.shape[:-1], 1), -np.inf)
        total = np.zeros_like(running)
        result, magnitudes = (np.zeros((*scores.shape[:-1], values.shape[-1])) for _ in range(2))
        for first in range(0, scores.shape[-1], block):
            part = scores[..., first : first + block]
            most = np.maximum(running, part.max(axis=-1, keepdims=True))
            factor = np.where(np.isfinite(running), np.exp(running - most), 0.0)
            weights = np.where(np.isfinite(most), np.exp(part - np.where(np.isfinite(most), most, 0.0)), 0.0)
            added = apply_weights(weights, values[..., first : first + block, :])
            total = total * (factor if rescales_sum else 1.0) + weights.sum(axis=-1, keepdims=True)
            result = result * (factor if rescales_result else 1.0) + added[0]
            magnitudes = magnitudes * (factor if rescales_result else 1.0) + added[1]
            running = most
        return result / total, magnitudes / total

    return bend


def _by_last_block(block: int) -> Bend:
    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        weights = exponentiate(scores)
        last = (scores.shape[-1] - 1) // block * block
        return apply_weights(weights / weights[..., last:].sum(axis=-1, keepdims=True), values)

    return bend
