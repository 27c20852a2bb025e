"""Inputs changed by a few numbers, solved for: a factor and an offset, one for each channel, values in the padding.

As where an image was not normalised as the record says, or was padded before a normalisation that was folded later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_terms, sum_terms
from samebits.numbers.format import find_format
from samebits.problems.windows import mark_border

# Outputs for every number that is solved for; channels, beyond which whole weights are solved for; what a fit leaves of
# the squares; products of the outputs that are fitted to.
_LEAST_EQUATIONS, _MOST_CHANNELS, _LEFT, _MOST_PRODUCTS = 4.0, 128, 1 / 64, 4_000_000
_ROWS, _POSITIONS = 16, 128
# Changes of less than this share are none.
_LEAST_CHANGE = 1e-4


@dataclass(frozen=True)
class _Parts:
    """What some outputs miss, and sums over each input channel [outputs, channels] that a change of inputs adds to."""

    missing: Floats
    products: Floats
    weights: Floats
    padded: Floats


def list_input_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """x times a factor and shifted, as a whole and for each channel; a value of its own in each channel's padding."""
    problem, terms = observation.problem, observation.terms
    x = observation.operands.get("x")
    if terms.form != "gather" or terms.source_operand != "x" or x is None or not np.isfinite(x).all():
        return
    parts = _take_parts(observation, sample)
    if parts is None:
        return
    one = _solve(np.stack([parts.products.sum(axis=1), parts.weights.sum(axis=1)], axis=1), parts.missing)
    if one is not None:
        yield _affine(CauseCode.OTHER_OPERANDS, 1 + one[:1], one[1:])
    channels = parts.products.shape[1]
    if terms.groups > 1 or channels < 2 or problem.stated is not None:
        return
    each = _solve(np.concatenate([parts.products, parts.weights], axis=1), parts.missing)
    if each is not None and np.abs(each[channels:]).max() > _LEAST_CHANGE * np.abs(x.astype(np.float64)).max():
        yield _affine(CauseCode.OTHER_OPERANDS, 1 + each[:channels], each[channels:])
    border = _choose_border(observation)
    if border is not None and (parts := _take_parts(observation, border)) is not None:
        values = _solve(parts.padded, parts.missing)
        if values is not None and np.ptp(values) > 0:
            yield _pad_with(observation, values)


def _choose_border(observation: Observation) -> Sample | None:
    """Outputs whose windows reach into the padding, of all rows."""
    every = observation.whole()
    border = np.broadcast_to(mark_border(observation.problem), observation.problem.out_shape)
    positions = np.flatnonzero(every.pick(border).any(axis=0))
    return replace(every, positions=positions) if len(positions) else None


def _take_parts(observation: Observation, sample: Sample) -> _Parts | None:
    terms = observation.terms
    few = sample.thin(_ROWS, _POSITIONS)
    while len(few.rows) * len(few.positions) * terms.count > _MOST_PRODUCTS and len(few.positions) > _ROWS:
        few = few.thin(max(len(few.rows) // 2, 4), len(few.positions) // 2)
    if terms.depth > _MOST_CHANNELS and terms.volume > 1:
        return None
    weights, met = gather_terms(terms, observation.operands[terms.rows_operand], observation.operands["x"], few)
    ones = np.ones(observation.operands["x"].shape, np.float32)
    _, inside = gather_terms(terms, observation.operands[terms.rows_operand], ones, few)
    given = few.pick(observation.result).astype(np.float64)
    told = (mark_unclipped(observation.problem, given) & np.isfinite(given)).reshape(-1)
    missing = (given - observation.sum_with_bias(few)).reshape(-1)[told]
    shape = (-1, terms.depth, terms.volume)
    products, stood, padded = (
        (weights[:, None] * factor).reshape(shape).sum(axis=2)[told] for factor in (met, inside, 1 - inside)
    )
    return _Parts(missing, products, stood, padded) if missing.any() else None


def _solve(columns: Floats, missing: Floats) -> Floats | None:
    """The fitted numbers that explain what is missing; None where none do, or where anything could be fitted."""
    met = (columns != 0).any(axis=0)
    if len(missing) < _LEAST_EQUATIONS * met.sum() or not met.any() or not np.isfinite(columns).all():
        return None
    # Of the largest size one, so that squares are numbers that are not zero.
    scale, unit = np.abs(columns).max(), np.abs(missing).max()
    columns, missing = columns / scale, missing / unit
    sizes = np.linalg.norm(columns[:, met], axis=0)
    numbers = np.zeros(columns.shape[1])
    numbers[met] = np.linalg.lstsq(columns[:, met] / sizes, missing, rcond=None)[0] / sizes
    left = missing - columns @ numbers
    return numbers * (unit / scale) if (left**2).sum() <= _LEFT * (missing**2).sum() else None


def _spread_channels(numbers: Floats, rank: int) -> Floats:
    return numbers.reshape(1, -1, *[1] * rank)


def _affine(cause: CauseCode, factors: Floats, offsets: Floats) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        own = observation.operands["x"].astype(np.float64)
        a, b = (n if len(n) == 1 else _spread_channels(n, own.ndim - 2) for n in (factors, offsets))
        return observation.sum_instead({**observation.operands, "x": a * own + b}, sample)

    scaled, shifted = bool((np.abs(factors - 1) > _LEAST_CHANGE).any()), bool(np.abs(offsets).any())
    each = "" if len(factors) == 1 else " for each channel, numbers of its own:"
    how = [f"times {_say_numbers(factors)}"] if scaled else []
    how += [f"plus {_say_numbers(offsets)}"] if shifted else []
    says = f"multiplies other inputs: x{each} {' '.join(how)}"
    return Hypothesis(cause, "wrong", says, predict, fitted=True)


def _pad_with(observation: Observation, values: Floats) -> Hypothesis:
    problem = observation.problem
    # Numbers much larger than the inputs make larger sums, and roundings.
    unit = (problem.reduction_length + 2) * float(find_format(problem.out).unit_roundoff)

    def predict(observation: Observation, sample: Sample) -> Floats:
        sums = sample.pick(observation.bare_sums())
        return observation.finish(sums + _sum_padding(observation, sample, values), sample)

    says = f"pads each channel with a value of its own ({_say_numbers(values)}) in place of zeros"
    return Hypothesis(CauseCode.PADDING, "wrong", says, predict, unit=unit, fitted=True)


def _sum_padding(observation: Observation, sample: Sample, values: npt.NDArray[np.float64]) -> Floats:
    """What weights on padding add up to where each input channel's padding has a value."""
    terms = observation.terms
    weights = observation.operands[terms.rows_operand]
    own = terms.view_rows(weights).reshape(terms.rows, terms.depth, terms.volume).astype(np.float64).sum(axis=2)
    filled = np.broadcast_to(_spread_channels(values, observation.problem.rank), observation.operands["x"].shape)
    return (own @ values)[sample.rows][:, None] - sum_terms(terms, weights, filled, sample)


def _say_numbers(numbers: Floats) -> str:
    low, high = f"{numbers.min():.4g}", f"{numbers.max():.4g}"
    return low if low == high else f"{low} to {high}"
