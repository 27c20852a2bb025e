"""Faults of a part of the result: a tail, a group, a batch item, everything from an index on, unwritten memory.

The bounds prove that a part is wrong; which fault made it so is inferred from its shape and its values.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.measuring import mark_unclipped, measure_absolute
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.epilogue.epilogue import list_fitted_hypotheses, say_scaled_channels
from samebits.mechanisms.evidence.acceptance import TINY_POSITIONS, TINY_ROWS, accept, bound_prediction, is_sampled
from samebits.mechanisms.evidence.nearness import is_as_close_as_a_plain_sum
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.mechanisms.facts.wrong_regions import Region, find_box, find_region, mark_alike_windows
from samebits.mechanisms.operands.narrower_parts import explain_narrower_part
from samebits.mechanisms.operands.other_operands import explain_unrelated
from samebits.mechanisms.other_weights.lost_products import list_lost_products
from samebits.mechanisms.parts.moved_parts import find_exchange, find_multiples
from samebits.mechanisms.positions.geometry import list_geometry_hypotheses
from samebits.mechanisms.positions.layout import list_layout_hypotheses
from samebits.numbers.format import find_format
from samebits.problems.problem import Problem
from samebits.problems.windows import mark_border, mark_sides

# Outputs that kernels compute at once.
_VECTORS = (2, 4, 8, 16, 32, 64)
# One or two at the end are left over by any tiling.
_FEWEST_COLUMNS = 3
_NEVER_WRITTEN = "returns values that no sum of these products can have, as of memory that was never written"


class Values(StrEnum):
    """What most of the wrong outputs are, in the words of a sentence "returns ..."."""

    ZEROS = "zeros"
    BIAS = "nothing but the bias"
    TWICE = "twice the sums"
    OTHER = "other values"


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
    where = describe_places(observation.problem, wrong)
    evidence = f"{count:,} of {wrong.size:,} outputs are beyond their bound, {where}; all others are within theirs"
    if not given[wrong].any():
        # Where bounds are wide, zeros next to them were not computed either.
        wrong = wrong | ((given == 0) & (observation.truth != 0))
        where = describe_places(observation.problem, wrong)
    if not is_far_off(observation, wrong):
        # Single products are lost in sums of hundreds.
        lost = _find_lost(observation, wrong)
        found = _found(lost.cause, f"{lost.says}, {where}", evidence) if lost else None
        return found or _explain_factor(observation, wrong, evidence) or explain_narrower_part(observation, wrong)
    what = _find_values(observation, given, wrong)
    multiples = find_multiples(observation, wrong)
    lost = _explain_lost_clip(observation, given, wrong, evidence)
    if multiples is not None or lost is not None:
        return _found(*multiples, evidence) if multiples else lost
    first = int(np.flatnonzero(wrong)[0])
    if _goes_on_to_the_end(observation, wrong, first):
        return _explain_tail(observation, given, wrong, first, f"returns {what}", evidence)
    if (scaled := _explain_scaled(observation, wrong)) is not None:
        return scaled
    clipped = _mark_clipped(observation, given)
    if _is_all_that_tells(observation, wrong, clipped) and (unrelated := explain_unrelated(observation)):
        return unrelated
    region = find_region(observation.problem, wrong, clipped)
    if region is None:
        few = count <= thresholds.MOST_SCATTERED * (~clipped).sum()
        return _explain_scattered(observation, wrong, what, evidence) if few else None
    return _explain_region(observation, given, wrong, region, what, evidence)


def leaves_part_zero(observation: Observation) -> bool:
    """Whether a region of the result, or all from one output on, is zero where sums are not, and all others are good.

    Numbers that are fitted never give zeros there and leave all others as good as a plain sum's.
    """
    wrong = observation.distances.over_bound > 1.0
    given = observation.result.astype(np.float64)
    if not wrong.any() or given[wrong].any():
        return False
    wrong |= (given == 0) & (observation.truth != 0)
    if wrong.sum() < thresholds.FEWEST_TELLING or not is_far_off(observation, wrong):
        return False
    first = int(np.flatnonzero(wrong)[0])
    if _goes_on_to_the_end(observation, wrong, first):
        part = np.arange(wrong.size).reshape(wrong.shape) >= first
    elif (region := find_region(observation.problem, wrong, _mark_clipped(observation, given))) is not None:
        part = region.mask
    else:
        return False
    sample = observation.choose_sample()
    return is_as_close_as_a_plain_sum(observation, sample, part, times=thresholds.FAULT_FREE_TIMES)


def _explain_tail(
    observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_], first: int, does: str, evidence: str
) -> Mechanism | None:
    """A fault that begins at one output and goes on to the last one."""
    tail = np.arange(wrong.size).reshape(wrong.shape) >= first
    if not _is_fine_outside(observation, tail):
        return None
    if _are_impossible(observation, given, wrong):
        return _found(CauseCode.UNINITIALIZED_MEMORY, _NEVER_WRITTEN, evidence)
    return _found(CauseCode.INDEX_OVERFLOW, f"{does} from output {first:,} of {wrong.size:,} on", evidence)


def _find_values(observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_]) -> Values:
    """What most of the wrong outputs are."""
    if (given[wrong] == 0).mean() > thresholds.LEAST_FILLED:
        return Values.ZEROS
    if observation.problem.bias:
        bias = observation.operands["bias"].astype(np.float64).reshape(observation.problem.bias_shape)
        finished = observation.apply_epilogue(np.broadcast_to(bias, given.shape))
        if (given[wrong] == finished[wrong]).mean() > thresholds.LEAST_FILLED:
            return Values.BIAS
    whole = observation.whole()
    twice = observation.finish(2 * whole.pick(observation.bare_sums()), whole)
    room = bound_prediction(observation, whole, twice, 0.0)
    if (measure_absolute(whole.pick(given), twice) <= room)[whole.pick(wrong)].mean() > thresholds.LEAST_FILLED:
        return Values.TWICE
    return Values.OTHER


def _mark_clipped(observation: Observation, given: Floats) -> npt.NDArray[np.bool_]:
    """Outputs that a clip makes right whatever was computed."""
    then, truth = observation.problem.then, observation.truth.astype(np.float64)
    if then is None:
        return np.zeros(given.shape, bool)
    return (given == truth) & ((truth <= then.low) | (truth >= then.high))


def _is_all_that_tells(observation: Observation, wrong: npt.NDArray[np.bool_], clipped: npt.NDArray[np.bool_]) -> bool:
    """Whether outputs are right on a plain background only, where another sequence of operands is not seen."""
    alike = mark_alike_windows(observation)
    telling = int((~alike & ~clipped).sum())
    return 0 < thresholds.LEAST_FILLED * telling <= wrong.sum() and not (wrong & alike).any()


def _explain_lost_clip(
    observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_], evidence: str
) -> Mechanism | None:
    """Values outside of what the epilogue lets through: it was not applied there."""
    outside = observation.mark_outside()
    then = observation.problem.then
    if then is None or not outside.any() or (wrong & ~outside).any():
        return None
    reach = max(abs(v) for v in (then.low, then.high) if np.isfinite(v))
    if _are_impossible(observation, given, wrong) and (np.abs(given[outside]) > thresholds.IMPOSSIBLE * reach).any():
        return None
    count = int(outside.sum())
    what = f"{count:,} values" if count > 1 else "one value"
    says = f"returns {what} outside of what {then.name} lets through, {describe_places(observation.problem, outside)}"
    return _found(CauseCode.FUSION, says, evidence)


def _explain_scaled(observation: Observation, wrong: npt.NDArray[np.bool_]) -> Mechanism | None:
    """Some output channels, each multiplied by a number and shifted by one."""
    problem, terms = observation.problem, observation.terms
    by_row = (terms.groups * terms.rows, -1)
    rows = np.flatnonzero(terms.view_result(wrong).reshape(by_row).any(axis=1))
    if problem.stated is not None or len(rows) > by_row[0] / 2:
        return None
    # To sums that are all alike any numbers can be fitted.
    sums = terms.view_result(observation.truth).reshape(by_row)[rows]
    if min(len(np.unique(row)) for row in sums) < thresholds.FEWEST_PER_CHANNEL:
        return None
    for hypothesis in list_fitted_hypotheses(problem):
        found = accept(observation, hypothesis, [])
        if found is not None and (says := say_scaled_channels(observation, rows)):
            return replace(found, says=says)
    return None


def _explain_scattered(
    observation: Observation, wrong: npt.NDArray[np.bool_], what: Values, evidence: str
) -> Mechanism | None:
    """Some outputs far off, in no known region, and the others as good as a plain sum's."""
    if not _is_fine_outside(observation, wrong):
        return None
    if _are_impossible(observation, observation.result.astype(np.float64), wrong):
        return _found(CauseCode.UNINITIALIZED_MEMORY, _NEVER_WRITTEN, evidence)
    if what is Values.OTHER and (function := _explain_function(observation, wrong, evidence)):
        return function
    if _is_of_padding(observation.problem, wrong, _mark_clipped(observation, observation.result.astype(np.float64))):
        return _found(CauseCode.PADDING, f"returns {what} where windows reach into the padding", evidence)
    in_borders = not (wrong & ~mark_border(observation.problem)).any()
    cause = CauseCode.SHAPE_SPECIFIC_KERNEL if what is Values.TWICE or in_borders else None
    return _found(cause, f"returns {what} {describe_places(observation.problem, wrong)}", evidence)


