"""How far operands that are kept in four bits may take a result: beyond that only another function does.

The bound of all arithmetic down to bfloat16 says nothing of integers and codebooks. Of codes of four bits the farthest
apart are the last two of e2m1, 4 and 6 of 6 (OCP Microscaling Formats 1.0): a value is off by a sixth of the largest
at most, whatever block that is the largest of. Zero, and the largest itself, are codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samebits.mechanisms.facts.observation import Floats, Observation, Sample

_OFF = 1 / 6
_LOOKED_AT = 16
# Independent errors, uniform in a step, stay within so many standard deviations of their sum in any result.
_SIGMAS = 6.0


@dataclass(frozen=True)
class Coarse:
    """Whether the largest errors exceed what four bits may do at the worst, and what they are likely to do."""

    is_beyond: bool
    is_unlikely: bool


def compare_with_four_bits(observation: Observation) -> Coarse:
    """Whether the outputs that are farthest off, in shares of their sum of magnitudes, exceed what four bits allow.

    Worst case: what a weight may be off times |x|, what x may be off times |w|, and both at once, added up. Likely, for
    one operand is kept so and seldom both: the root of the sum of the squares of either, each error uniform.
    """
    away = observation.distances.absolute
    terms, bare = observation.terms, observation.as_bare_sums()
    rows, source = (
        np.abs(observation.operands[n].astype(np.float64)) for n in (terms.rows_operand, terms.source_operand)
    )
    if not all(np.isfinite(array).all() for array in (away, rows, source)):
        return Coarse(is_beyond=True, is_unlikely=True)
    sample = _choose_worst(observation, away)
    off_rows, off_source = _find_offs(rows), _find_offs(source)

    def add(row: Floats, other: Floats) -> Floats:
        return bare.sum_instead({terms.rows_operand: row, terms.source_operand: other}, sample)

    worst = add(off_rows, source) + add(rows, off_source) + add(off_rows, off_source)
    squares = np.maximum(add(off_rows**2, source**2), add(rows**2, off_source**2))
    given = sample.pick(away)
    return Coarse(bool((given > worst).any()), bool((given > _SIGMAS * np.sqrt(squares / 3)).any()))


def _find_offs(magnitudes: Floats) -> Floats:
    """How far every value of an operand may be off."""
    largest = float(magnitudes.max(initial=0.0))
    return np.where((magnitudes == 0) | (magnitudes == largest), 0.0, _OFF * largest)


def _choose_worst(observation: Observation, away: Floats) -> Sample:
    """The rows and positions of the outputs that are off most."""
    with np.errstate(all="ignore"):
        share = np.nan_to_num(away / observation.magnitudes, nan=0.0, posinf=np.inf)
    every = observation.whole()
    shares = every.pick(share).reshape(-1)
    flat = np.argpartition(shares, max(shares.size - _LOOKED_AT, 0))[-_LOOKED_AT:]
    at, position = np.unravel_index(flat, (len(every.rows), len(every.positions)))
    return Sample(every.terms, np.unique(every.rows[at]), np.unique(every.positions[position]))
