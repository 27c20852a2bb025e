"""Many sizes of one problem run on the beginnings of the same operands; of each result the bits of a shared part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from samebits.engines.runner import Runner, check_result
from samebits.errors import EngineCrashed, EngineFailure, EngineTimedOut
from samebits.numbers.ulps import digest_bits, has_same_bits
from samebits.problems import Problem


@dataclass(frozen=True)
class SlicedRun:
    """The name of the shared outputs' bits, whether all items have the same bits, and the seconds of the engine's call.

    `failure` is the kind and the words of what went wrong instead.
    """

    digest: str = ""
    even: bool | None = None
    seconds: float = 0.0
    failure: tuple[str, str] | None = None


@dataclass(frozen=True)
class Part:
    """The part of every result that is looked at: its leading shape, and the axis whose items should be equal."""

    shape: tuple[int, ...]
    item_axis: int | None

    def name_bits(self, result: np.ndarray) -> str:
        """The name of the bits that this part of a result has."""
        return digest_bits(result[tuple(slice(0, size) for size in self.shape)])


@runtime_checkable
class SlicedRunner(Protocol):
    """A runner that runs many sizes where it has the operands, so that these travel once."""

    def run_slices(
        self, problems: Sequence[Problem], operands: Mapping[str, np.ndarray], part: Part
    ) -> list[SlicedRun]:
        """One answer per problem. Raises an EngineFailure where the runner itself is gone."""
        ...


def run_slices(
    runner: Runner, problems: Sequence[Problem], operands: Mapping[str, np.ndarray], part: Part
) -> list[SlicedRun]:
    """One answer per problem, a failure among them. Raises an EngineFailure where the runner itself is gone."""
    if isinstance(runner, SlicedRunner):
        return runner.run_slices(problems, operands, part)
    return [_ask(runner, problem, operands, part) for problem in problems]


def _ask(runner: Runner, problem: Problem, operands: Mapping[str, np.ndarray], part: Part) -> SlicedRun:
    try:
        return look_at(lambda given: runner.run(problem, given), problem, operands, part)
    except (EngineCrashed, EngineTimedOut):
        raise
    except EngineFailure as error:
        return SlicedRun(failure=(error.kind, str(error)))


def slice_operands(problem: Problem, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The beginnings of larger operands that a problem reads."""
    return {
        name: np.ascontiguousarray(operands[name][tuple(slice(0, size) for size in shape)])
        for name, shape in problem.operand_shapes.items()
    }


def look_at(
    run: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    part: Part,
) -> SlicedRun:
    """Runs one size, and names the bits of the shared part of its result."""
    given = slice_operands(problem, operands)
    started = time.perf_counter()
    result = check_result(problem, run(given))
    took = time.perf_counter() - started
    return SlicedRun(part.name_bits(result), _is_even(result, part.item_axis), took)


def _is_even(result: np.ndarray, axis: int | None) -> bool | None:
    if axis is None or result.shape[axis] < 2:
        return None
    codes = np.ascontiguousarray(result).view(f"uint{8 * result.dtype.itemsize}")
    if (codes == np.take(codes, [0], axis)).all():
        return True
    # Some NaN may be another one.
    return has_same_bits(np.broadcast_to(np.take(result, [0], axis), result.shape), result)
