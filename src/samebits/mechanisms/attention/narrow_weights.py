"""Hypotheses: fewer digits than declared. Weights, scores or operands kept in a narrower format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.attention.bent_softmax import BLOCKS
from samebits.mechanisms.attention.plain_attention import (
    Altered,
    Bend,
    Floats,
    Operands,
    Queries,
    apply_weights,
    find_weights,
)
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import FLOAT32, Format, find_format
from samebits.problems.attention import Attention

_FORMATS = ("bfloat16", "float16", "tf32", "float32")
_OPERANDS = (("q", "k", "v"), ("q", "k"), ("v",), ("q",), ("k",))
_When = Literal["after", "before"]
_Kept = Literal["scores", "weights", "steps"]
_STAGES: dict[_Kept, str] = {
    "scores": "scores", "weights": "scores and weights", "steps": "products, scores, weights and their sum"
}  # fmt: skip


def list_narrow_weights(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Formats narrower than the declared one; for operands in 16 bits, scores that are kept in them too."""
    declared = find_format(asked.dtype)
    for name in _FORMATS:
        format_ = find_format(name)
        if format_.precision < declared.precision:
            yield from _list_operands(asked, operands, format_)
        # What is declared in 16 bits is added in 32, which scores are to be kept in.
        is_kept_narrower = format_.precision < max(declared.precision, FLOAT32.precision)
        if is_kept_narrower and format_.precision <= declared.precision and name != "tf32":
            own = CauseCode.NARROW_INTERMEDIATE
            if format_.precision < declared.precision:
                yield from _list_weights(asked, operands, format_)
            for block in (b for b in BLOCKS if b < asked.k[2]):
                says = f"adds up blocks of {block} keys in {name}"
                yield Altered(says, own, asked, operands, _add_blocks(format_, block), verdict="downgrade")
            for kept, what in _STAGES.items():
                bend = _round_scores(asked, format_, kept=kept)
                yield Altered(f"keeps {what} in {name}", own, asked, operands, bend, verdict="downgrade")


def _list_operands(asked: Attention, operands: Operands, format_: Format) -> Iterator[Altered]:
    for names in _OPERANDS:
        rounded = {n: round_array_to_format(operands[n].astype(np.float64), format_) for n in names}
        says = f"rounds {' and '.join(names)} to {format_.name}"
        moved = {**operands, **rounded}
        yield Altered(says, CauseCode.REDUCED_PRECISION_OPERANDS, asked, moved, verdict="downgrade")
        if len(names) == len(_OPERANDS[0]):
            says = f"rounds q, k, v and the weights to {format_.name}"
            whens: tuple[_When, ...] = ("before", "after")
            for when in whens:
                bend = _round_weights(format_, when, asked.k[2])
                yield Altered(says, CauseCode.REDUCED_PRECISION_OPERANDS, asked, moved, bend, verdict="downgrade")


def _list_weights(asked: Attention, operands: Operands, format_: Format) -> Iterator[Altered]:
    own = CauseCode.NARROW_INTERMEDIATE
    says = f"keeps the weights in {format_.name}"
    yield Altered(
        f"{says}, divided by their sum", own, asked, operands, _round_weights(format_, "after", 0), verdict="downgrade"
    )
    for block in (asked.k[2], *(b for b in BLOCKS if b < asked.k[2])):
        where = "" if block == asked.k[2] else f" in blocks of {block} keys"
        bend = _round_weights(format_, "before", block)
        yield Altered(
            f"{says}{where} before they are divided by their sum", own, asked, operands, bend, verdict="downgrade"
        )


def _round_weights(format_: Format, when: _When, block: int) -> Bend:
    """Weights rounded before the second product, divided by their sum before or after it."""

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        if when == "after":
            return apply_weights(round_array_to_format(find_weights(scores), format_), values)
        # The largest score so far, at the end of each block, is what weights are taken relative to.
        running = np.maximum.accumulate(scores, axis=-1)
        ends = np.minimum((np.arange(scores.shape[-1]) // block + 1) * block, scores.shape[-1]) - 1
        most = running[..., ends]
        exact = np.where(np.isfinite(scores), np.exp(scores - np.where(np.isfinite(most), most, 0.0)), 0.0)
        final = running[..., -1:]
        rescale = np.where(np.isfinite(most), np.exp(most - final), 0.0)
        weights = round_array_to_format(exact, format_) * rescale
        return apply_weights(weights / (exact * rescale).sum(axis=-1, keepdims=True), values)

    return bend


def _add_blocks(format_: Format, block: int) -> Bend:
    """An online softmax whose result so far is stored in a format after each block."""

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        running = np.maximum.accumulate(scores, axis=-1)
        most, result, total = np.full((*scores.shape[:-1], 1), -np.inf), np.zeros(0), np.zeros(0)
        magnitudes = apply_weights(np.exp(scores - running[..., -1:]), values)[1]
        for first in range(0, scores.shape[-1], block):
            part = scores[..., first : first + block]
            new = running[..., [min(first + block, scores.shape[-1]) - 1]]
            factor = np.where(np.isfinite(most), np.exp(most - new), 0.0)
            weights = np.where(np.isfinite(part), np.exp(part - np.where(np.isfinite(new), new, 0.0)), 0.0)
            added, sums = weights @ values[..., first : first + block, :], weights.sum(axis=-1, keepdims=True)
            result = round_array_to_format(added if not first else result * factor + added, format_)
            total, most = sums if not first else total * factor + sums, new
        return result / total, magnitudes / total

    return bend


def _round_scores(asked: Attention, format_: Format, *, kept: _Kept) -> Bend:
    """Scores stored in a format; the weights too; or every step from the products to the weights."""
    scale = asked.factor
    is_bare = asked.softcap is None and asked.mask != "add"

    def keep(values: Floats) -> Floats:
        return np.where(
            np.isfinite(values), round_array_to_format(np.where(np.isfinite(values), values, 0.0), format_), values
        )

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        if kept == "steps" and is_bare:
            # The products are stored before they are scaled.
            scores = keep(scores / scale) * scale
        scores = keep(scores)
        distances = scores - scores.max(axis=-1, keepdims=True)
        weights = np.exp(keep(distances) if kept == "steps" else distances)
        weights = keep(weights) if kept == "steps" else weights
        total = weights.sum(axis=-1, keepdims=True)
        weights = weights / (keep(total) if kept == "steps" else total)
        return apply_weights(weights if kept == "scores" else keep(weights), values)

    return bend
