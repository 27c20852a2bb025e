"""What judging a problem takes, known before anything is computed."""

from __future__ import annotations

import math

from samebits.contraction.memory import count_available_bytes
from samebits.errors import ResourceLimitError
from samebits.problems import Problem, format_problem


def check_memory(problem: Problem, sides: int) -> None:
    """Raises ResourceLimitError if operands, truth, bound and results would not fit in what is free now."""
    operands = sum(math.prod(s) for s in problem.operand_shapes.values()) * 8 * 3
    results = math.prod(problem.out_shape) * 8 * (4 + sides)
    needed, available = operands + results, count_available_bytes()
    if needed > 0.8 * available:
        raise ResourceLimitError(
            f"{format_problem(problem)} needs about {needed / 2**30:.1f} GiB to compare, and"
            f" {available / 2**30:.1f} GiB are free; make the batch or the spatial size smaller"
        )
