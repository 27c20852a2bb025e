"""Which other row function a result is: every hypothesis is computed, the closest ones are checked output by output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.formula_reference import FormulaReference
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.row_functions.fitted_rows import list_fitted_rows
from samebits.mechanisms.row_functions.narrow_rows import list_narrow_rows
from samebits.mechanisms.row_functions.other_formulas import list_other_formulas
from samebits.mechanisms.row_functions.plain_rows import AlteredRows, Floats, Operands, PlainNorm
from samebits.numbers.format import FLOAT32, Format, find_format
from samebits.problems.row_functions import NORMS, RowFunction
from samebits.sums.bounds.row_functions import bound_row_function

# The distance of NaN from a number, in shares of what rounding is likely to leave.
_FAR = 1e9
_LEAST_LEFT = 1e-5
# Of larger results no hypothesis is computed.
_MOST_NUMBERS = 2**22


@dataclass(frozen=True)
class _Fit:
    """One hypothesis, and how much of the distance from the truth it leaves, of all outputs or of those at fault."""

    altered: AlteredRows
    left: float
    in_parts: bool

    @property
    def rank(self) -> tuple[int, bool]:
        """What leaves less comes first, in steps of `thresholds.ALIKE`; of such as leave alike, what is not fitted."""
        step = math.floor(math.log(max(self.left, _LEAST_LEFT) / _LEAST_LEFT, thresholds.ALIKE))
        return step, self.altered.is_fitted


def find_row_mechanism(reference: FormulaReference, operands: Operands, result: np.ndarray) -> Mechanism | None:
    """What explains a result that deviates, or None; NaN and infinities count as far away."""
    asked = reference.problem
    assert isinstance(asked, RowFunction)
    if math.prod(asked.x) > _MOST_NUMBERS:
        return None
    with np.errstate(all="ignore"):
        search = _Search(reference, asked, operands, result.astype(np.float64))
        return (
            _find_overflow(search)
            or search.find(in_parts=False)
            or _find_cancellation(search)
            or search.find(in_parts=True)
        )


class _Search:
    """A result beside what each hypothesis predicts."""

    def __init__(self, reference: FormulaReference, asked: RowFunction, operands: Operands, result: Floats):
        self.reference, self.asked, self.operands, self.result = reference, asked, operands, result
        self.truth = reference.truth.astype(np.float64)
        assert reference.likely is not None
        self.unit = np.where(np.isfinite(reference.likely), reference.likely, np.inf)
        self.wrong = ~(np.abs(result - self.truth) <= reference.bound)
        self.odd = ~(np.abs(result - self.truth) <= reference.likely)

    @cached_property
    def _tried(self) -> list[_Fit]:
        return list(self._rank())

    def find(self, *, in_parts: bool) -> Mechanism | None:
        """The best hypothesis that stands for every output; or for all that are at fault, where others are right."""
        tried = self._tried
        close = (fit for fit in tried if fit.in_parts == in_parts and fit.left <= self._find_limit(fit))
        fits = sorted(close, key=lambda fit: fit.rank)
        for fit in fits[: int(thresholds.MOST_CHECKED)]:
            said = self._check(fit)
            if said is None:
                continue
            altered = fit.altered
            where = describe_places(self.asked, self.wrong) if fit.in_parts else None
            near = [
                other.altered.says
                for other in fits
                if other.left <= thresholds.ALIKE * fit.left + thresholds.TIE and other.altered.says != altered.says
            ]
            return Mechanism(
                altered.cause, altered.verdict, f"{altered.says}, {where}" if where else altered.says,
                "bound" if altered.verdict == "wrong" else "nearness",
                alternatives=tuple(near), evidence=(Evidence("structure", f"computed so in float64, {said}"),),
                tried=len(tried),
            )  # fmt: skip
        return None

    def _rank(self) -> Iterator[_Fit]:
        asked, operands = self.asked, self.operands
        for altered in (
            *list_other_formulas(asked, operands),
            *list_narrow_rows(asked, operands),
            *list_fitted_rows(asked, operands, self.result, self.truth, self.wrong),
        ):
            yield self._fit(altered)

    def _find_limit(self, fit: _Fit) -> float:
        """How much a hypothesis may leave. Within the bound another function is named only if it leaves little.

        So it is where a number was fitted, or where outputs were chosen for being at fault: these have to be clearly
        so, as what is a little beyond a bound lies near many things.
        """
        if fit.altered.verdict == "wrong" and fit.in_parts:
            return thresholds.EXPLAINS_WITHIN if self._are_clearly_wrong() else 0.0
        if fit.altered.verdict == "wrong" and fit.altered.is_fitted and self.wrong.any():
            return thresholds.EXPLAINS_WITHIN
        if fit.altered.verdict != "wrong" or self.wrong.any():
            return thresholds.EXPLAINS
        # A number that was found from such a result would be found from rounding.
        return 0.0 if fit.altered.is_fitted else thresholds.EXPLAINS_WITHIN

    def _fit(self, altered: AlteredRows) -> _Fit:
        every = np.ones(self.asked.x, bool)
        left = self._find_left(altered, every)
        part = self.wrong if altered.verdict == "wrong" else self.odd
        if left <= thresholds.EXPLAINS or not part.any() or part.all():
            return _Fit(altered, left, in_parts=False)
        return _Fit(altered, self._find_left(altered, part), in_parts=True)

    def _are_clearly_wrong(self) -> bool:
        """Whether most of the outputs beyond their bounds are so by several times."""
        with np.errstate(all="ignore"):
            times = np.abs(self.result - self.truth)[self.wrong] / self.reference.bound[self.wrong]
        return len(times) > 0 and bool(np.median(np.nan_to_num(times, nan=np.inf)) >= thresholds.CLEARLY_WRONG)

    def _find_left(self, altered: AlteredRows, counted: np.ndarray) -> float:
        nan = np.isnan(altered.values)
        if altered.predicts_nan and not np.array_equal(nan, np.isnan(self.result)):
            return math.inf
        if nan.mean() > thresholds.EXPLAINS:
            return math.inf
        start = self._measure(self.truth, counted & ~nan)
        return self._measure(altered.values, counted) / start if start > 0 else math.inf

    def _measure(self, predicted: Floats, counted: np.ndarray) -> float:
        """The root mean square of the distance, each output's as a share of what rounding is likely to leave there."""
        shares = np.abs(self.result - predicted) / self.unit
        passed = np.isnan(predicted) | ~np.isfinite(self.unit) | ~counted
        if passed.all():
            return _FAR
        shares = np.minimum(np.nan_to_num(shares[~passed], nan=_FAR, posinf=_FAR), _FAR)
        return float(np.sqrt(np.mean(shares**2)))

    def _check(self, fit: _Fit) -> str | None:
        """Whether a hypothesis stands for all outputs, in words; None where it does not."""
        altered = fit.altered
        if altered.verdict != "wrong":
            left = self._find_left(altered, np.ones(self.asked.x, bool))
            limit = thresholds.EXPLAINS if self.wrong.any() else thresholds.EXPLAINS_WITHIN
            return f"that leaves {left:.2g} of the distance from the truth" if left <= limit else None
        inside = np.abs(self.result - altered.values) <= self._bound(altered)
        inside |= np.isnan(altered.values)
        if inside.all():
            return "every output is within the rounding bound of that"
        if not inside[self.wrong].all() or self.wrong.all() or not self.wrong.any():
            return None
        return "every output that is wrong is within the rounding bound of that, and the others are right"

    def _bound(self, altered: AlteredRows) -> Floats:
        """How far rounding may take a result of the hypothesis: its own, or the same steps, of other sizes in a row."""
        predicted = altered.values
        if altered.computed is not None:
            bound = bound_row_function(*altered.computed, predicted).worst
            return np.where(np.isfinite(bound), bound, 0.0)
        own, bound = (self.asked.to_rows(a) for a in (np.nan_to_num(np.abs(predicted)), self.reference.bound))
        truth = self.asked.to_rows(np.abs(self.truth))
        grown = own.max(axis=1, keepdims=True) / np.maximum(truth.max(axis=1, keepdims=True), 2.0**-1000)
        unit = float(find_format(self.asked.dtype).unit_roundoff)
        return self.asked.from_rows(np.where(np.isfinite(bound), bound, 0.0) * grown + 2 * unit * own)


