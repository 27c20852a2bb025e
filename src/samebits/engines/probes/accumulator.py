"""What is the running sum rounded to, and how? Three terms: large, small, minus large; what is left of the small one.

The running sum holds 2^a when s joins it; what of s survives comes out when -2^a joins later. The last s = 2^(a - e)
that survives counts the fraction bits; a sweep of eighths of a unit around it shows the rounding mode.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import BFLOAT16, E8M13, FLOAT16, FLOAT32, FLOAT64, find_format
from samebits.numbers.scalar import MODES, round_to_format
from samebits.sums.recipes.tree import Chain, Fused, Item, list_terms

# Fraction bits -> what keeps a sum in them; 24 and 25 are alignment bits of multi-term additions.
_BY_FRACTION_BITS = {f.fraction_bits: f.name for f in (BFLOAT16, FLOAT16, E8M13, FLOAT32, FLOAT64)}
_MOST_BITS = 60
_MOST_ALIGNMENT_BITS = 28
_EIGHTHS = (1, 4, 5, 12)
# On either side of every format's last place, and of the alignment bits of matrix units.
_TELLING = (7, 8, 10, 11, 13, 14, 22, 23, 24, 25, 26, 27, 28, 52, 53)


@dataclass(frozen=True)
class Accumulator:
    """What a running sum is kept in at one junction of a tree.

    `fraction_bits`: how far below the sum's leading bit a power of two still survives, at least. `format` is None
    where no known format has so many. `survives_all` says that even the smallest term asked about survived.
    """

    fraction_bits: int
    format: str | None
    mode: str | None
    survives_all: bool
    terms: tuple[int, int, int]


def choose_triples(tree: Item, most: int = 3) -> list[tuple[int, int, int]]:
    """Terms (large, small, minus large) of which the first two meet before the third: one triple per kind of junction.

    The first two terms to meet; then, where sums are joined to sums, a term of the first and one of the second.
    """
    sequence = list_terms(tree)
    if len(sequence) < 3:
        return []
    triples: list[tuple[int, int, int]] = [(sequence[0], sequence[1], sequence[-1])]
    if isinstance(tree, Fused):
        return triples
    if isinstance(tree, Chain):
        run = list(itertools.takewhile(lambda p: isinstance(p, int), tree.items))
        if len(run) > 2:
            # Before a finished sum joins it, which may be kept in another format.
            triples = [(sequence[0], sequence[1], sequence[len(run) - 1])]
        groups = [p for p in tree.items if isinstance(p, Fused)]
        if len(groups) > 1:
            # Within one group, then with the first group's sum rounded before it is cancelled.
            group = groups[0].terms
            triples = [(group[0], group[1], group[2])] if len(group) > 2 else []
            triples.append((groups[0].terms[0], groups[0].terms[1], groups[-1].terms[-1]))
        sums = [p for p in tree.items[1:] if isinstance(p, Chain)]
        if len(sums) > 1:
            triples.append((sequence[0], list_terms(sums[0])[0], list_terms(sums[-1])[-1]))
    return triples[:most]


def find_accumulator(session: ProbeSession, triple: tuple[int, int, int], position: int) -> Accumulator | None:
    """The format of the running sum where the triple's second term joins the first, read at one output position.

    None where the result was not readable. Two calls, more where an output has few rows. Raises EngineFailure.
    """
    top = _largest_exponent(session)
    most = min(_MOST_BITS, top - _smallest_exponent(session))
    large = Fraction(2) ** top
    asked = [e for e in _TELLING if e <= most]
    left = _ask(session, triple, [(large, Fraction(2) ** (top - e)) for e in asked], position)
    if not np.isfinite(left).all():
        return None
    # Rounded away from zero a small term leaves something too, but not itself.
    survived = [e for e, value in zip(asked, left, strict=True) if value == _clip(session, 2.0 ** (top - e))]
    bits = max((e for e in survived if asked[: len(survived)] == survived), default=0)
    if bits == asked[-1]:
        return Accumulator(bits, "float64" if bits > _MOST_ALIGNMENT_BITS else None, None, True, triple)
    format_ = _BY_FRACTION_BITS.get(bits)
    return Accumulator(bits, format_, _find_mode(session, triple, top, bits, position), False, triple)


def _find_mode(session: ProbeSession, triple: tuple[int, int, int], top: int, bits: int, position: int) -> str | None:
    """The mode whose roundings of large + eighths of the last place, of both signs, the sums show."""
    if bits not in _BY_FRACTION_BITS:
        return None
    format_ = find_format(_BY_FRACTION_BITS[bits])
    eighth = Fraction(2) ** (top - bits - 3)
    room = top - bits - 3 - _smallest_exponent(session)
    eighths = [e for e in _EIGHTHS if room >= 0 or e % 2 ** (-room) == 0]
    if not eighths:
        return None
    large = Fraction(2) ** top
    signs = (1,) if session.problem.then else (1, -1)
    asked = [(sign * large, sign * e * eighth) for sign in signs for e in eighths]
    left = _ask(session, triple, asked, position)
    for mode in MODES:
        expected = [round_to_format(big + small, format_, mode) - float(big) for big, small in asked]
        if expected == list(left):
            return mode
    return None


def _ask(
    session: ProbeSession,
    triple: tuple[int, int, int],
    values: list[tuple[Fraction, Fraction]],
    position: int,
) -> npt.NDArray[np.float64]:
    """The results of large + small - large, for every pair (large, small)."""
    terms = session.terms
    rows = terms.groups * terms.rows
    left: list[float] = []
    for start in range(0, len(values), rows):
        part = values[start : start + rows]
        operands = session.make_operands()
        view = session.view_rows(operands)
        filled = np.zeros((rows, terms.count))
        for r, (large, small) in enumerate(part):
            filled[r, triple[0]], filled[r, triple[1]], filled[r, triple[2]] = float(large), float(small), -float(large)
        view[...] = filled.reshape(view.shape)
        left.extend(session.ask_by_row(operands)[: len(part), position])
    return np.array(left)


def _clip(session: ProbeSession, value: float) -> float:
    then = session.problem.then
    return value if then is None else min(max(value, then.low), then.high)


def _largest_exponent(session: ProbeSession) -> int:
    """The exponent of the large term: the highest that float16 allows, as operands may be rounded to it."""
    return min(14, int(np.log2(float(find_format(session.problem.dtype).largest))) - 1)


def _smallest_exponent(session: ProbeSession) -> int:
    format_ = find_format(session.problem.dtype)
    return max(format_.smallest_quantum_exponent, -100)
