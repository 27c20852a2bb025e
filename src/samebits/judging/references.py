"""The reference that every result of a problem is compared with, and the document of the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from samebits.findings import Comparison, Difference, Side
from samebits.judging.measuring import Floats, compare_results
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem, format_any_problem
from samebits.problems.lowering import lower_problem
from samebits.progress import Progress
from samebits.sums.bounds import bound_errors, bound_likely_errors
from samebits.sums.tiles.magnitudes import sum_magnitudes, sum_squares
from samebits.sums.truth import compute_truth
from samebits.version import VERSION

# Results of up to this many outputs are shown value by value.
FEW_OUTPUTS = 16


class JudgedBy(Protocol):
    """What results are compared with, of whatever was computed: the truth, its bounds, the sums of magnitudes."""

    @property
    def problem(self) -> AnyProblem:
        """What was computed."""
        ...

    @property
    def truth(self) -> np.ndarray:
        """The correctly rounded result."""
        ...

    @property
    def bound(self) -> Floats:
        """How far a sound result may be from it."""
        ...

    @property
    def magnitudes(self) -> Floats:
        """The sum of the terms' magnitudes of each output."""
        ...

    @property
    def settled(self) -> dict[str, int]:
        """How many outputs of the truth were settled in which way."""
        ...

    @property
    def likely(self) -> Floats | None:
        """The probabilistic bound, if there is one."""
        ...


@dataclass(frozen=True)
class Reference:
    """The truth of a problem on some operands, its error bounds, and the sums of magnitudes.

    `settled` counts how the truth's outputs were settled; `likely` is the probabilistic bound, if there is one.
    """

    problem: Problem
    truth: np.ndarray
    bound: Floats
    magnitudes: Floats
    settled: dict[str, int]
    likely: Floats | None = None


def make_reference(
    problem: Problem, operands: Mapping[str, np.ndarray], progress: Progress, *, rounds: bool = True
) -> Reference:
    """The reference for results on these operands. `rounds`: whether their exact results need rounding."""
    truth = compute_truth(problem, operands, progress=progress)
    magnitudes = sum_magnitudes(problem, operands, progress=progress)
    bound = bound_errors(problem, operands, truth.values, magnitudes=magnitudes, rounds_result=rounds)
    likely = None
    if rounds:
        squares = sum_squares(problem, operands, progress=progress)
        likely = bound_likely_errors(problem, operands, truth.values, squares=squares, magnitudes=magnitudes)
    return Reference(problem, truth.values, bound, magnitudes, truth.settled, likely)


def list_differences(problem: AnyProblem, results: Sequence[tuple[str, np.ndarray | None]]) -> list[Difference]:
    """How every two results differ from each other; a side without a result differs from none."""
    known = [(name, result) for name, result in results if result is not None]
    return [compare_results(problem, a, b) for a, b in combinations(known, 2)]


def start_document(reference: JudgedBy, sides: list[Side], differences: list[Difference], data: str) -> Comparison:
    """The document of a problem with its sides, open until a verdict, its cause and a summary are given."""
    problem = reference.problem
    return Comparison(
        problem=format_any_problem((problem.stated or problem) if isinstance(problem, Problem) else problem),
        verdict="undecided",
        summary="",
        data=data,
        outputs=reference.truth.size,
        reduction_length=problem.reduction_length,
        truth=list_few_values(problem, reference.truth),
        settled=reference.settled,
        sides=sides,
        differences=differences,
        samebits_version=VERSION,
    )


def list_few_values(problem: AnyProblem, values: np.ndarray | None) -> list[float | None] | None:
    """All values of a small result as they stand in what was stated, for showing one by one; None of a large one."""
    if values is None or values.size > FEW_OUTPUTS:
        return None
    if isinstance(problem, Problem) and problem.stated:
        values = lower_problem(problem.stated).restore_result(values)
    return [float(v) for v in values.ravel()]
