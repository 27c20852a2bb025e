"""Sums kept in too few bits in an order that was not found, inferred from errors as large as their partial sums.

Operands that are rounded, quantised or others make errors that are linear in the other operand: as large as the row's
times the position's. Roundings of sums are as large as the output's own partial sums; those of a transform follow the
plane or the tile, those of a result the result.
"""

from __future__ import annotations

import math

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation, Sample
from samebits.mechanisms.noise.error_structure import (
    ErrorNoise,
    choose_errors_sample,
    exceeds_likely,
    follow_sizes,
    is_linear_in_operand,
    list_partial_sums,
    measure_errors,
)
from samebits.mechanisms.noise.noise_kinds import fit_kind, rank_kinds
from samebits.sums.bounds import accumulator_format


def explain_sum_noise(observation: Observation) -> Mechanism | None:
    """Sums kept in fewer bits than declared, inferred from errors that nothing else makes; None where something may.

    Only for results beyond their bound, or beyond the likely one by more than sums of the same data in other orders.
    """
    if observation.distances.within_bound and not exceeds_likely(observation):
        return None
    sample = choose_errors_sample(observation)
    noise = measure_errors(observation, sample) if sample is not None else None
    if sample is None or noise is None:
        return None
    sizes = _list_sizes(observation, sample, noise)
    best = max((fit_kind(noise, None, "", v) for v in sizes["sums"]), key=lambda kind: kind.likelihood)
    others = (fit_kind(noise, None, "", v) for name, ways in sizes.items() for v in ways if name != "sums")
    margin = best.likelihood - max(kind.likelihood for kind in others)
    followed = max((follow_sizes(noise, v) for v in sizes["sums"]), key=lambda f: f.sigmas)
    if margin < -math.log(thresholds.CHANCE_SUMS) or followed.sigmas < thresholds.FOLLOWING_SIGMAS:
        return None
    bits = best.bits
    if followed.slope < thresholds.LEAST_POWER or bits >= accumulator_format(observation.problem).precision - 1:
        return None
    kinds = rank_kinds(observation)
    likelier = kinds and kinds[0].cause != CauseCode.LOW_PRECISION_ACCUMULATOR
    if likelier or is_linear_in_operand(noise):
        return None
    says = (
        f"the squared errors of {int(noise.told.sum()):,} outputs grow with those outputs' own partial sums to the"
        f" power of {followed.slope:.2g}, {followed.sigmas:.0f} standard errors from none, beyond what rows and"
        " positions have in common; errors of operands, tiles and planes do not"
    )
    does = f"keeps its sums in fewer bits than declared (about {bits:.0f}), in an order that was not found"
    return Mechanism(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", does, "nearness", evidence=(Evidence("statistic", says),)
    )


def _list_sizes(observation: Observation, sample: Sample, noise: ErrorNoise) -> dict[str, list[Floats]]:
    """The squared sizes, up to a factor, of errors made in sums, in results, in tiles and in planes."""
    truth = sample.pick(observation.truth).astype(np.float64)
    squares = sample.pick(observation.magnitudes) ** 2
    sizes = {"sums": list(list_partial_sums(noise)), "result": [truth**2]}
    sizes["plane"] = [np.broadcast_to(squares.mean(axis=1, keepdims=True), squares.shape), np.ones(squares.shape)]
    if observation.problem.stated is None and observation.problem.direction != "grad_weight":
        sizes["tiles"] = [sample.pick(_blur(observation.magnitudes**2, n)) for n in (2, 4, 6)]
    return sizes


def _blur(values: Floats, size: int) -> Floats:
    """Values of the result averaged over what is up to so many places away along each spatial axis."""
    for axis in range(2, values.ndim):
        padded = np.pad(values, [(size, size) if i == axis else (0, 0) for i in range(values.ndim)], mode="edge")
        sums = np.cumsum(padded, axis=axis)
        values = sums.take(range(2 * size, padded.shape[axis]), axis) - sums.take(range(values.shape[axis]), axis)
        values = np.maximum(values, 0.0)
    return values
