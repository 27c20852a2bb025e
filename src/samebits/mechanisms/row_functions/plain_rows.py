"""A row function in plain float64, as others may have computed it; and a hypothesis of such a way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.problems.row_functions import RowFunction
from samebits.sums.truth.row_functions import compute_in_float64

Floats = npt.NDArray[np.float64]
Operands = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class AlteredRows:
    """What another function, or the same one with fewer digits, gives: float64 of x's shape.

    `computed` is the row function and its operands that give it, where it is one; `is_fitted` tells that a number was
    found from the result. NaN in `values` is predicted where `predicts_nan`, else it marks what is not known.
    """

    says: str
    cause: CauseCode
    values: Floats
    verdict: Verdict = "wrong"
    computed: tuple[RowFunction, Operands] | None = None
    is_fitted: bool = False
    predicts_nan: bool = False


class PlainNorm:
    """A norm's parts in float64, by rows; what is changed is computed again from what is not."""

    def __init__(self, asked: RowFunction, operands: Operands):
        self.asked, self.operands = asked, operands
        self.rows = asked.to_rows(operands["x"]).astype(np.float64)
        self.weight = operands["weight"].astype(np.float64).ravel() if asked.has_weight else np.ones(1)
        self.bias = operands["bias"].astype(np.float64).ravel() if asked.has_bias else np.zeros(1)

    @cached_property
    def mean(self) -> Floats:
        """Each row's mean; 0 for rmsnorm, which has none."""
        return find_mean(self.rows) if self.asked.kind == "layernorm" else np.zeros((len(self.rows), 1))

    @cached_property
    def scattered(self) -> Floats:
        """What is left of the mean."""
        return self.rows - self.mean

    @cached_property
    def variance(self) -> Floats:
        """Its mean square."""
        return find_mean(self.scattered**2)

    @property
    def root(self) -> Floats:
        """What rows are divided by."""
        return np.sqrt(self.variance + self.asked.eps)

    def finish(self, normalized: Floats) -> Floats:
        """Times weight, plus bias, in x's shape."""
        return self.asked.from_rows(normalized * self.weight + self.bias)

    def divide(self, root: Floats) -> Floats:
        """The whole with another divisor."""
        return self.finish(self.scattered / root)


def find_mean(rows: Floats) -> Floats:
    """Each row's mean, as a column."""
    return rows.mean(axis=1, keepdims=True)


def alter(
    says: str, cause: CauseCode, asked: RowFunction, operands: Operands, *, is_fitted: bool = False
) -> AlteredRows:
    """A hypothesis that is a row function itself."""
    values = compute_altered(asked, operands)
    return AlteredRows(says, cause, values, computed=(asked, operands), is_fitted=is_fitted)


def compute_altered(asked: RowFunction, operands: Operands) -> Floats:
    """Another row function, or the same of other operands, in float64."""
    return compute_in_float64(asked, {name: np.asarray(array, np.float64) for name, array in operands.items()})
