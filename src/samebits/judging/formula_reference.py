"""The reference that results of an attention or a row function are compared with, and what was measured of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.findings import ExactData
from samebits.judging.measuring import Floats, describe_exact, measure_distances, measure_likely
from samebits.judging.verdict_rules import Measured
from samebits.numbers.ulps import has_same_bits
from samebits.problems.any_problem import Formula
from samebits.problems.attention import Attention
from samebits.problems.row_functions import mark_empty
from samebits.progress import Progress, ignore_progress
from samebits.sums.bounds.attention import bound_attention
from samebits.sums.bounds.row_functions import bound_row_function
from samebits.sums.truth.attention import compute_attention
from samebits.sums.truth.row_functions import compute_row_function


@dataclass(frozen=True)
class FormulaReference:
    """The truth of a formula on some operands and its bounds; `empty` marks outputs that are 0 / 0.

    `farthest` is what no arithmetic reaches that keeps values in bfloat16 or adds in float16; `may_overflow` marks
    rows in which a value on the way may be beyond the accumulator's largest number. Both marks have the result's
    shape, those of an attention without its last axis.
    """

    problem: Formula
    truth: np.ndarray
    bound: Floats
    magnitudes: Floats
    settled: dict[str, int]
    likely: Floats | None
    farthest: Floats
    empty: npt.NDArray[np.bool_]
    may_overflow: npt.NDArray[np.bool_]

    def without_empty(self, result: np.ndarray) -> np.ndarray:
        """A result with the truth's numbers where rows are 0 / 0: nobody says what stands there."""
        return np.where(self.spread(self.empty), self.truth, result) if self.empty.any() else result

    def spread(self, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Marks of rows as marks of outputs."""
        return marks if marks.ndim == self.truth.ndim else marks[..., None]


def make_formula_reference(
    asked: Formula,
    operands: Mapping[str, np.ndarray],
    progress: Progress = ignore_progress,
    *,
    rounds: bool = True,
) -> FormulaReference:
    """The reference for results on these operands. `rounds`: whether their exact results need rounding."""
    if isinstance(asked, Attention):
        truth = compute_attention(asked, operands, progress=progress)
        empty, bounds = truth.empty, bound_attention(asked, operands, truth.values, rounds_result=rounds)
    else:
        truth = compute_row_function(asked, operands, progress=progress)
        empty, bounds = (
            mark_empty(asked, operands),
            bound_row_function(asked, operands, truth.values, rounds_result=rounds),
        )
    likely = bounds.likely if rounds else None
    return FormulaReference(
        asked, truth.values, bounds.worst, bounds.magnitudes, truth.settled, likely, bounds.farthest, empty,
        bounds.may_overflow,
    )  # fmt: skip


def measure_formula(
    reference: FormulaReference,
    result: np.ndarray | None,
    exact: ExactData | None = None,
    *,
    exact_beyond: bool = False,
) -> Measured:
    """The distances of a result, with what its runner did on exact integers.

    Another function is proved where an output is farther than any arithmetic takes it, and by NaN or an infinity where
    no value on the way can overflow.
    """
    if result is None or reference.empty.all():
        # Where no query sees a key there is nothing to judge.
        return Measured(exact, exact_beyond)
    own = reference.without_empty(result)
    distances = measure_distances(reference.problem, own, reference.truth, reference.bound, reference.magnitudes)
    excused = ~np.isfinite(own.astype(np.float64)) & reference.spread(reference.may_overflow)
    distances.over_bound[excused] = 1.0
    odd = ~np.isfinite(own.astype(np.float64)) & ~excused & np.isfinite(reference.farthest)
    another = distances.mark_beyond(reference.farthest) | odd
    differs = not has_same_bits(own, reference.truth)
    return Measured(exact, exact_beyond, distances, differs, another, True, measure_likely(distances, reference.likely))


def judge_exact_formula(exact: FormulaReference, result: np.ndarray) -> tuple[ExactData, bool]:
    """What happened on exact integers: outputs that are off by more than rounding a quotient could make them."""
    own = exact.without_empty(result)
    distances = measure_distances(exact.problem, own, exact.truth, exact.bound, exact.magnitudes)
    differing = distances.over_bound > 1.0
    return describe_exact(exact.problem, differing, own, exact.truth), bool(differing.any())
