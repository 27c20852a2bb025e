"""In which order does every output add its terms up? Masks in the rows operand, one pair of terms to a row.

All source values are 1; a row holds a unit for every term but two, which hold a mask M and -M. A unit that meets M is
lost, so the result counts the units outside the junction of the two ("FPRev: Revealing Floating-Point Summation Order",
USENIX ATC 2025, asks so for one pair and one sum). Here each row of a call asks about another pair, and each position
of the output answers for itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.mask_values import choose_scale
from samebits.engines.probes.order_search import MOST_CALLS_PER_PIVOT, FoundOrders, OrderSearch
from samebits.engines.probes.query_batch import classify_rows
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.swapped_roles import SwappedSession, can_swap
from samebits.errors import ProbeStopped
from samebits.problems.terms import Terms

# Rows may answer differently in the last blocks of a matrix; of more kinds of rows than this, the rest is asked later.
_MOST_CLASSES = 8


def find_summation_orders(
    session: ProbeSession,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    positions: npt.NDArray[np.bool_] | None = None,
    may_guess: bool = True,
) -> FoundOrders:
    """The orders of all output positions (or some); what stays undetermined, and why, stands in the notes.

    Only `rows` (numbers; default all) carry questions; where rows turn out to answer differently, those of the largest
    agreeing set do. Where rows are few and positions many, positions carry them instead, if they can. `may_guess`: of
    long sums a likely order may be tried first. Raises EngineFailure where the runner fails.
    """
    terms = session.terms
    unknown = np.full((terms.batch, int(np.prod(terms.outputs))), -1, np.int64)
    if terms.count == 1:
        return FoundOrders([0], np.zeros_like(unknown), None)
    try:
        scale = choose_scale(session)
    except ProbeStopped as stop:
        return FoundOrders([], unknown, None, [str(stop)])
    if scale is None:
        return FoundOrders([], unknown, None, ["no mask absorbs units: the running sum is too wide, or is no sum"])
    try:
        every = np.arange(terms.groups * terms.rows) if rows is None else rows
        asked = np.ones(unknown.shape, bool) if positions is None else positions
        if _should_swap(terms, len(every), int(asked.sum())):
            found = _ask_positions(session, every, asked, may_guess=may_guess)
            if found:
                return replace(found, scale=scale)
        alike = classify_rows(session, scale)[0] if rows is None else rows
        found = OrderSearch(session, scale, alike, positions, may_guess=may_guess).run()
        if rows is None and not found.trees:
            # Rows that seemed alike are not: more questions separate them.
            closer = classify_rows(session, scale, alike, asked)[0]
            if len(closer) < len(alike):
                found = OrderSearch(session, scale, closer, positions, may_guess=may_guess).run()
        return found
    except ProbeStopped as stop:
        return FoundOrders([], unknown, scale, [str(stop)])


def _should_swap(terms: Terms, rows: int, positions: int) -> bool:
    return terms.count > MOST_CALLS_PER_PIVOT * rows and terms.groups * positions > 2 * rows and can_swap(terms)


def _ask_positions(
    session: ProbeSession, rows: npt.NDArray[np.int64], asked: npt.NDArray[np.bool_], *, may_guess: bool
) -> FoundOrders | None:
    """The orders of positions that carry the questions themselves, every kind of them; None if they cannot."""
    terms = session.terms
    swapped = SwappedSession.swap(session)
    scale = choose_scale(swapped)
    if scale is None:
        return None
    read = np.zeros((terms.rows, 1), bool)
    read[rows % terms.rows] = True
    own = np.flatnonzero(asked.reshape(-1))
    carriers = (np.arange(terms.groups)[:, None] * terms.positions + own).reshape(-1)
    every = FoundOrders([], np.full(asked.shape, -1, np.int64), scale)
    for alike in classify_rows(swapped, scale, carriers, read)[:_MOST_CLASSES]:
        found = OrderSearch(swapped, scale, alike, read, may_guess=may_guess, likely=every.trees).run()
        every.notes += found.notes
        every.guessed |= found.guessed
        used = np.bincount(found.places[read][found.places[read] >= 0], minlength=1)
        if not found.trees or not used.any():
            continue
        tree = found.trees[int(used.argmax())]
        if tree not in every.trees:
            every.trees.append(tree)
        places = every.places.reshape(-1)
        new = np.unique(alike % terms.positions)
        places[new[places[new] < 0]] = every.trees.index(tree)
    return every if every.trees else None
