"""What made one recorded result: its values first, then hypotheses, then faults of a part of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Observation
from samebits.mechanisms.noise.one_signed import explain_one_signed
from samebits.mechanisms.noise.operand_noise import explain_operand_noise
from samebits.mechanisms.noise.sum_noise import explain_sum_noise
from samebits.mechanisms.noise.transform_noise import explain_arrangement, explain_transform
from samebits.mechanisms.operands.other_operands import explain_rounded_record, explain_unrelated, explain_wider_weights
from samebits.mechanisms.other_weights.low_rank import explain_low_rank
from samebits.mechanisms.other_weights.single_weights import explain_single_weights
from samebits.mechanisms.parts.moved_parts import explain_shift
from samebits.mechanisms.parts.odd_values import explain_flush, explain_lost_subnormals, explain_odd_values
from samebits.mechanisms.parts.partial_faults import explain_part, explain_scaled_part
from samebits.mechanisms.search.hypothesis_search import HypothesisSearch
from samebits.mechanisms.search.recalled import Recalled
from samebits.mechanisms.stored_results.last_rounding import explain_coarse_result, explain_last_rounding
from samebits.progress import Progress

# Infinities and NaN may come of an arithmetic that can be named.
_OPEN_CAUSES = (CauseCode.OVERFLOW, CauseCode.UNINITIALIZED_MEMORY)


@dataclass(frozen=True)
class Found:
    """The mechanism of one result, if found; how many hypotheses of each kind were tried; an unproved explanation."""

    mechanism: Mechanism | None
    tried: Counter[str]
    unproved: str | None = None

    @staticmethod
    def nothing() -> Found:
        """The value for a result that was not searched."""
        return Found(None, Counter())


@np.errstate(all="ignore")  # Squares of extreme numbers are infinite; what is comes close to nothing.
def find_mechanism(observation: Observation, progress: Progress, recalled: Recalled | None = None) -> Found:
    """The mechanism of a result that differs from the truth; what is `recalled` of others of its side comes first."""
    looked = observation.detect_output_grid()
    same = recalled.find(looked, progress) if recalled else None
    if same is not None:
        return Found(same, Counter())
    search = HypothesisSearch(looked, progress)
    found = _find(looked, search)
    if found is None and looked.stored is not None:
        # Operands on a grid may give numbers on one, too: then nothing was stored.
        without = HypothesisSearch(observation, progress, search.tried)
        found, search = _find(observation, without), without
    if recalled is not None:
        recalled.keep(found)
    return Found(found, search.tried, search.unproved)


def _find(observation: Observation, search: HypothesisSearch) -> Mechanism | None:
    values = explain_odd_values(observation) or explain_lost_subnormals(observation)
    if values is not None and (values.verdict == "rounding" or values.cause not in _OPEN_CAUSES):
        return values
    if not observation.result.any() and (flushed := explain_flush(observation)):
        # Formats with fewer exponents give zeros too, but numbers near float32's smallest are seldom put in those.
        return flushed
    found = explain_single_weights(observation) if values is None else None
    if found is not None:
        return found
    found = search.run() or explain_shift(observation)
    if values is not None:
        return _choose_between(values, found)
    if found is not None and found.fit == "bits" and found.cause == CauseCode.LOW_PRECISION_ACCUMULATOR:
        overflowed = np.isfinite(observation.truth) & ~np.isfinite(observation.result)
        if not found.sampled and overflowed.any():
            found = replace(found, cause=CauseCode.OVERFLOW)
    # Where all that is wrong is smaller than a subnormal number can make it, no part of the result is at fault.
    found = found or explain_flush(observation)
    if found is not None and found.cause == CauseCode.FUSION and found.fit == "bound":
        # One number for one region says more than numbers of its own for each channel.
        found = explain_scaled_part(observation) or found
    # Other weights fit whatever is wrong in some channels only.
    if found is None or found.cause == CauseCode.OTHER_OPERANDS or (found.fit != "bound" and found.replay is None):
        part = explain_part(observation)
        # Which other operands, where that was found, says more than that they are others.
        found = found if part is None or (found and found.cause == part.cause) else part
    last = (
        explain_coarse_result, explain_last_rounding, explain_wider_weights, explain_low_rank,
        lambda _: search.find_nearest(), explain_arrangement, explain_rounded_record, explain_transform,
        explain_one_signed, explain_unrelated, explain_sum_noise, explain_operand_noise,
    )  # fmt: skip
    return found or next(filter(None, (explain_last(observation) for explain_last in last)), None)


def _choose_between(values: Mechanism, found: Mechanism | None) -> Mechanism:
    """The found mechanism if its bits were replayed (only they show which arithmetic overflows), else `values`."""
    if found is None or found.fit != "bits" or found.sampled:
        return values
    if values.cause == CauseCode.OVERFLOW:
        return replace(found, cause=values.cause, evidence=(*found.evidence, *values.evidence))
    return found
