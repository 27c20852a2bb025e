"""Results kept in a way that no format has: so many significant decimal digits, or blocks that share an exponent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.numbers.format import find_format

# What texts are printed with, and what a shared exponent leaves each number, its sign not counted.
_DIGITS, _BITS, _BLOCKS = range(2, 8), range(3, 13), (16, 32, 64, 128)
# Of the bits that a float32 number has more; so much of chance is ruled out.
_CHANCE_BITS = 60.0


def explain_coarse_result(observation: Observation) -> Mechanism | None:
    """The grid that all outputs lie on and that is fine enough for all errors; None where there is none.

    Every output must be within a step of the truth, besides what its own bound allows.
    """
    given, true = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    if not (np.isfinite(given).all() and np.isfinite(true).all()) or not given.any():
        return None
    told = mark_unclipped(observation.problem, given) & (given != 0)
    if not told.any():
        return None
    for says, steps in _list_grids(given):
        noise = 2 * float(find_format(observation.problem.out).unit_roundoff) * np.abs(given)
        fine = noise <= steps / 8
        off = np.abs(given - np.rint(given / steps) * steps)
        if (off > noise)[told & fine].any() or not (told & fine).any():
            continue
        values = np.unique(given[told & fine])
        bits = np.log2(steps[told & fine] / noise[told & fine]).clip(0, 20)
        enough = bits.mean() * len(values) >= _CHANCE_BITS and len(values) >= thresholds.FEWEST_TELLING
        within = np.abs(given - true) <= steps + noise + observation.bound
        if enough and within.all() and not observation.distances.within_bound:
            evidence = f"all {given.size:,} outputs are such numbers, and within a step of what was declared"
            return Mechanism(
                CauseCode.RESULT_ROUNDING, "downgrade", f"stores its result {says}", "bound",
                evidence=(Evidence("structure", evidence),),
            )  # fmt: skip
    return None


def _list_grids(given: Floats) -> Iterator[tuple[str, Floats]]:
    """In words, and the step at every output: the coarsest first."""
    size = np.abs(given)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)) + 1e-12)
    for digits in _DIGITS:
        yield f"with {digits} significant decimal digits", 10.0 ** (exponent - digits + 1)
    for count in _BLOCKS:
        largest = _find_block_largest(size, count)
        if largest is None:
            continue
        power = np.floor(np.log2(np.where(largest > 0, largest, 1.0)))
        for bits in _BITS:
            says = f"as numbers of {bits} bits and a sign that share an exponent in blocks of {count} channels"
            yield says, 2.0 ** (power - bits + 1)


def _find_block_largest(size: Floats, count: int) -> Floats | None:
    """For every output the largest of its block along axis 1; None where there is no second block."""
    channels = size.shape[1]
    if channels <= count:
        return None
    starts = np.arange(0, channels, count)
    largest = np.maximum.reduceat(size, starts, axis=1)
    return np.repeat(largest, np.diff([*starts, channels]), axis=1)
