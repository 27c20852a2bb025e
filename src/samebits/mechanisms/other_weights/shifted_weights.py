"""Weights that are all off by one number, or by one in each output channel, as where a zero point is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.hypothesis import Hypothesis
from samebits.mechanisms.facts.observation import Floats, Observation, gather_source
from samebits.mechanisms.other_weights.refitted import with_rows

# Outputs of a channel for its number; products gathered; what a fit leaves of the squares; numbers that are one.
_FEWEST, _MOST_PRODUCTS, _LEFT, _ONE = 8, 4_000_000, 1 / 64, 1e-2
# Sums of inputs that are alike within this share change results as a bias does.
_ALIKE = 0.05


def list_shifted_weights(observation: Observation) -> Iterator[Hypothesis]:
    """Errors that are sums of the inputs under each window, times one number or one for each output channel."""
    terms = observation.terms
    if observation.problem.direction != "forward":
        return
    sample = observation.choose_sample()
    few = sample.thin(1, max(_MOST_PRODUCTS // (terms.count * terms.groups), _FEWEST))
    every = replace(observation.whole(), positions=few.positions)
    given = every.pick(observation.result).astype(np.float64)
    truth = every.pick(observation.truth).astype(np.float64)
    told = np.isfinite(given) & mark_unclipped(observation.problem, given) & mark_unclipped(observation.problem, truth)
    missing = np.where(told, given - truth, 0.0)
    source = terms.view_source(observation.operands[terms.source_operand])
    sums = np.stack([gather_source(terms, source, g, few.positions).sum(axis=1) for g in range(terms.groups)])
    size = np.abs(sums).max()
    if not size or not np.isfinite(sums).all():
        return
    # Of the largest size one, so that squares are numbers.
    met = np.where(told, np.repeat(sums / size, terms.rows, axis=0), 0.0)
    squares = (met * met).sum(axis=1)
    usable = told.sum(axis=1) >= _FEWEST
    if np.std(sums / size) <= _ALIKE * np.abs(sums / size).mean() or not squares[usable].any():
        return
    missing = missing / size
    numbers = np.where(usable & (squares > 0), (met * missing).sum(axis=1) / np.where(squares > 0, squares, 1.0), 0.0)
    left = ((missing - numbers[:, None] * met)[usable] ** 2).sum()
    if left > _LEFT * (missing[usable] ** 2).sum() or not numbers.any():
        return
    one = float((numbers * squares).sum() / squares.sum())
    if np.abs(numbers[usable] - one).max() <= _ONE * abs(one):
        numbers[:] = one
    yield _shift(observation, numbers, numbers[usable])


def _shift(observation: Observation, numbers: Floats, told: Floats) -> Hypothesis:
    shape = (observation.terms.groups, observation.terms.rows, 1, 1)
    low, high = f"{told.min():.4g}", f"{told.max():.4g}"
    what = low if low == high else f"a number of its own for each output channel ({low} to {high})"
    says = f"multiplies {observation.terms.rows_operand} plus {what}, as where a zero point is left out"
    return with_rows(CauseCode.OTHER_OPERANDS, "wrong", says, lambda rows: rows + numbers.reshape(shape), observation)
