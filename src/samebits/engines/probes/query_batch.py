"""Questions about pairs of terms, as many to a call as there are rows, and what every position answered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.mask_values import Scale
from samebits.engines.probes.session import ProbeSession

# Positions whose answers are kept one by one; all others are distinguished by a digest of theirs.
_MOST_SAMPLED = 1024
_PAIRS_PER_ROW_CLASS, _PAIRS_PER_CHOSEN_ROW = 3, 12
# The distances between the two terms of pairs that distinguish rows; 0: any.
_DISTANCES = (0, 1, 2, 0, 4, 8, 0, 3, 16, 0, 1, 64)
_MOST_PATTERNS = 4
_SEED = 576


class QueryBatch:
    """Questions (pivot, other term, number of a unit set) and their answers, in units, by sampled position.

    `units` are the sets of terms that carry a unit, `pattern` and `digests` distinguish positions by the terms
    they have and by all they answered.
    """

    def __init__(
        self,
        session: ProbeSession,
        scale: Scale,
        rows: npt.NDArray[np.int64],
        positions: npt.NDArray[np.bool_] | None,
    ):
        self.session = session
        self.terms = session.terms
        self.scale = scale
        self.rows = rows
        self.asked = np.ones(self.terms.positions, bool) if positions is None else positions.reshape(-1)
        number, masks = self.terms.patterns
        self.pattern = np.tile(number, self.terms.batch)
        self.exists = [np.tile(m, self.terms.depth) for m in masks]
        self.sample = self._choose_sample()
        self.digests = np.zeros(self.terms.positions, np.uint64)
        self.random = np.random.default_rng(_SEED)
        self.units: list[npt.NDArray[np.bool_]] = [np.ones(self.terms.count, bool)]
        self.answers: dict[tuple[int, int, int], npt.NDArray[np.float32]] = {}

    def ask(self, questions: list[tuple[int, int, int]]) -> None:
        """Asks all questions that have no answer yet, as many to a call as there are rows."""
        fresh = [q for q in dict.fromkeys(questions) if q not in self.answers]
        for start in range(0, len(fresh), len(self.rows)):
            self.session.progress("asking for the summation order", start / len(fresh))
            self._call(fresh[start : start + len(self.rows)])

    def _call(self, questions: list[tuple[int, int, int]]) -> None:
        operands = self.session.make_operands()
        view = self.session.view_rows(operands)
        mask, unit = self.scale.mask, self.scale.unit
        values = np.zeros((self.terms.groups * self.terms.rows, self.terms.count), self.session.dtype)
        chosen = self.rows[: len(questions)]
        unit_rows = np.array([u for _, _, u in questions])
        for u in np.unique(unit_rows):
            values[chosen[unit_rows == u]] = np.where(self.units[u], unit, 0.0).astype(values.dtype)
        values[chosen, [i for i, _, _ in questions]] = mask
        values[chosen, [j for _, j, _ in questions]] = -mask
        view[...] = values.reshape(view.shape)
        answer = self.session.ask_by_row(operands)[chosen] / unit + 0.0
        weights = self.random.integers(1, 2**63, len(questions), np.uint64) | np.uint64(1)
        bits = answer.view(np.uint64)
        self.digests = self.digests * np.uint64(6364136223846793005) + (bits * weights[:, None]).sum(axis=0)
        kept = answer[:, self.sample].astype(np.float32)
        for row, question in enumerate(questions):
            self.answers[question] = kept[row]

    def _choose_sample(self) -> npt.NDArray[np.int64]:
        """All positions, or evenly spread ones and the first and last of every pattern."""
        own = np.flatnonzero(self.asked)
        if len(own) <= _MOST_SAMPLED:
            return own
        pattern = self.pattern[own]
        _, first = np.unique(pattern, return_index=True)
        _, last = np.unique(pattern[::-1], return_index=True)
        spread = np.linspace(0, len(own) - 1, _MOST_SAMPLED).astype(np.int64)
        return own[np.unique(np.concatenate([spread, first, len(own) - 1 - last]))]


def classify_rows(
    session: ProbeSession,
    scale: Scale,
    rows: npt.NDArray[np.int64] | None = None,
    positions: npt.NDArray[np.bool_] | None = None,
) -> list[npt.NDArray[np.int64]]:
    """Rows (default: all) grouped by equal answers to the same questions, the largest group first.

    Each question is asked of all rows in one call. Answers are read at the positions with the most terms, and among
    chosen `positions` also at those that lack some.
    """
    terms = session.terms
    count = terms.groups * terms.rows
    rows = np.arange(count) if rows is None else rows
    number, masks = terms.patterns
    pattern = np.tile(number, terms.batch)
    asked = np.ones(terms.positions, bool) if positions is None else positions.reshape(-1)
    widest_first = sorted(np.unique(pattern[asked]).tolist(), key=lambda p: -int(masks[p].sum()))
    most, pairs = (1, _PAIRS_PER_ROW_CLASS) if positions is None else (_MOST_PATTERNS, _PAIRS_PER_CHOSEN_ROW)
    random = np.random.default_rng(_SEED)
    answers: list[npt.NDArray[np.float64]] = []
    for chosen in widest_first[:most]:
        own = np.flatnonzero(np.tile(masks[chosen], terms.depth))
        if len(own) < 3 or len(rows) == 1:
            continue
        for i, j in _choose_pairs(own, pairs, random):
            operands = session.make_operands()
            values = np.zeros((count, terms.count), session.dtype)
            values[:, own[:: -(-len(own) // scale.capacity)]] = scale.unit
            values[:, i], values[:, j] = scale.mask, -scale.mask
            view = session.view_rows(operands)
            view[...] = values.reshape(view.shape)
            answers.append(session.ask_by_row(operands)[np.ix_(rows, np.flatnonzero((pattern == chosen) & asked))])
    if not answers:
        return [rows]
    _, inverse, counts = np.unique(np.concatenate(answers, axis=1), axis=0, return_inverse=True, return_counts=True)
    return [rows[inverse.reshape(-1) == n] for n in np.argsort(-counts, kind="stable")]


def _choose_pairs(
    own: npt.NDArray[np.int64], count: int, random: np.random.Generator
) -> list[tuple[np.int64, np.int64]]:
    """Pairs of terms far from each other and close together: orders differ in blocks, or inside them only."""
    pairs: list[tuple[np.int64, np.int64]] = []
    for distance in _DISTANCES[:count]:
        if 0 < distance < len(own):
            first = int(random.integers(len(own) - distance))
            pairs.append((own[first], own[first + distance]))
        else:
            one, other = random.choice(own, 2, replace=False)
            pairs.append((one, other))
    return pairs
