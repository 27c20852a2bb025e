"""A runner of products as a runner of the convolution that has the same sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.engines.runner import Identity, Runner, check_result
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
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

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The product as the convolution's result. Raises EngineFailure, for another convolution EngineUnsupported."""
        lowering = self._lowering
        if problem != lowering.convolution:
            raise EngineUnsupported(f"{self.text} is asked as a product, of this one shape only")
        result = self._runner.run(lowering.stated, lowering.restore_operands(operands))
        return lowering.lower_result(check_result(lowering.stated, result))

    def close(self) -> None:
        """Does nothing: the caller that opened the runner closes it."""


def lower_runner(runner: Runner, lowering: Lowering) -> Runner:
    """The runner itself where the stated problem is a convolution."""
    return LoweredRunner(runner, lowering) if lowering.is_product else runner