def _explain_region(
    observation: Observation, given: Floats, wrong: npt.NDArray[np.bool_], region: Region, what: Values, evidence: str
) -> Mechanism | None:
    """A fault that fills a region: channels, rows, columns, items, a group, the border, a phase."""
    box = region.mask
    # Zeros are no noise, whatever the others have.
    if what is not Values.ZEROS and not _is_fine_outside(observation, box):
        return None
    if _are_impossible(observation, given, wrong):
        return _found(CauseCode.UNINITIALIZED_MEMORY, _NEVER_WRITTEN, evidence)
    batch = np.flatnonzero(wrong.any(axis=tuple(range(1, wrong.ndim))))
    whole_items = box.all(axis=tuple(range(1, wrong.ndim))).sum() == len(batch)
    others = observation.problem.direction != "grad_weight" and list(batch) == list(range(1, len(wrong)))
    if whole_items and others and len(batch) > 1:
        says = f"computes batch item 0 right and returns {what} for all others"
        return _found(CauseCode.STRIDED_VIEW, says, evidence)
    if what is Values.OTHER and (factor := _explain_factor(observation, wrong, evidence)):
        return factor
    if what is Values.OTHER and (function := _explain_function(observation, wrong, evidence)):
        return function
    if _is_of_padding(observation.problem, wrong, _mark_clipped(observation, given)):
        return _found(CauseCode.PADDING, f"returns {what} where windows reach into the padding", evidence)
    says = f"returns {what} {region.where or 'for a part of the result'}"
    return _found(CauseCode.SHAPE_SPECIFIC_KERNEL, says, evidence)


