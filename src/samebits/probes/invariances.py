"""What should not change the bits of an output, and may: batch, position in it, length, channel order, repetition.

Unlike the other probes these do change the problem, as a person would who grows a batch or an input. Each answers True
(same bits), False, or None where the question does not apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.formats.same_bits import has_same_bits
from samebits.problems import Problem
from samebits.problems.operands import make_normal
from samebits.runner import Runner, check_result

_SEED = 41
_REPEATS = 5


def count_distinct_results(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray]) -> int:
    """How many different results the same operands give in several runs."""
    distinct: list[np.ndarray] = []
    for _ in range(_REPEATS):
        result = _run(runner, problem, operands)
        if not any(has_same_bits(result, other) for other in distinct):
            distinct.append(result.copy())
    return len(distinct)


def is_invariant_to_batch_size(runner: Runner, problem: Problem) -> bool | None:
    """Does the first item of a batch get the same bits when the batch is one larger?"""
    if problem.direction == "grad_weight":
        return None
    larger = _with_batch(problem, problem.x[0] + 1)
    many = make_normal(larger, _SEED)
    few = {n: _first_items(n, a, problem.x[0]) for n, a in many.items()}
    return has_same_bits(_run(runner, larger, many)[: problem.x[0]], _run(runner, problem, few))


def is_invariant_to_batch_position(runner: Runner, problem: Problem) -> bool | None:
    """Do equal items of one batch get equal bits?"""
    if problem.direction == "grad_weight":
        return None
    batch = max(problem.x[0], 3)
    repeated = _with_batch(problem, batch)
    operands = make_normal(repeated, _SEED)
    for name in ("x", "dy"):
        if name in operands:
            operands[name] = np.repeat(operands[name][:1], batch, axis=0)
    result = _run(runner, repeated, operands)
    return all(has_same_bits(result[0], item) for item in result[1:])


def is_invariant_to_length(runner: Runner, problem: Problem) -> bool | None:
    """Do outputs keep their bits when the last axis of the input grows by one, which they do not read?"""
    if problem.direction != "forward" or problem.is_transposed or isinstance(problem.padding, str):
        return None
    longer = replace(problem, x=(*problem.x[:-1], problem.x[-1] + 1))
    operands = make_normal(longer, _SEED)
    shorter = {**operands, "x": np.ascontiguousarray(operands["x"][..., :-1])}
    axis = problem.axes[-1]
    first = np.arange(axis.size_small) * axis.stride - axis.pad_begin
    kept = int((first + (axis.kernel - 1) * axis.dilation < axis.size_large).sum())
    if not kept:
        return None
    return has_same_bits(_run(runner, longer, operands)[..., :kept], _run(runner, problem, shorter)[..., :kept])


def is_invariant_to_channel_order(runner: Runner, problem: Problem) -> bool | None:
    """Do outputs keep their bits when the channels that are summed are met in another sequence?"""
    if problem.direction != "forward" or problem.groups != 1 or problem.c_in < 2:
        return None
    operands = make_normal(problem, _SEED)
    order = np.random.default_rng(_SEED).permutation(problem.c_in)
    axis = 0 if problem.is_transposed else 1
    mixed = {
        **operands,
        "x": np.ascontiguousarray(operands["x"][:, order]),
        "w": np.ascontiguousarray(np.take(operands["w"], order, axis)),
    }
    return has_same_bits(_run(runner, problem, operands), _run(runner, problem, mixed))


def is_same_on(other: Runner, problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray) -> bool:
    """Does another runner (the same engine with another setting) give the same bits?"""
    return has_same_bits(_run(other, problem, operands), result)


def _with_batch(problem: Problem, batch: int) -> Problem:
    return replace(problem, x=(batch, *problem.x[1:]))


def _first_items(name: str, array: np.ndarray, count: int) -> np.ndarray:
    return array[:count] if name in ("x", "dy") else array


def _run(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.generic]:
    return check_result(problem, runner.run(problem, operands))
