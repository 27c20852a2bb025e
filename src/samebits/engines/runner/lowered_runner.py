"""A runner of products as a runner of the convolution that has the same sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.engines.runner import Identity, Runner, check_result
from samebits.engines.runner.repeated_runs import RepeatedRuns, RepeatingRunner, repeat_call
from samebits.errors import EngineUnsupported
from samebits.problems.any_problem import AnyProblem
from samebits.problems.lowering import Lowering


class LoweredRunner:
    """Takes the convolution's operands, asks the runner for the product, returns the convolution's result."""

    def __init__(self, runner: Runner, lowering: Lowering):
        self.text = runner.text
        self._runner = runner
        self._lowering = lowering

    def identify(self) -> Identity:
        """What the runner says of itself. May raise an EngineFailure."""
        return self._runner.identify()

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The product as the convolution's result. Raises EngineFailure, for another convolution EngineUnsupported."""
        lowering = self._lowering
        if problem != lowering.convolution:
            raise EngineUnsupported(f"{self.text} is asked as a product, of this one shape only")
        result = self._runner.run(lowering.stated, lowering.restore_operands(operands))
        return lowering.lower_result(check_result(lowering.stated, result))

    def run_again(
        self, problem: AnyProblem, operands: Mapping[str, np.ndarray], calls: int, most_s: float, most_results: int
    ) -> RepeatedRuns:
        """As `run`, again and again where the runner can do that by itself."""
        runner, stated = self._runner, self._lowering.stated
        if not isinstance(runner, RepeatingRunner):
            return repeat_call(lambda: self.run(problem, operands), calls, most_s, most_results)
        given = self._lowering.restore_operands(operands)
        runs = runner.run_again(stated, given, calls, most_s, most_results)
        return RepeatedRuns(tuple(self._lowering.lower_result(result) for result in runs.results), runs.counts)

    def close(self) -> None:
        """Does nothing: the caller that opened the runner closes it."""


def lower_runner(runner: Runner, lowering: Lowering) -> Runner:
    """The runner itself where the stated problem is a convolution."""
    return LoweredRunner(runner, lowering) if lowering.is_product else runner
