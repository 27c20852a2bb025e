"""Where does the bias enter a sum? A mask as bias against minus mask at the first term, units elsewhere.

If the sum starts from the bias, the masks meet first and all units survive; if the bias joins the running sum later,
minus mask has absorbed the units before. Whether a late bias meets the sum before or after it is rounded to the result
shows in what a result's rounding would have lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from samebits.engines.probes.mask_values import Scale
from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import find_format
from samebits.sums.recipes.tree import Chain, Fused, Item, list_terms


@dataclass(frozen=True)
class BiasPosition:
    """`position` is None where no known one fits; `kept` of `units` units survived.

    `after`: the bias joins the first term's running sum once that holds `terms` terms.
    """

    position: Literal["first", "after", "last", "rounded"] | None
    kept: float
    units: int
    terms: int = 0


def find_bias_position(
    session: ProbeSession, tree: Item, scale: Scale, position: int, accumulator: str
) -> BiasPosition:
    """One or two calls, read at an output position with all terms of `tree`. Raises EngineFailure.

    `accumulator` is the running sum's format: where it is narrower than the result's, a late bias is not distinguished.
    """
    terms = session.terms
    sequence = list_terms(tree)
    count = min(len(sequence) - 1, scale.capacity)
    operands = session.make_operands()
    rows = np.zeros((terms.groups * terms.rows, terms.count), session.dtype)
    rows[:, sequence[1 : count + 1]] = scale.unit
    rows[:, sequence[0]] = -scale.mask
    view = session.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    operands["bias"][...] = scale.mask
    kept = float(session.ask_by_row(operands)[0, position]) / scale.unit
    if count and kept == count:
        return BiasPosition("first", kept, count)
    if 0 < kept < count == len(sequence) - 1 and kept == int(kept):
        if _first_group(tree) == len(sequence) - int(kept):
            return BiasPosition("first", kept, count)
        return BiasPosition("after", kept, count, len(sequence) - int(kept))
    if kept != 0.0 or _first_group(tree) == len(sequence):
        return BiasPosition(None, kept, count)
    room = find_format(accumulator).precision - find_format(session.problem.out).precision
    if room < 0:
        return BiasPosition(None, kept, count)
    if room == 0:
        return BiasPosition("last", kept, count)
    return BiasPosition("rounded" if _is_rounded_before(session, sequence, position) else "last", kept, count)


def _first_group(tree: Item) -> int:
    """How many terms the first step of a running sum takes in: a multi-term addition joins them and the bias."""
    first = tree.items[0] if isinstance(tree, Chain) else tree
    return len(first.terms) if isinstance(first, Fused) else 1


def _is_rounded_before(session: ProbeSession, sequence: list[int], position: int) -> bool:
    """Whether 1 + a little loses the little, which the result's format cannot hold, before the bias -1 is added.

    The little is 3/8 of the result's last place: nothing is left of it after rounding to nearest.
    """
    out = find_format(session.problem.out)
    if len(sequence) < 2:
        return False
    little = 3 * 2.0 ** (-out.fraction_bits - 3)
    operands = session.make_operands()
    terms = session.terms
    rows = np.zeros((terms.groups * terms.rows, terms.count), session.dtype)
    rows[:, sequence[0]], rows[:, sequence[1]] = 1.0, little
    view = session.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    operands["bias"][...] = -1.0
    return float(session.ask_by_row(operands)[0, position]) == 0.0
