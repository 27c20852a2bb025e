"""Channels, items, rows or columns that another kernel computed from rounded operands, while others are sound."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.words.place_words import describe_places
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.arithmetic.arithmetic import list_operand_hypotheses
from samebits.mechanisms.evidence.acceptance import bound_prediction, is_sampled
from samebits.mechanisms.evidence.nearness import is_as_close_as_a_plain_sum
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample

# Errors of such a part that are left, root mean squares; and of its least part in shares of the usual ones.
_LEFT, _LEAST = 1 / 4, 1 / 4

Mask = npt.NDArray[np.bool_]


def explain_narrower_part(observation: Observation, wrong: Mask) -> Mechanism | None:
    """The rounding of operands that gives every output of a part, while all others are as good as plain sums."""
    if is_sampled(observation) or not np.isfinite(observation.result.astype(np.float64)).all():
        return None
    sample = observation.choose_sample()
    for axis in range(wrong.ndim):
        part = _choose_part(observation, wrong, axis)
        if part is None:
            continue
        if not is_as_close_as_a_plain_sum(observation, sample, part, times=thresholds.FAULT_FREE_TIMES):
            continue
        found = _find_rounding(observation, part)
        if found is None:
            continue
        where = describe_places(observation.problem, part)
        beyond = int((observation.distances.over_bound > 1.0).sum())
        says = (
            f"{beyond:,} outputs are beyond their bound, all {where}; every output there is within that of"
            " such operands, and all others are about as good as a plain sum's"
        )
        return Mechanism(
            found.cause, found.verdict, f"{found.says}, {where}", "bound", evidence=(Evidence("structure", says),)
        )
    return None


def _choose_part(observation: Observation, wrong: Mask, axis: int) -> Mask | None:
    """All outputs of the indices along one axis whose errors are as large as where some are beyond their bound."""
    others = tuple(i for i in range(wrong.ndim) if i != axis)
    shares = observation.distances.absolute / observation.magnitudes
    sizes = np.sqrt((np.where(np.isfinite(shares), shares, 0.0) ** 2).mean(axis=others))
    off = wrong.any(axis=others)
    part = off | (sizes >= _LEAST * np.median(sizes[off]))
    if part.all():
        return None
    return np.broadcast_to(part.reshape([-1 if i == axis else 1 for i in range(wrong.ndim)]), wrong.shape)


def _find_rounding(observation: Observation, part: Mask) -> Hypothesis | None:
    """The rounding that comes closest to the part, if it comes so close and explains all of it."""
    whole = observation.whole()
    marked = whole.pick(part)
    some = Sample(whole.terms, np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0)))
    few = some.thin(16, 64)
    best, least = None, _LEFT * _measure(observation, few, few.pick(observation.truth).astype(np.float64), part)
    for hypothesis in list_operand_hypotheses(observation.problem):
        predicted = hypothesis.predict(observation, few)
        left = np.inf if predicted is None else _measure(observation, few, predicted, part)
        if left < least:
            best, least = hypothesis, left
    if best is None:
        return None
    predicted = best.predict(observation, some)
    if predicted is None:
        return None
    away = np.abs(some.pick(observation.result).astype(np.float64) - predicted)
    fits = away <= bound_prediction(observation, some, predicted, best.unit)
    return best if bool(fits[some.pick(part)].all()) else None


def _measure(observation: Observation, sample: Sample, predicted: Floats, part: Mask) -> float:
    away = (sample.pick(observation.result).astype(np.float64) - predicted)[sample.pick(part)]
    return float(np.sqrt(np.mean(away**2))) if len(away) and np.isfinite(away).all() else float("inf")
