"""Hypotheses with a number that is found from the result itself: eps, a factor before exp, a factor of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.mechanisms.row_functions.plain_rows import AlteredRows, Floats, Operands, PlainNorm, alter
from samebits.problems.row_functions import NORMS, RowFunction

# So many digits of a number are said and used: people choose round ones.
_DIGITS = 4
_LEAST_EPS, _LARGEST_EPS = 1e-14, 1e3
# Two numbers are found of each column; as many rows more say whether they hold.
_FEWEST_ROWS = 6


def list_fitted_rows(
    asked: RowFunction, operands: Operands, result: Floats, truth: Floats, wrong: npt.NDArray[np.bool_]
) -> Iterator[AlteredRows]:
    """A number that most outputs agree on: each kind's own, one factor of all or of those that are wrong."""
    for counted, what in ((np.ones(truth.shape, bool), "everything"), (wrong, "what is wrong")):
        factor = _find_common((result / truth)[counted])
        if factor is not None and abs(factor - 1) > 10.0**-_DIGITS:
            says = f"multiplies {what} by {factor:g}" if factor else "returns zeros"
            yield AlteredRows(says, CauseCode.FUSION, truth * factor, is_fitted=True)
    if asked.kind in NORMS:
        yield from _list_epsilons(PlainNorm(asked, operands), operands, result)
        yield from _list_other_weights(PlainNorm(asked, operands), result)
    if asked.kind == "softmax":
        yield from _list_factors_of_scores(asked, operands, result)


def _list_epsilons(norm: PlainNorm, operands: Operands, result: Floats) -> Iterator[AlteredRows]:
    """From each row's divisor: sqrt(variance + eps) or sqrt(variance) + eps."""
    asked = norm.asked
    scaled = norm.scattered * norm.weight
    own = asked.to_rows(result) - norm.bias
    root = (scaled**2).sum(axis=1, keepdims=True) / (own * scaled).sum(axis=1, keepdims=True)
    inside, outside = _find_common(root**2 - norm.variance), _find_common(root - np.sqrt(norm.variance))
    if inside is not None and _LEAST_EPS < inside < _LARGEST_EPS:
        says = f"has eps {inside:g} in place of {asked.eps:g}"
        yield alter(says, CauseCode.DROPPED_ATTRIBUTE, replace(asked, eps=inside), operands, is_fitted=True)
    if outside is not None and _LEAST_EPS < outside < _LARGEST_EPS:
        says = f"adds eps {outside:g} outside of the root"
        yield AlteredRows(says, CauseCode.FUSION, norm.divide(np.sqrt(norm.variance) + outside), is_fitted=True)


def _list_other_weights(norm: PlainNorm, result: Floats) -> Iterator[AlteredRows]:
    """A weight and a bias of each column that all rows agree on, where there are rows enough to tell."""
    asked = norm.asked
    own, normalized = asked.to_rows(result), norm.scattered / norm.root
    if len(own) < _FEWEST_ROWS:
        return
    centred = normalized - normalized.mean(axis=0)
    weight = (centred * own).sum(axis=0) / (centred**2).sum(axis=0)
    bias = own.mean(axis=0) - weight * normalized.mean(axis=0)
    if not asked.has_bias:
        weight, bias = (normalized * own).sum(axis=0) / (normalized**2).sum(axis=0), np.zeros(1)
    what = "another weight and bias" if asked.has_bias else "another weight"
    if norm.weight.size > 1:
        if asked.has_bias and _are_close(weight, norm.bias) and _are_close(bias, norm.weight):
            what = "the bias, and adds the weight"
        elif _are_close(weight, norm.weight[::-1]):
            what = "the weight backwards"
        else:
            steps = [step for step in (1, -1) if _are_close(weight, np.roll(norm.weight, step))]
            what = f"the weight of the column {'before' if steps[0] == 1 else 'after'}" if steps else what
    values = asked.from_rows(normalized * weight + bias)
    yield AlteredRows(f"multiplies by {what}", CauseCode.OTHER_OPERANDS, values, is_fitted=True)


def _are_close(a: Floats, b: Floats) -> bool:
    return bool(a.shape == b.shape and np.abs(a - b).max() <= 10.0**-_DIGITS * np.abs(b).max())


def _list_factors_of_scores(asked: RowFunction, operands: Operands, result: Floats) -> Iterator[AlteredRows]:
    """log y is the score, times a factor, less a number of the row's own."""
    rows, y = asked.to_rows(operands["x"]).astype(np.float64), asked.to_rows(result)
    usable = y > np.finfo(np.float32).tiny
    logs = np.where(usable, np.log(np.where(usable, y, 1.0)), np.nan)
    first, second = (
        (np.nanargmax(logs, axis=1), np.nanargmin(logs, axis=1)) if usable.any(axis=1).all() else (None, None)
    )
    if first is None or second is None:
        return
    places = np.arange(len(rows))
    factor = _find_common((logs[places, first] - logs[places, second]) / (rows[places, first] - rows[places, second]))
    if factor is not None and abs(factor - 1) > 10.0**-_DIGITS:
        scaled = {"x": operands["x"].astype(np.float64) * factor}
        yield alter(f"multiplies by {factor:g} before exp", CauseCode.SOFTMAX, asked, scaled, is_fitted=True)


def _find_common(numbers: Floats) -> float | None:
    """The median, to a few digits; None where there is none."""
    known = numbers[np.isfinite(numbers)]
    return float(f"{np.median(known):.{_DIGITS - 1}e}") if known.size else None
