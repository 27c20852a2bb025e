"""Patches that are stored where they should be added: of those that overlap, one is left."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.hypothesis import Hypothesis
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, sum_terms
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms


def list_overlap_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Of each output's taps the last one that met anything, or the first, by itself."""
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
