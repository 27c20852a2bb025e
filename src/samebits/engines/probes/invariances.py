"""What should not change the bits of an output, and may: batch, position in it, length, channel order, repetition.

Unlike the other probes these do change the problem, as a person would who grows a batch or an input. Each answers True
(same bits), False, or None where the question does not apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.engines.runner import Runner, check_result
from samebits.numbers.ulps import has_same_bits
from samebits.problems import Problem
from samebits.problems.operands import make_normal

_SEED = 41
TIMES_RUN = 5


def count_distinct_results(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray]) -> int:
    """How many different results the same operands give in several runs."""
    distinct: list[np.ndarray] = []
    for _ in range(TIMES_RUN):
        result = _run(runner, problem, operands)
        if not any(has_same_bits(result, other) for other in distinct):
            distinct.append(result.copy())
    return len(distinct)


def is_invariant_to_batch_size(runner: Runner, problem: Problem) -> bool | None:
    """Do items get the same bits alone, in pairs, and in a batch that is one smaller or one larger?"""
    batch = _find_batch(problem)
    if batch is None:
        return None
    largest = batch.size + 1
    many = make_normal(_with_batch(problem, batch, largest), _SEED)
    whole = _run_first(runner, problem, batch, many, batch.size)
    for size in sorted({1, 2, batch.size - 1, largest} - {0, batch.size}):
        both = min(size, batch.size)
        some = _run_first(runner, problem, batch, many, size)
        axis = batch.axis_of_result
        if not has_same_bits(_first_items(some, axis, both), _first_items(whole, axis, both)):
            return False
    return True


def is_invariant_to_batch_position(runner: Runner, problem: Problem) -> bool | None:
    """Do equal items of one batch get equal bits?"""
    batch = _find_batch(problem)
    if batch is None:
        return None
    size = max(batch.size, 3)
    repeated = _with_batch(problem, batch, size)
    operands = make_normal(repeated, _SEED)
    for name, axis in batch.axes.items():
        if name in operands:
            operands[name] = np.repeat(_first_items(operands[name], axis, 1), size, axis=axis)
    items = np.moveaxis(_run(runner, repeated, operands), batch.axis_of_result, 0)
    return all(has_same_bits(items[0], item) for item in items[1:])


def is_invariant_to_length(runner: Runner, problem: Problem) -> bool | None:
    """Do outputs keep their bits when the last axis of the input grows by one, which they do not read?"""
    if problem.direction != "forward" or problem.is_transposed or isinstance(problem.padding, str) or problem.product:
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
    axes = {"x": 1, "w": 0 if problem.is_transposed else 1}
    if problem.product:
        axes = {name: problem.product.labels[name].index("k") for name in axes}
    mixed = {
        **operands,
        **{name: np.ascontiguousarray(np.take(operands[name], order, axis)) for name, axis in axes.items()},
    }
    return has_same_bits(_run(runner, problem, operands), _run(runner, problem, mixed))


def is_same_on(other: Runner, problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray) -> bool:
    """Does another runner (the same engine with another setting) give the same bits?"""
    return has_same_bits(_run(other, problem, operands), result)


@dataclass(frozen=True)
class _Batch:
    """Items that are independent of each other: how many, along which axis of x and dy, and of the result."""

    size: int
    axes: dict[str, int]
    axis_of_result: int


def _find_batch(problem: Problem) -> _Batch | None:
    """The batch, of a product the rows; None where there are none."""
    if problem.direction == "grad_weight":
        return None
    if problem.product is None:
        return _Batch(problem.x[0], {"x": 0, "dy": 0}, 0)
    if len(problem.x) < 2:
        return None
    return _Batch(problem.x[-2], {"x": -2, "dy": -2}, -2 if len(problem.w) > 1 else -1)


def _with_batch(problem: Problem, batch: _Batch, size: int) -> Problem:
    sizes = list(problem.x)
    sizes[batch.axes["x"]] = size
    return replace(problem, x=tuple(sizes))


def _run_first(
    runner: Runner, problem: Problem, batch: _Batch, many: Mapping[str, np.ndarray], size: int
) -> npt.NDArray[np.generic]:
    """The result of a batch of the first `size` items."""
    few = {n: _first_items(a, batch.axes[n], size) if n in batch.axes else a for n, a in many.items()}
    return _run(runner, _with_batch(problem, batch, size), few)


def _first_items(array: np.ndarray, axis: int, count: int) -> np.ndarray:
    return np.ascontiguousarray(np.take(array, np.arange(count), axis))


def _run(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.generic]:
    return check_result(problem, runner.run(problem, operands))