def _is_of_padding(problem: Problem, wrong: npt.NDArray[np.bool_], clipped: npt.NDArray[np.bool_]) -> bool:
    """Whether wrong outputs fill what reaches into the padding at whole sides of the result, and nothing else.

    One of these sides is at the beginning of an axis, or as wide as no vector leaves anything over.
    """
    if problem.stated is not None or problem.direction == "grad_weight":
        return False
    concerned = wrong.any(axis=tuple(range(2, wrong.ndim)), keepdims=True)
    filled = np.zeros(wrong.shape[2:], bool)
    is_padding = False
    for axis, sides in enumerate(mark_sides(problem)):
        for is_end, side in enumerate(sides):
            tells = side & concerned & ~clipped
            if tells.any() and (wrong & tells).sum() >= thresholds.LEAST_FILLED * tells.sum():
                filled |= side
                width = int(side.any(axis=tuple(i for i in range(side.ndim) if i != axis)).sum())
                is_padding |= not is_end or (
                    width >= _FEWEST_COLUMNS and all(side.shape[axis] % vector != width for vector in _VECTORS)
                )
    return is_padding and not (wrong & ~filled).any()


def explain_scaled_part(observation: Observation) -> Mechanism | None:
    """A region all of whose outputs are their sums times one number; None where there is none."""
    wrong = observation.distances.over_bound > 1.0
    if not wrong.any():
        return None
    where = describe_places(observation.problem, wrong)
    evidence = f"{int(wrong.sum()):,} of {wrong.size:,} outputs are beyond their bound, {where}"
    return _explain_factor(observation, wrong, evidence)


