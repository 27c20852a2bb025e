"""Faults of a part of the result: a tail, a group, a batch item, everything from an index on, unwritten memory.

The bounds prove that a part is wrong; which fault made it so is inferred from its shape and its values.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from samebits.explanation.nearness import is_as_close_as_a_plain_sum
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.hypotheses import Observation
from samebits.hypotheses.observation import Floats
from samebits.judging import thresholds
from samebits.judging.verdict_rules import Mechanism
from samebits.wording.place_words import describe_places


def explain_part(observation: Observation) -> Mechanism | None:
    """A part of the outputs that is beyond its bound while all others are about as good as a plain sum's."""
    given = observation.result.astype(np.float64)
    wrong = observation.distances.over_bound > 1.0
    count = int(wrong.sum())
    if count == 0:
        return None
    if not given.any():
        evidence = f"{count:,} of {wrong.size:,} outputs are beyond their bound, and all are zero"
        return _found(None, "returns zeros only, as if nothing had been computed or written", evidence)
    if not is_far_off(observation, wrong):
        return None
    what = "zeros" if (given[wrong] == 0).mean() > thresholds.LEAST_FILLED else "other values"
    where = describe_places(observation.problem, wrong)
    evidence = f"{count:,} of {wrong.size:,} outputs are beyond their bound, {where}; all others are within theirs"
    first = int(np.flatnonzero(wrong)[0])
    if _goes_on_to_the_end(observation, wrong, first):
        tail = np.arange(wrong.size).reshape(wrong.shape) >= first
        if not _is_fine_outside(observation, tail):
            return None
        says = f"returns {what} from output {first:,} of {wrong.size:,} on"
        return _found(CauseCode.INDEX_OVERFLOW, says, evidence)
    return _explain_box(observation, given, wrong, what, evidence)


def _explain_box(
    observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_], what: str, evidence: str
) -> Mechanism | None:
    """A fault that fills a box of indices: channels, rows, columns, items, a group."""
    box = find_box(wrong)
    if box.all() or box.sum() * thresholds.LEAST_FILLED > wrong.sum() or not _is_fine_outside(observation, box):
        return None
    if _are_impossible(observation, given, wrong):
        says = "returns values that no sum of these products can have, as of memory that was never written"
        return _found(CauseCode.UNINITIALIZED_MEMORY, says, evidence)
    batch = np.flatnonzero(wrong.any(axis=tuple(range(1, wrong.ndim))))
    whole_items = box.all(axis=tuple(range(1, wrong.ndim))).sum() == len(batch)
    others = observation.problem.direction != "grad_weight" and list(batch) == list(range(1, len(wrong)))
    if whole_items and others and len(batch) > 1:
        says = f"computes batch item 0 right and returns {what} for all others"
        return _found(CauseCode.STRIDED_VIEW, says, evidence)
    return _found(CauseCode.SHAPE_SPECIFIC_KERNEL, f"returns {what} for a part of the result", evidence)


def _goes_on_to_the_end(observation: Observation, wrong: npt.NDArray[np.bool_], first: int) -> bool:
    """Whether the fault begins in the middle of a part that a kernel handles by itself, and fills all that follows."""
    right_before = first >= max(thresholds.FEWEST_BEFORE, thresholds.LEAST_BEFORE * wrong.size)
    filled = int(wrong.sum()) >= thresholds.LEAST_FILLED * (wrong.size - first)
    return right_before and filled and not _begins_a_part(observation, first)


def _is_fine_outside(observation: Observation, part: npt.NDArray[np.bool_]) -> bool:
    sample = observation.choose_sample()
    return is_as_close_as_a_plain_sum(observation, sample, part, times=thresholds.FAULT_FREE_TIMES)


def is_far_off(observation: Observation, wrong: npt.NDArray[np.bool_]) -> bool:
    """Whether values are off by a good part of the size of their results, as less precision or a transform never is.

    Of an output whose own products are few or zero the size is that of its row's usual sum of magnitudes.
    """
    given, truth = observation.result.astype(np.float64)[wrong], observation.truth.astype(np.float64)[wrong]
    if not np.isfinite(given).all():
        return True
    noise = observation.transform_noise[wrong]
    off = np.abs(given - truth)
    with np.errstate(all="ignore"):
        above = np.where(off > noise, off, 0.0)
        return bool(np.linalg.norm(above) > thresholds.SMALL_LOSS * np.linalg.norm(truth))


def _are_impossible(observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_]) -> bool:
    """Whether most of the values are none that a sum of these products can have, were it rounded ever so badly."""
    values = given[wrong]
    largest = thresholds.IMPOSSIBLE * observation.magnitudes[wrong] + observation.transform_noise[wrong]
    return not np.isfinite(values).all() or bool((np.abs(values) > largest).mean() > thresholds.MAJORITY)


def _begins_a_part(observation: Observation, first: int) -> bool:
    """Whether a flat index begins a channel, an item or a row: a part that a kernel handles by itself."""
    shape = observation.problem.out_shape
    return any(first % math.prod(shape[i:]) == 0 for i in range(1, len(shape)) if math.prod(shape[i:]) > 1)


def find_box(wrong: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """All outputs whose index along every axis is that of some wrong one."""
    box = np.ones_like(wrong)
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        box &= wrong.any(axis=others, keepdims=True)
    return box


def _found(cause: CauseCode | None, says: str, evidence: str) -> Mechanism:
    return Mechanism(cause, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))
