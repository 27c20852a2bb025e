"""Fixed point, as hardware without floating point computes: products, or operands, with so many fractional bits.

The result says how many: its values, without what a bias adds, are whole steps of a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.hypothesis import Hypothesis
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, gather_source
from samebits.mechanisms.facts.result_steps import FEWEST_TELLING

_MOST_BITS, _FEWEST_VALUES, _MOST_HELD = 22, 64, 4_000_000
_WAYS: Mapping[str, Callable[[Floats], Floats]] = {"rounded down": np.floor, "rounded": np.rint, "truncated": np.trunc}


def list_fixed_products(observation: Observation) -> Iterator[Hypothesis]:
    """Products on the result's own grid, then operands whose fractional bits add up to the result's."""
    bits = _find_fractional_bits(observation)
    if bits is None:
        return
    for how, keep in _WAYS.items():
        yield _keeps_products(bits, how, keep)
    terms = observation.terms
    for own in range(bits + 1):
        yield _round_operands({terms.rows_operand: own, terms.source_operand: bits - own})


def _find_fractional_bits(observation: Observation) -> int | None:
    """The fewest fractional bits that all of the result's values have; None if those are many, or the truth's, too."""
    given = observation.result.astype(np.float64)
    told = mark_unclipped(observation.problem, given) & np.isfinite(given)
    values, true = given[told], observation.truth.astype(np.float64)[told]
    if len(np.unique(values)) < _FEWEST_VALUES:
        return None
    for bits in range(_MOST_BITS + 1):
        if (np.ldexp(values, bits) % 1 == 0).all():
            true = true[np.isfinite(true)]
            return bits if (np.ldexp(true, bits) % 1 != 0).sum() >= FEWEST_TELLING else None
    return None


def _keeps_products(bits: int, how: str, keep: Callable[[Floats], Floats]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        terms, unit = observation.terms, 2.0**bits
        rows = terms.view_rows(observation.operands[terms.rows_operand]).reshape(terms.groups * terms.rows, -1)
        source = terms.view_source(observation.operands[terms.source_operand])
        sums = np.empty((len(sample.rows), len(sample.positions)))
        step = max(_MOST_HELD // terms.count, 1)
        for start in range(0, len(sample.positions), step):
            for group in np.unique(sample.rows // terms.rows):
                met = gather_source(terms, source, int(group), sample.positions[start : start + step]) * unit
                for i in np.flatnonzero(sample.rows // terms.rows == group):
                    weights = rows[sample.rows[i]].astype(np.float64)
                    sums[i, start : start + step] = keep(met * weights).sum(axis=1) / unit
        return observation.finish(sums, sample)

    says = f"keeps products in fixed point with {bits} fractional bits, {how}"
    return Hypothesis(CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", says, predict)


def _round_operands(bits: Mapping[str, int]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        operands = dict(observation.operands)
        for name, count in bits.items():
            operands[name] = np.ldexp(np.rint(np.ldexp(operands[name].astype(np.float64), count)), -count)
        return observation.sum_instead(operands, sample)

    said = " and ".join(f"{name} to {count}" for name, count in sorted(bits.items(), reverse=True))
    says = f"rounds {said} fractional bits (fixed point)"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)
