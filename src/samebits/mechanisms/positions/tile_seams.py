"""Planes computed in tiles that read nothing beyond their own edge: zeros stand at the seams, as in padding."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, sum_terms
from samebits.problems import Problem
from samebits.problems.problem import SPATIAL_AXES
from samebits.problems.terms import Terms, find_terms

_SIZES = (4, 8, 16, 32, 64, 128)


def list_seam_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Tiles of usual sizes, and halves of a plane, along all axes or along one; of planes that keep their size."""
    terms = find_terms(problem)
    gathers = terms.form == "gather" and problem.stated is None
    axes = [i for i, a in enumerate(problem.axes) if a.kernel > 1]
    if not gathers or not axes or any(a.stride != 1 or a.size_small != a.size_large for a in problem.axes):
        return
    whole = tuple(a.size_small for a in problem.axes)
    seen: set[tuple[int, ...]] = {whole}
    for chosen in dict.fromkeys([tuple(axes), *((i,) for i in axes)]):
        halves = {-(-whole[i] // 2) for i in chosen}
        for size in (*_SIZES, *sorted(halves.difference(_SIZES))):
            tiles = tuple(min(size, n) if i in chosen else n for i, n in enumerate(whole))
            if tiles not in seen:
                seen.add(tiles)
                yield _cut_into(problem, tiles)


def _cut_into(problem: Problem, tiles: tuple[int, ...]) -> Hypothesis:
    names = SPATIAL_AXES[problem.rank]
    cut = [i for i, a in enumerate(problem.axes) if tiles[i] < a.size_small]
    what = " x ".join(str(tiles[i]) for i in cut)
    along = " and ".join(names[i] for i in cut)
    says = f"computes tiles of {what} along {along} that read zeros beyond their own edge"

    def predict(observation: Observation, sample: Sample) -> Floats:
        terms = observation.terms
        weights, source = (observation.operands[n] for n in (terms.rows_operand, terms.source_operand))
        sums = sum_terms(terms, weights, source, sample, functools.partial(_mark_inside, terms, tiles))
        return observation.finish(sums, sample)

    return Hypothesis(CauseCode.SHAPE_SPECIFIC_KERNEL, "wrong", says, predict)


def _mark_inside(terms: Terms, tiles: tuple[int, ...], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """[positions, volume]: whether a term's source lies in the tile of its output."""
    places = positions % int(np.prod(terms.outputs))
    inside = np.ones((len(places), 1), bool)
    for at, reach, size in zip(np.unravel_index(places, terms.outputs), terms.reaches, tiles, strict=True):
        same = reach[at] // size == (at // size)[:, None]
        inside = (inside[:, :, None] & same[:, None, :]).reshape(len(places), -1)
    return inside


def list_overlap_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Outputs that keep only the last, or only the first, of the taps that met anything."""
    terms = find_terms(problem)
    if terms.form != "scatter" or problem.stated is not None or terms.volume == 1:
        return
    for last, which in ((True, "last"), (False, "first")):
        says = f"stores patches in place of adding them: where they overlap the product of the {which} tap is left"
        predict = functools.partial(_keep_one_tap, last)
        yield Hypothesis(CauseCode.TRANSPOSED_GEOMETRY, "wrong", says, predict)


def _keep_one_tap(last: bool, observation: Observation, sample: Sample) -> Floats:
    terms = observation.terms
    weights, source = (observation.operands[n] for n in (terms.rows_operand, terms.source_operand))
    sums = sum_terms(terms, weights, source, sample, functools.partial(_mark_one_tap, terms, last))
    return observation.finish(sums, sample)


def _mark_one_tap(terms: Terms, last: bool, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """[positions, volume]: the last (first) tap that reads a source, of each position."""
    reads = terms.locate_sources(positions % int(np.prod(terms.outputs))) >= 0
    at = terms.volume - 1 - reads[:, ::-1].argmax(axis=1) if last else reads.argmax(axis=1)
    return reads & (np.arange(terms.volume) == at[:, None])