def _find_overflow(search: _Search) -> Mechanism | None:
    """Rows without numbers, or of zeros, just where exp of a number itself, or a square in a format, overflows."""
    asked = search.asked
    result, truth = asked.to_rows(search.result), asked.to_rows(search.truth)
    rows = asked.to_rows(search.operands["x"]).astype(np.float64)
    bias = PlainNorm(asked, search.operands).bias if asked.kind in NORMS else np.zeros(1)
    # Divided by infinity nothing is left but the bias.
    is_gone = (result == bias) & (truth != bias).any(axis=1, keepdims=True)
    lost = (~np.isfinite(result) | is_gone).all(axis=1)
    if not lost.any():
        return None
    declared = find_format(asked.dtype)
    for format_ in dict.fromkeys((FLOAT32 if declared.precision < FLOAT32.precision else declared, declared)):
        largest = float(format_.largest)
        if asked.kind == "softmax":
            over, what = np.exp(rows) > largest, "does not take the largest number off before exp"
        elif asked.kind in NORMS:
            over = (rows**2).sum(axis=1, keepdims=True) > largest
            what = f"keeps sums of squares in {format_.name}, beyond whose largest number they are"
        else:
            continue
        if np.array_equal(over.any(axis=1), lost):
            said = Evidence("structure", f"numbers are lost just in the rows in which that overflows {format_.name}")
            return Mechanism(CauseCode.OVERFLOW, "wrong", what, "bound", evidence=(said,), tried=2)
    return None


