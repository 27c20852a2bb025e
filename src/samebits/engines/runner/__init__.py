"""The one protocol: whatever computes a problem from its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from samebits.errors import EngineRaised
from samebits.numbers.format import numpy_dtype
from samebits.problems.any_problem import AnyProblem


@dataclass(frozen=True)
class Identity:
    """What a runner says of itself: its text, the library's version, where it runs, the effective settings."""

    text: str
    name: str
    version: str
    device: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()


@runtime_checkable
class Runner(Protocol):
    """Anything that runs a problem. `run` raises an EngineFailure where it cannot; `close` frees what it holds."""

    text: str

    def identify(self) -> Identity:
        """What the runner says of itself. May raise an EngineFailure."""
        ...

    def run(self, problem: Any, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The result of a Problem, or of an Attention, in its shape and dtype. Raises an EngineFailure without one."""
        ...

    def close(self) -> None:
        """Frees what the runner holds; it is not used afterwards."""
        ...


# What a person may give where a runner is asked for in Python: `kernel(problem, operands) -> array`.
Kernel = Callable[[Any, Mapping[str, np.ndarray]], np.ndarray]


def check_result(problem: AnyProblem, result: Any) -> npt.NDArray[Any]:
    """The result, if it has the shape and dtype the problem says; raises EngineRaised."""
    if not isinstance(result, np.ndarray):
        raise EngineRaised(f"returned a {type(result).__name__} where an array was asked for")
    if isinstance(result, np.ma.MaskedArray):
        raise EngineRaised("returned a masked array; what is masked has no bits to compare")
    array = cast("npt.NDArray[Any]", result)
    if array.shape != problem.out_shape:
        raise EngineRaised(f"returned shape {array.shape} where the problem says {problem.out_shape}")
    if array.dtype != numpy_dtype(problem.out):
        raise EngineRaised(f"returned dtype {array.dtype} where the problem says {problem.out}")
    return array
