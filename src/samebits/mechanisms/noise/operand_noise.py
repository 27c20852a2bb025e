"""Operands that were off in a way that was not found, inferred from errors linear in the other operand."""

from __future__ import annotations

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.noise.error_structure import (
    ErrorNoise,
    choose_errors_sample,
    exceeds_likely,
    find_shared_errors,
    list_partial_sums,
    measure_errors,
)
from samebits.mechanisms.noise.noise_kinds import fit_kind, list_operand_sizes
from samebits.mechanisms.operands.other_operands import is_low_precision

# Rows that are off by less than this share of what the worst one is off by are right.
_SPARED = 1 / 64


def explain_operand_noise(observation: Observation) -> Mechanism | None:
    """An operand that was multiplied with errors of its own, inferred; None where anything else may have made them.

    Outputs that meet nearly the same inputs have nearly the same errors where the weights were off, and outputs of like
    filters where the inputs were. How large they are says if few bits may be why. An operand whose values on record
    are short may have been rounded for the record.
    """
    if observation.distances.within_bound and not exceeds_likely(observation):
        return None
    sample = choose_errors_sample(observation)
    noise = measure_errors(observation, sample) if sample is not None else None
    if noise is None:
        return None
    shared = find_shared_errors(noise)
    if shared is None or not _are_of_operands(noise) or _spares_rows(noise):
        return None
    terms = observation.terms
    name, other = terms.rows_operand, terms.source_operand
    if shared == "source":
        name, other = other, name
    off = _measure_off(noise)
    told = f"{int(noise.told.sum()):,} outputs"
    says = (
        f"the errors of {told} are alike where {other} is, as they are if {name} was off, by about {off:.2g} of its"
        " size, and not if sums or results were rounded"
    )
    evidence = (Evidence("statistic", says),)
    if is_low_precision(observation.operands[name], observation.problem.dtype):
        return Mechanism(
            CauseCode.OTHER_OPERANDS, "undecided", f"multiplies {name} that is not the one on record", "nearness",
            evidence=evidence,
        )  # fmt: skip
    if off > thresholds.COARSE_OPERAND:
        does = f"multiplies {name} that is not the one on record (off by about {off:.2g} of its size)"
        return Mechanism(CauseCode.OTHER_OPERANDS, "wrong", does, "nearness", evidence=evidence)
    if off < thresholds.LEAST_OF_FEW_BITS:
        # What is rounded to nearest, to a number of bits or to codes, is found by its numbers.
        does = (
            f"multiplies {name} that is off by about {off:.2g} of its size: another one, as of another step of"
            " training, or rounded in a way that was not tried"
        )
        return Mechanism(CauseCode.OTHER_OPERANDS, "undecided", does, "nearness", evidence=evidence)
    does = f"multiplies {name} that is off by about {off:.2g} of its size, as if rounded to few bits"
    return Mechanism(CauseCode.QUANTIZED_OPERANDS, "downgrade", does, "nearness", evidence=evidence)


def _are_of_operands(noise: ErrorNoise) -> bool:
    """Whether error sizes of operands fit at least as well as any that sums make."""
    kinds = [fit_kind(noise, None, "", v) for v in list_operand_sizes(noise)]
    sums = [fit_kind(noise, None, "", v) for v in list(list_partial_sums(noise))[1:]]
    return max(k.likelihood for k in kinds) >= max((k.likelihood for k in sums), default=-np.inf)


def _spares_rows(noise: ErrorNoise) -> bool:
    """Whether some output channels have next to no errors: then only a part is wrong, which this does not explain."""
    squares = (noise.products**2).sum(axis=(2, 3)) * noise.told
    told = noise.told.any(axis=1)
    shares = np.sqrt((noise.errors**2).sum(axis=1)[told] / squares.sum(axis=1)[told])
    return bool(shares.min() < _SPARED * shares.max())


def _measure_off(noise: ErrorNoise) -> float:
    """The root mean square error in shares of what products independent of each other add up to."""
    squares = (noise.products**2).sum(axis=(2, 3))[noise.told]
    return float(np.sqrt((noise.errors[noise.told] ** 2).sum() / squares.sum()))
