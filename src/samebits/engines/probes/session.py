"""A runner being questioned about one problem: operands built from terms, calls counted, answers checked."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.engines.runner import Runner, check_result
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import ProbeStopped
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import Terms, find_terms
from samebits.progress import Progress, ignore_progress


@dataclass
class ProbeSession:
    """Asks a runner one problem again and again with chosen operands, and never another shape.

    Of a product `problem` becomes the convolution with the same sums, `runner` one that asks the product in its place.
    `calls` and `time_s` count what was asked so far; beyond `most_calls` or `most_time_s` the next question raises
    ProbeStopped. A runner that fails raises its EngineFailure.
    """

    runner: Runner
    problem: Problem
    most_calls: int = 20_000
    most_time_s: float = 60.0
    progress: Progress = ignore_progress
    calls: int = 0
    time_s: float = 0.0

    def __post_init__(self) -> None:
        lowering = lower_problem(self.problem)
        self.runner, self.problem = lower_runner(self.runner, lowering), lowering.convolution

    @property
    def terms(self) -> Terms:
        """The terms of the problem's sums."""
        return find_terms(self.problem)

    @property
    def numbered_terms(self) -> Terms:
        """The terms along the axes that they are numbered by, which orders are named after."""
        return self.terms

    @property
    def dtype(self) -> np.dtype:
        """The operands' NumPy dtype."""
        return numpy_dtype(self.problem.dtype)

    def make_operands(self, source: float = 1.0) -> dict[str, np.ndarray]:
        """Rows and bias of zeros, a source filled with one value."""
        operands = {name: np.zeros(shape, self.dtype) for name, shape in self.problem.operand_shapes.items()}
        operands[self.terms.source_operand][...] = source
        return operands

    def view_rows(self, operands: dict[str, np.ndarray]) -> np.ndarray:
        """The rows operand as [groups, rows, depth, volume], writable."""
        return self.terms.view_rows(operands[self.terms.rows_operand])

    def ask(self, operands: dict[str, np.ndarray]) -> np.ndarray:
        """The runner's result, of the problem's shape and dtype. Raises EngineFailure, ProbeStopped."""
        if self.calls >= self.most_calls:
            raise ProbeStopped(f"stopped after {self.calls} calls")
        if self.time_s >= self.most_time_s:
            raise ProbeStopped(f"stopped after {self.time_s:.0f} s and {self.calls} calls")
        started = time.perf_counter()
        self.calls += 1
        try:
            return check_result(self.problem, self.runner.run(self.problem, operands))
        finally:
            self.time_s += time.perf_counter() - started

    def ask_by_row(self, operands: dict[str, np.ndarray]) -> npt.NDArray[np.float64]:
        """The result as float64 [groups * rows, positions]."""
        view = self.terms.view_result(self.ask(operands))
        return view.astype(np.float64).reshape(self.terms.groups * self.terms.rows, -1)
