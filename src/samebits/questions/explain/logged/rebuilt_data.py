"""Operands as a logging tool makes them, and exact sums of a few outputs of theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samebits.errors import ResourceLimitError
from samebits.judging.comparing_cost import check_memory
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, shrink_problem
from samebits.problems import Problem, format_problem
from samebits.problems.operands import make_normal, make_uniform

_ROWS, _POSITIONS = 4, 8
_LONGEST_SUM, _MOST_ELEMENTS = 2_000_000, 50_000_000


@dataclass(frozen=True)
class Stage:
    """Rebuilt operands of a problem, a few outputs, and what these should be."""

    observation: Observation
    sample: Sample
    truth: Floats


def rebuild(problem: Problem, *, uniform: float | None) -> Stage:
    """Operands uniform in 0 ... `uniform`, or normal ones, and exact sums of a few outputs.

    Raises ResourceLimitError where the problem is too large to simulate.
    """
    problem = shrink_problem(problem)
    check_memory(problem, 2)
    elements = sum(math.prod(s) for s in problem.operand_shapes.values())
    if problem.reduction_length > _LONGEST_SUM or elements > _MOST_ELEMENTS:
        raise ResourceLimitError(
            f"{format_problem(problem)} is too large to simulate; store the arrays of a smaller case and explain that"
        )
    operands = make_normal(problem) if uniform is None else make_uniform(problem, 0, 0.0, uniform)
    # No result was recorded, and of such long sums not all are needed.
    unknown = np.broadcast_to(np.nan, problem.out_shape)
    observation = Observation(problem, operands, unknown, unknown, unknown, unknown)
    few = observation.choose_sample().thin(_ROWS, _POSITIONS)
    return Stage(observation, few, observation.sum_instead(operands, few))
