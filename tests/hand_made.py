"""Findings and observations written by hand, for tests of what is said and made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.findings import Error, Replay, Side
from samebits.mechanisms.facts.observation import Observation
from samebits.problems import Problem, parse_problem_text

WHOLE = Replay(1.0, 100)


def make_side(name: str, verdict: Any, share: float | None = None, ulp: float | None = 1.0, **more: Any) -> Side:
    """A side with a verdict; `share` is the largest share of its bound."""
    error = None if share is None else Error(max_abs=1.0, max_ulp=ulp, rel_l2=0.1, max_over_bound=share)
    return Side(name=name, engine=None, verdict=verdict, error=error, **more)


def observe(
    problem: Problem | str,
    truth: Any,
    result: Any,
    *,
    bound: Any = 1.0,
    magnitudes: Any = 1.0,
    operands: dict[str, np.ndarray] | None = None,
) -> Observation:
    """A recorded result of which everything is said by hand; a number stands for all outputs."""
    if isinstance(problem, str):
        problem = parse_problem_text(problem)
    dtype = {"float16": np.float16, "float32": np.float32, "float64": np.float64}[problem.out]
    shape = problem.out_shape
    given, true = (np.broadcast_to(np.asarray(a, dtype), shape).copy() for a in (result, truth))
    limit, scale = (np.broadcast_to(np.asarray(a, np.float64), shape).copy() for a in (bound, magnitudes))
    arrays = operands or {n: np.ones(s, dtype) for n, s in problem.operand_shapes.items()}
    return Observation(problem, arrays, given, true, limit, scale)