def _find_cancellation(search: _Search) -> Mechanism | None:
    """Rows that are off by one factor each, no larger than a mean of squares less a squared mean makes it."""
    asked = search.asked
    if asked.kind not in NORMS or asked.kind == "rmsnorm":
        return None
    norm = PlainNorm(asked, search.operands)
    bias = norm.bias
    own, true, likely = (asked.to_rows(a) for a in (search.result, search.truth, search.unit))
    scaled = norm.scattered / norm.root * norm.weight
    # A row that is the same throughout has no factor.
    known = np.isfinite(own).all(axis=1) & np.isfinite(likely).all(axis=1) & scaled.any(axis=1)
    factors = ((own - bias) * scaled).sum(axis=1, keepdims=True) / (scaled**2).sum(axis=1, keepdims=True)
    left = np.abs(own - bias - factors * scaled)[known] / likely[known]
    declared, count = find_format(asked.dtype), norm.rows.shape[1]
    wide = declared if declared.precision > FLOAT32.precision else FLOAT32
    excess = np.abs(own - true)[known] / likely[known]
    if not len(left) or left.max() > max(1.0, thresholds.EXPLAINS * excess.max()):
        return None
    # A difference below zero has no root: such rows tell it, too, where no other is off.
    if excess.max() <= 1 and not np.isnan(own[~known]).any():
        return None
    for format_ in dict.fromkeys((wide, declared)):
        unit = float(format_.unit_roundoff)
        # A share of the variance by which the difference of two sums of squares may be off.
        lost = (count + 2) * unit * norm.mean**2 / np.maximum(norm.variance, 2.0**-1000)
        fits = (np.abs(factors - 1) <= 2 * lost + 8 * unit)[known].all()
        if fits and (lost > thresholds.EXPLAINS)[~known].all():
            return _name_cancellation(format_)
    return None


def _name_cancellation(format_: Format) -> Mechanism:
    says = "takes the variance as the mean of squares less the squared mean, which cancel"
    said = Evidence(
        "structure", f"each row is off by a factor of its own, no larger than that makes it in {format_.name}"
    )
    return Mechanism(CauseCode.CANCELLATION, "downgrade", says, "nearness", evidence=(said,), tried=1)
