"""An attention in plain float64, in ways that others may have computed it; and a hypothesis of such a way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.problems.attention import Attention

Floats = npt.NDArray[np.float64]
Operands = Mapping[str, np.ndarray]
Queries = npt.NDArray[np.intp]
# Makes of scores (N, H, queries, Lk; -inf where a key is hidden), values (N, H, Lk, d_v) and the queries' numbers the
# result, and sum w |v|.
Bend = Callable[[Floats, Floats, Queries], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Altered:
    """One hypothesis: the attention that was computed in place of the declared one, and what to say of it.

    `says` is the predicate of a sentence. `bend` replaces softmax and the second product; `needs_all` tells that its
    rows cannot be computed one by one, `is_fitted` that a number of it was found from the result.
    """

    says: str
    cause: CauseCode
    asked: Attention
    operands: Operands
    bend: Bend | None = None
    needs_all: bool = False
    verdict: Verdict = "wrong"
    is_fitted: bool = False

    def compute(self, queries: Queries | None = None) -> tuple[Floats, Floats]:
        """The result for some queries, or all, and the sums of magnitudes."""
        chosen = np.arange(self.asked.q[2]) if queries is None else queries
        scores, values = compute_scores(self.asked, self.operands, chosen)
        with np.errstate(all="ignore"):
            return (self.bend or weigh_plainly)(scores, values, chosen)


def compute_scores(asked: Attention, operands: Operands, chosen: Queries) -> tuple[Floats, Floats]:
    """Scores, (N, H, queries, Lk), -inf where a key is hidden, and values with a head for each of q's."""
    q, k, v = (operands[name].astype(np.float64) for name in ("q", "k", "v"))
    k, v = (np.repeat(a, asked.group, axis=1) for a in (k, v))
    added = asked.read_added(operands)
    with np.errstate(all="ignore"):
        scores = (q[:, :, chosen] @ k.swapaxes(-1, -2)) * asked.factor
        if asked.softcap is not None:
            scores = asked.softcap * np.tanh(scores / asked.softcap)
        if added is not None:
            scores = scores + added[:, :, chosen]
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)[:, :, chosen]
    return np.where(seen, scores, -np.inf), v


def weigh_plainly(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
    """softmax(scores) v, and the weights times |v|."""
    return apply_weights(find_weights(scores), values)


def exponentiate(scores: Floats) -> Floats:
    """exp(score - the row's largest); NaN in rows without a key."""
    return np.exp(scores - scores.max(axis=-1, keepdims=True))


def find_weights(scores: Floats) -> Floats:
    """The softmax; NaN in rows without a key."""
    weights = exponentiate(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def count_keys(counts: Floats) -> Bend:
    """Keys that count so many times, (Lk): 0 for one that is lost, 2 for one taken twice."""

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        weights = exponentiate(scores) * counts
        return apply_weights(weights / weights.sum(axis=-1, keepdims=True), values)

    return bend


def apply_weights(weights: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The weighted sums, and those of magnitudes."""
    return weights @ values, np.abs(weights) @ np.abs(values)


def hide_as(asked: Attention, operands: Operands, seen: npt.NDArray[np.bool_]) -> tuple[Attention, Operands]:
    """The same attention with other keys hidden: `seen` takes the place of causal, window and boolean mask.

    What an additive mask adds to seen keys stays; where it hid one that is now seen, it adds nothing.
    """
    bare = replace(asked, causal=None, window=None)
    if asked.mask != "add":
        return replace(bare, mask="bool"), {**operands, "mask": seen}
    mask = np.broadcast_to(operands["mask"], asked.score_shape)
    added = np.where(np.isfinite(mask.astype(np.float64)), mask, np.zeros((), mask.dtype))
    return bare, {**operands, "mask": np.where(seen, added, np.asarray(-np.inf, mask.dtype))}