def _explain_factor(observation: Observation, wrong: npt.NDArray[np.bool_], evidence: str) -> Mechanism | None:
    """One factor that makes all outputs of a region of its sums, each within the bound of its own sum."""
    region = find_region(observation.problem, wrong, _mark_clipped(observation, observation.result.astype(np.float64)))
    if region is None or is_sampled(observation):
        return None
    whole = observation.whole()
    sums, given = observation.sum_with_bias(whole), whole.pick(observation.result).astype(np.float64)
    part = whole.pick(region.mask) & mark_unclipped(observation.problem, given) & np.isfinite(sums) & np.isfinite(given)
    # To sums that are all alike a factor can be fitted whatever was computed.
    if len(np.unique(sums[part])) < thresholds.FEWEST_PER_CHANNEL:
        return None
    large = part & (np.abs(sums) >= np.median(np.abs(sums[part])))
    factor = float(np.median(given[large] / sums[large]))
    predicted = observation.apply_epilogue(factor * sums)
    room = bound_prediction(observation, whole, predicted, float(find_format(observation.problem.out).unit_roundoff))
    if not (np.abs(given - predicted) <= room)[part].all():
        return None
    # By chance an output as far off as this one would be so near to the factor's in one case of `away` over `room`.
    away = np.abs(given - observation.apply_epilogue(sums))
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.log2(np.maximum(away[part] / room[part], 1.0))
    if not bits.sum() >= thresholds.FEWEST_TELLING:
        return None
    cause = CauseCode.FUSION if _is_of_channels(observation.problem, region.mask) else CauseCode.SHAPE_SPECIFIC_KERNEL
    where = region.where or describe_places(observation.problem, region.mask)
    return _found(cause, f"returns {factor:.6g} times the sums {where}", evidence)


def _is_of_channels(problem: Problem, mask: npt.NDArray[np.bool_]) -> bool:
    """Whether a region is some output channels, whole: a factor is then that of a weight's scale, or of a norm."""
    if problem.direction != "forward" or problem.kind == "matmul":
        return False
    by_channel = np.moveaxis(mask, -1 if problem.kind == "linear" else 1, 0).reshape(problem.c_out, -1)
    return bool((by_channel.all(axis=1) == by_channel.any(axis=1)).all())


def _explain_function(observation: Observation, wrong: npt.NDArray[np.bool_], evidence: str) -> Mechanism | None:
    moved = find_exchange(observation, wrong)
    if moved is not None:
        return _found(*moved, evidence)
    found = _find_function(observation, wrong)
    if found is None:
        return None
    return _found(found.cause, f"{found.says}, {describe_places(observation.problem, wrong)}", evidence)


def _find_function(observation: Observation, wrong: npt.NDArray[np.bool_]) -> Hypothesis | None:
    """The hypothesis of lost products, other indices or another layout that gives the wrong part; None without one."""
    problem, whole = observation.problem, observation.whole()
    if is_sampled(observation):
        return None
    lost = _find_lost(observation, wrong)
    if lost is not None or problem.stated is not None:
        return lost
    box = find_box(wrong)
    if not box.any(axis=(0, 1)).all():
        # Of single rows and columns many relations of indices say the same.
        return None
    marked = whole.pick(box)
    part = Sample(whole.terms, np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0)))
    few = part.thin(TINY_ROWS, TINY_POSITIONS)
    hypotheses = (*list_geometry_hypotheses(problem), *list_layout_hypotheses(problem))
    return next((h for h in hypotheses if all(_fits(observation, h, s, box) for s in (few, part))), None)


