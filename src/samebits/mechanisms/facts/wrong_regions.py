"""The set of wrong outputs as a region that a kernel or a converter treats by itself: a box, a border, a phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings.words.place_words import find_triangle
from samebits.mechanisms.facts.observation import Observation, Sample
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.problem import SPATIAL_AXES
from samebits.problems.windows import mark_border

Mask = npt.NDArray[np.bool_]
_MOST_PHASES = 8
# Sums in float64 of values that are all alike, in shares of their squares.
_ALIKE = 2.0**-40


@dataclass(frozen=True)
class Region:
    """A mask over the result, and where it is in words; None where the places say it themselves."""

    mask: Mask
    where: str | None


def find_region(problem: Problem, wrong: Mask, clipped: Mask) -> Region | None:
    """The smallest known region that holds all wrong outputs and is filled by them; None where there is none.

    `clipped` marks outputs that tell nothing, because a clip makes right and wrong ones equal.
    """
    best: Region | None = None
    for region in _list_regions(problem, wrong):
        inside, outside = region.mask & ~clipped, ~region.mask & ~clipped
        if (wrong & ~region.mask).any() or outside.sum() < thresholds.LEAST_BEFORE * (~clipped).sum():
            continue
        if wrong.sum() >= thresholds.LEAST_FILLED * inside.sum() and (
            best is None or region.mask.sum() < best.mask.sum()
        ):
            best = region
    return best


def mark_alike_windows(observation: Observation) -> Mask:
    """Outputs that read one value only, as on a plain background: another sequence of operands is not seen there."""
    if "alike windows" not in observation.cache:
        observation.cache["alike windows"] = _mark_alike_windows(observation)
    return observation.cache["alike windows"]


def _mark_alike_windows(observation: Observation) -> Mask:
    terms = observation.terms
    if observation.problem.stated is not None:
        return np.zeros(observation.problem.out_shape, bool)
    source = observation.operands[terms.source_operand].astype(np.float64)
    ones = np.ones(observation.operands[terms.rows_operand].shape)
    sample = Sample(terms, np.arange(terms.groups) * terms.rows, np.arange(terms.positions))
    bare = observation.as_bare_sums()
    source /= float(np.abs(source[np.isfinite(source)]).max(initial=0.0)) or 1.0
    count, total, squares = (
        bare.sum_instead({terms.rows_operand: ones, terms.source_operand: source**power}, sample) for power in range(3)
    )
    with np.errstate(invalid="ignore"):
        # Of all numbers with a sum, equal ones have the least sum of squares.
        alike = count * squares - total * total <= _ALIKE * count * squares
    marked = np.zeros(observation.problem.out_shape, bool)
    view = terms.view_result(marked)
    view[...] = alike.reshape(terms.groups, 1, *view.shape[2:])
    return marked


def find_box(wrong: Mask) -> Mask:
    """All outputs whose index along every axis is that of some wrong one."""
    box = np.ones_like(wrong)
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        box &= wrong.any(axis=others, keepdims=True)
    return box


def _list_regions(problem: Problem, wrong: Mask) -> Iterator[Region]:
    box = find_box(wrong)
    yield Region(box, None)
    if problem.stated is not None and (triangle := _find_triangle(problem.stated, wrong)):
        yield triangle
    if problem.stated is not None or problem.direction == "grad_weight":
        return
    # Only what has its channels and items in the box.
    others = wrong.any(axis=tuple(range(2, wrong.ndim)), keepdims=True)
    border = np.broadcast_to(mark_border(problem), wrong.shape)
    yield Region(border & others, "where windows reach into the padding")
    yield Region(_mark_outermost(wrong.shape) & others, "in the outermost rows and columns")
    for axis in range(2, wrong.ndim):
        at = np.arange(wrong.shape[axis])
        met = np.unique(at[wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis))])
        name = SPATIAL_AXES[problem.rank][axis - 2]
        for step in range(2, min(_MOST_PHASES, len(at) - 1) + 1):
            phases = np.unique(met % step)
            if len(phases) < step and len(met) > 2:
                mask = np.isin(at % step, phases).reshape([-1 if i == axis else 1 for i in range(wrong.ndim)])
                which = " and ".join(map(str, phases))
                yield Region(mask & others, f"at {name} = {which} of every {step}")


def _find_triangle(stated: Problem, wrong: Mask) -> Region | None:
    """The side of a product's diagonal that holds all wrong outputs; the mask is of the lowered result."""
    restore = lower_problem(stated).restore_result
    found = find_triangle(restore(wrong))
    if found is None:
        return None
    mask = np.zeros(wrong.size, bool)
    mask[restore(np.arange(wrong.size).reshape(wrong.shape))[found[0]]] = True
    return Region(mask.reshape(wrong.shape), found[1])


def _mark_outermost(shape: tuple[int, ...]) -> Mask:
    mask = np.zeros(shape, bool)
    for axis in range(2, len(shape)):
        mask[(slice(None),) * axis + ([0, -1],)] = True
    return mask
