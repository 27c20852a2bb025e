"""Sums that lose a little of every value: errors that point toward zero, as rounding to nearest never makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped, measure_absolute
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.nearness import PLAIN_POSITIONS, PLAIN_ROWS, sum_in_orders
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.mechanisms.noise.error_structure import (
    choose_errors_sample,
    is_linear_in_operand,
    measure_errors,
    measure_left_of_losses,
)
from samebits.numbers.format import find_format


def explain_one_signed(observation: Observation) -> Mechanism | None:
    """Truncated sums: the errors, in shares of each output's magnitudes, have a mean toward zero that chance excludes.

    Rounding to nearest makes errors of either sign alike, in any order of addition, so that their signed sum is at most
    a few times the root of the sum of their squares (Hoeffding, 1963), as far as outputs are independent. Errors that
    all outputs of a channel share (of its weights, of a transform) point either way in different channels: nearly all
    channels must lose, and more than a factor common to all outputs can make them. Equal outputs count once; the
    result's own last rounding tells nothing.
    """
    terms = observation.terms
    shape = (terms.groups * terms.rows, -1)
    truth, given, magnitudes = (
        terms.view_result(a).reshape(shape).astype(np.float64)
        for a in (observation.truth, observation.result, observation.magnitudes)
    )
    loss = _find_loss(observation, given, truth, magnitudes)
    if loss is None or _is_of_the_data(observation) or _is_of_an_operand(observation):
        return None
    says = (
        f"{loss.inward:.0%} of {loss.count:,} errors point toward zero, in nearly every channel; errors of rounding to"
        f" nearest, independent of each other, would with a probability of {max(loss.probability, 1e-30):.1g} at most"
    )
    return Mechanism(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "loses some of every sum, as truncated sums do", "nearness",
        evidence=(Evidence("statistic", says),),
    )  # fmt: skip


def _is_of_the_data(observation: Observation) -> bool:
    """Whether sums rounded to nearest lose on the same data, too: few distinct values are all rounded alike."""
    sample = observation.choose_sample().thin(PLAIN_ROWS, PLAIN_POSITIONS)
    truth = sample.pick(observation.truth).astype(np.float64)
    errors = ((np.abs(s) - np.abs(truth))[truth != 0] for s in sum_in_orders(observation, sample))
    return any(abs(_count_sigmas(away)) > thresholds.SIGMAS for away in errors)


def _is_of_an_operand(observation: Observation) -> bool:
    """Whether another operand explains the errors, such as one whose largest values were clipped.

    Or one of which values are left out at random: sums lose much of their size then, and only a part of that is in
    proportion to any partial sums.
    """
    sample = choose_errors_sample(observation)
    noise = measure_errors(observation, sample) if sample is not None else None
    if noise is None:
        return False
    if is_linear_in_operand(noise, of_weights=False):
        return True
    large = np.sqrt((noise.errors**2).sum() / (noise.products**2).sum()) > thresholds.LARGE_LOSS
    return bool(large) and measure_left_of_losses(noise) > thresholds.LEFT_BY_LOSSES


def _count_sigmas(errors: Floats) -> float:
    """The sum of errors in roots of the sum of their squares."""
    return float(errors.sum()) / (float(np.sqrt((errors**2).sum())) or 1.0)


@dataclass(frozen=True)
class _Loss:
    """How many errors there are, which share of them points toward zero, and how likely that is at most."""

    count: int
    inward: float
    probability: float


def _find_loss(observation: Observation, given: Floats, truth: Floats, magnitudes: Floats) -> _Loss | None:
    """Errors toward zero in nearly all channels that chance excludes; all arrays [groups * rows, positions]."""
    unit = float(find_format(observation.problem.out).unit_roundoff)
    told = np.isfinite(given) & (measure_absolute(given, truth) > 2 * unit * np.abs(truth)) & (given * truth > 0)
    told &= mark_unclipped(observation.problem, truth)
    with np.errstate(all="ignore"):
        # A factor that all outputs share may be off by a few units, as the 1/n of an inverse transform is.
        shared = thresholds.SHARED_FACTOR * unit * np.abs(truth)
        away = (np.abs(given) - np.abs(truth) + shared) / magnitudes
    told &= np.isfinite(away) & _mark_first(truth)
    errors = away[told]
    if len(errors) < thresholds.FEWEST_UNRELATED or not _lose_all(away, told):
        return None
    sigmas = -_count_sigmas(errors)
    probability = math.exp(-(sigmas**2) / 2) if sigmas > 0 else 1.0
    if probability > thresholds.CHANCE_ONE_SIGNED:
        return None
    return _Loss(len(errors), float((errors < 0).mean()), probability)


def _mark_first(values: Floats) -> npt.NDArray[np.bool_]:
    """In each row, the first of equal values."""
    first = np.zeros(values.shape, bool)
    for row, marks in zip(values, first, strict=True):
        marks[np.unique(row, return_index=True)[1]] = True
    return first


def _lose_all(away: Floats, told: npt.NDArray[np.bool_]) -> bool:
    """Whether the errors of nearly every channel, taken together, point toward zero."""
    counts = told.sum(axis=1)
    sums = np.where(told, away, 0.0).sum(axis=1)[counts >= thresholds.FEWEST_PER_CHANNEL]
    return len(sums) >= thresholds.FEWEST_CHANNELS and bool((sums < 0).mean() >= thresholds.LOSING_CHANNELS)