def _find_lost(observation: Observation, wrong: npt.NDArray[np.bool_]) -> Hypothesis | None:
    """The run of products that all wrong outputs lack, or have twice."""
    if is_sampled(observation):
        return None
    listed = list_lost_products(observation, wrong)
    return next((h for h in listed if _fits(observation, h, observation.whole(), wrong)), None)


def _fits(observation: Observation, hypothesis: Hypothesis, sample: Sample, part: npt.NDArray[np.bool_]) -> bool:
    marked = sample.pick(part)
    predicted = hypothesis.predict(observation, sample)
    if predicted is None or not marked.any():
        return False
    away = np.abs(sample.pick(observation.result).astype(np.float64) - predicted)
    return bool((away <= bound_prediction(observation, sample, predicted, hypothesis.unit))[marked].all())


def _goes_on_to_the_end(observation: Observation, wrong: npt.NDArray[np.bool_], first: int) -> bool:
    """Whether the fault begins in the middle of a part that a kernel handles by itself, and fills all that follows."""
    right_before = first >= max(thresholds.FEWEST_BEFORE, thresholds.LEAST_BEFORE * wrong.size)
    filled = int(wrong.sum()) >= thresholds.LEAST_FILLED * (wrong.size - first)
    return right_before and filled and not _begins_a_part(observation, first)


def _is_fine_outside(observation: Observation, part: npt.NDArray[np.bool_]) -> bool:
    """Whether all outputs but a part are about as good as a plain sum's, or hardly off compared with the part."""
    sample = observation.choose_sample()
    if is_as_close_as_a_plain_sum(observation, sample, part, times=thresholds.FAULT_FREE_TIMES):
        return True
    with np.errstate(all="ignore"):
        shares = observation.distances.absolute / observation.magnitudes
    wrong = observation.distances.over_bound > 1.0
    masks = [m & np.isfinite(shares) for m in (wrong, ~part)]
    if (wrong & ~part).any() or not all(m.any() for m in masks):
        return False
    # A transform rounds in many outputs that no clip hides; a fault elsewhere is in few.
    rest = ~part & mark_unclipped(observation.problem, observation.truth)
    if (observation.distances.absolute[rest] > 0).sum() < thresholds.FEWEST_TELLING:
        return False
    inside, outside = (float(np.sqrt(np.mean(shares[m] ** 2))) for m in masks)
    return inside >= thresholds.APART_TIMES * outside


def is_far_off(observation: Observation, wrong: npt.NDArray[np.bool_]) -> bool:
    """Whether errors are a large share of the results' size, larger than less precision or a transform ever makes.

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
    """Whether sums of these products cannot have such values, however badly they were rounded.

    Most values must be impossible or, as with random bits, many among others that are next to nothing.
    """
    values = np.abs(given[wrong])
    largest = thresholds.IMPOSSIBLE * observation.magnitudes[wrong] + observation.transform_noise[wrong]
    if not np.isfinite(values).all():
        return True
    share, some = float((values > largest).mean()), values[values > 0]
    if share > thresholds.MAJORITY:
        return True
    if not some.size:
        return False
    octaves = np.log2(np.quantile(some, (0.1, 0.9)))
    return share > thresholds.SOME_IMPOSSIBLE and float(octaves[1] - octaves[0]) > thresholds.RANDOM_OCTAVES


def _begins_a_part(observation: Observation, first: int) -> bool:
    """Whether a flat index begins a channel, an item or a row: a part that a kernel handles by itself."""
    shape = observation.problem.out_shape
    # Turned around, an item keeps its first value.
    if len(shape) > 1 and first % math.prod(shape[1:]) == 1:
        return True
    return any(first % math.prod(shape[i:]) == 0 for i in range(1, len(shape)) if math.prod(shape[i:]) > 1)


def _found(cause: CauseCode | None, says: str, evidence: str) -> Mechanism:
    return Mechanism(cause, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))
