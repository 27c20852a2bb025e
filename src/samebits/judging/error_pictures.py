"""Where a side's errors are and how large, in few enough numbers to be part of a finding: what pages draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.findings import ErrorPicture
from samebits.judging.measuring import Distances, Floats
from samebits.judging.references import FEW_OUTPUTS, JudgedBy
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention
from samebits.problems.lowering import lower_problem
from samebits.problems.row_functions import RowFunction
from samebits.problems.windows import name_axes

_MOST_ROWS, _MOST_COLUMNS = 24, 48
# Outputs shown one by one: those that use most of their bound, and others at random.
_LARGEST, _OTHERS = 40, 160
_SEED = 11


def picture_errors(reference: JudgedBy, distances: Distances) -> ErrorPicture | None:
    """The largest share of the bound in each part of the result, and some outputs; None where all are true or few."""
    if distances.absolute.size <= FEW_OUTPUTS or not distances.absolute.any():
        return None
    plane, row_axis, column_axis = _lay_out(reference.problem, distances.over_bound)
    return ErrorPicture(
        row_axis=row_axis,
        column_axis=column_axis,
        rows=plane.shape[0],
        columns=plane.shape[1],
        cells=[[_shorten(v) for v in row] for row in _pool(plane).tolist()],
        points=_choose_points(reference, distances),
    )


def _lay_out(problem: AnyProblem, values: Floats) -> tuple[Floats, str, str]:
    """Channels by positions; of a product the rows by the columns of its result."""
    if isinstance(problem, Attention):
        return values.reshape(-1, values.shape[-1]), "item head query", "feature"
    if isinstance(problem, RowFunction):
        return values.reshape(-1, values.shape[-1]), "row", "column"
    if problem.stated:
        product = lower_problem(problem.stated).restore_result(values)
        return product.reshape(-1, product.shape[-1]), "row", "column"
    axes = name_axes(problem)
    rows = 0 if problem.direction == "grad_weight" else 1
    others = " ".join(name for i, name in enumerate(axes) if i != rows)
    return np.moveaxis(values, rows, 0).reshape(values.shape[rows], -1), axes[rows], others


def _pool(plane: Floats) -> Floats:
    for axis, most in ((0, _MOST_ROWS), (1, _MOST_COLUMNS)):
        count = min(plane.shape[axis], most)
        edges = np.arange(count) * plane.shape[axis] // count
        plane = np.maximum.reduceat(plane, edges, axis=axis)
    return plane


def _choose_points(reference: JudgedBy, distances: Distances) -> list[list[float | None]]:
    shares = distances.over_bound.ravel()
    most = min(_LARGEST, shares.size)
    largest = np.argpartition(shares, shares.size - most)[shares.size - most :]
    count = min(_OTHERS, shares.size)
    chosen = np.union1d(largest, np.random.default_rng(_SEED).choice(shares.size, count, replace=False))
    likely = reference.likely if reference.likely is not None else np.full(shares.shape, np.nan)
    columns: list[npt.NDArray[np.float64]] = [
        reference.magnitudes.ravel()[chosen], distances.absolute.ravel()[chosen], reference.bound.ravel()[chosen],
        likely.ravel()[chosen],
    ]  # fmt: skip
    return [[_shorten(v) for v in row] for row in np.stack(columns, axis=1).tolist()]


def _shorten(value: float) -> float | None:
    """The value to three digits, which is more than a picture shows; None if it is not finite."""
    return float(f"{value:.3g}") if np.isfinite(value) else None
