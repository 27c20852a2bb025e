"""Which other attention a result is: every hypothesis is computed for some queries, the closest for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.formula_reference import FormulaReference
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.attention.bent_softmax import BLOCKS, list_bent_softmaxes
from samebits.mechanisms.attention.fitted_attention import (
    Evidenced,
    find_counts,
    find_dropout,
    find_numbers,
    find_row_sums,
)
from samebits.mechanisms.attention.hidden_keys import list_hidden_keys
from samebits.mechanisms.attention.narrow_weights import list_narrow_weights
from samebits.mechanisms.attention.other_keys import list_lost_features, list_other_heads, list_other_keys
from samebits.mechanisms.attention.plain_attention import Altered, Floats, Operands
from samebits.numbers.format import find_format
from samebits.problems.attention import Attention
from samebits.sums.bounds.attention import bound_attention

# Scores of so many queries are computed for each hypothesis, all heads together; of hypotheses that need all, all.
_SAMPLED_SCORES, _MOST_SCORES = 2**19, 2**24
_FEWEST_QUERIES = 4
# The distance of NaN from a number, in shares of what rounding is likely to leave.
_FAR = 1e9
# Less of the distance is as good as nothing: it is what rounding leaves of the largest distances.
_LEAST_LEFT = 1e-5


@dataclass(frozen=True)
class _Fit:
    """One hypothesis, and how much of the distance from the truth it leaves; `in_parts`: where outputs are wrong."""

    altered: Altered
    left: float
    in_parts: bool = False

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """What explains all outputs comes first, then what leaves less; of such as leave alike, the first listed.

        Steps of `thresholds.ALIKE`; what leaves no more than rounding is likely to leave is alike.
        """
        step = math.floor(math.log(max(self.left, _LEAST_LEFT) / _LEAST_LEFT, thresholds.ALIKE))
        return self.in_parts, step, self.altered.is_fitted


def find_attention_mechanism(reference: FormulaReference, operands: Operands, result: np.ndarray) -> Mechanism | None:
    """What explains a result that deviates, or None; NaN and infinities count as far away."""
    without_numbers = _find_nan(reference, operands, result)
    if without_numbers is not None:
        return without_numbers
    search = _Search(reference, operands, result.astype(np.float64))
    fits = sorted(search.rank(), key=lambda fit: fit.rank)
    close = [fit for fit in fits if fit.left <= search.find_limit(fit)]
    for fit in close[: int(thresholds.MOST_CHECKED)]:
        level = search.check(fit)
        if level is None:
            continue
        near = [
            other.altered.says
            for other in close
            if other.in_parts == fit.in_parts
            and other.left <= thresholds.ALIKE * fit.left + thresholds.TIE
            and other.altered.says != fit.altered.says
        ]
        altered = fit.altered
        said = f"computed so in float64, {level}"
        return Mechanism(
            altered.cause, altered.verdict, altered.says, "bound" if altered.verdict == "wrong" else "nearness",
            alternatives=tuple(near), evidence=(Evidence("structure", said),), tried=len(fits),
        )  # fmt: skip
    return _find_float32(reference, operands, result) if search.wrong.any() else None


def _find_nan(reference: FormulaReference, operands: Operands, result: np.ndarray) -> Mechanism | None:
    """NaN just where a query's first block of keys is hidden whole, as of an online softmax: exp(-inf - -inf)."""
    asked = reference.problem
    assert isinstance(asked, Attention)
    lost = np.isnan(result.astype(np.float64)).all(axis=-1) & ~reference.empty
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    if not lost.any():
        return None
    if _overflows(asked, operands, lost, seen):
        says = "keeps products of q and k in float16, beyond whose largest number they are"
        said = Evidence("structure", "NaN stands just where a product is larger than 65,504")
        return Mechanism(CauseCode.OVERFLOW, "wrong", says, "bound", evidence=(said,), tried=len(BLOCKS))
    blocks = [b for b in BLOCKS if np.array_equal(lost, ~seen[..., :b].any(axis=-1) & ~reference.empty)]
    if not blocks:
        return None
    first = f"{blocks[0]}" if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]}"
    says = f"returns NaN for queries whose first {first} keys are all hidden"
    said = Evidence("structure", "NaN stands just where that is so")
    return Mechanism(CauseCode.HIDDEN_KEYS, "wrong", says, "bound", evidence=(said,), tried=len(BLOCKS))


def _overflows(asked: Attention, operands: Operands, lost: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_]) -> bool:
    """Whether NaN stands just where a product that a query sees is beyond float16."""
    q, k = (operands[name].astype(np.float64) for name in ("q", "k"))
    with np.errstate(all="ignore"):
        products = q @ np.repeat(k, asked.group, axis=1).swapaxes(-1, -2)
    # What is half a step beyond the largest number rounds to infinity.
    format_ = find_format("float16")
    infinite = float(format_.largest) * (1 + float(format_.unit_roundoff) / 2)
    beyond = np.where(seen, products, -np.inf).max(axis=-1) >= infinite
    return np.array_equal(lost, beyond)


def _find_float32(reference: FormulaReference, operands: Operands, result: np.ndarray) -> Mechanism | None:
    """Whether what was declared in float64 is as far from the truth as float32 takes it."""
    asked = reference.problem
    if not isinstance(asked, Attention) or asked.dtype != "float64":
        return None
    bounds = bound_attention(replace(asked, dtype="float32"), operands, reference.truth)
    far = np.abs(result.astype(np.float64) - reference.truth.astype(np.float64))
    if not (far <= bounds.worst)[~reference.empty].all():
        return None
    said = Evidence("structure", "every output is within the rounding bound of float32")
    return Mechanism(
        CauseCode.NARROW_INTERMEDIATE, "downgrade", "computes in float32", "nearness", evidence=(said,), tried=1
    )


class _Search:
    """A result beside what each hypothesis predicts."""

    def __init__(self, reference: FormulaReference, operands: Operands, result: Floats):
        assert isinstance(reference.problem, Attention)
        self.reference, self.asked = reference, reference.problem
        self.operands, self.result = operands, result
        self.truth = reference.truth.astype(np.float64)
        # Where a fault is of some heads or queries only, the others are right, and need no explanation.
        with np.errstate(all="ignore"):
            self.wrong = ~(np.abs(self.result - self.truth) <= reference.bound).all(axis=-1) & ~reference.empty
            # Fewer digits show where outputs err more than is likely.
            likely = reference.likely if reference.likely is not None else reference.bound
            self.odd = ~(np.abs(self.result - self.truth) <= likely).all(axis=-1) & ~reference.empty
        shown = next((rows for rows in (self.wrong, self.odd) if rows.any()), ~reference.empty)
        per_query = math.prod(self.asked.q[:2]) * self.asked.k[2]
        count = max(_SAMPLED_SCORES // per_query, _FEWEST_QUERIES)
        self.needs_all_fits = math.prod(self.asked.score_shape) <= _MOST_SCORES
        assert reference.likely is not None
        # What rounding is likely to leave, per output.
        self.unit = np.where(np.isfinite(reference.likely), reference.likely, np.inf)
        self.queries = self._choose_queries(np.asarray(shown.any(axis=(0, 1))), count)

    def _choose_queries(self, usable: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.intp]:
        """Those that are farthest from the truth, and others evenly spread."""
        with np.errstate(all="ignore"):
            far = np.nan_to_num(np.abs(self.result - self.truth) / self.unit, nan=0.0).max(axis=(0, 1, 3))
        order = np.argsort(-np.where(usable, far, -1.0), kind="stable")
        spread = np.flatnonzero(usable)
        even = spread[np.linspace(0, len(spread) - 1, max(count // 2, 1)).astype(int)] if len(spread) else spread
        return np.unique(np.concatenate([order[: max(count // 2, 1)], even]))

    def find_limit(self, fit: _Fit) -> float:
        """How much a hypothesis may leave. Within the bound another function is named only if it leaves little.

        A number that was found from such a result would be found from rounding.
        """
        if fit.altered.verdict != "wrong" or self.wrong.any():
            return thresholds.EXPLAINS
        return 0.0 if fit.altered.is_fitted else thresholds.EXPLAINS_WITHIN

    def _list(self) -> Iterator[Altered]:
        asked, operands = self.asked, self.operands
        yield from list_hidden_keys(asked, operands)
        yield from list_bent_softmaxes(asked, operands)
        yield from list_other_keys(asked, operands)
        yield from list_other_heads(asked, operands)
        yield from list_lost_features(asked, operands)
        yield from list_narrow_weights(asked, operands)
        yield from find_numbers(asked, operands, lambda altered: self.fit(altered, self.queries).left)
        off = self.wrong if self.wrong.any() else self.odd
        given = Evidenced(asked, operands, self.result, self.truth, self.unit, off)
        yield from find_row_sums(replace(given, off=self.odd))
        yield from find_counts(given)
        yield from find_dropout(given)

    def rank(self) -> Iterator[_Fit]:
        """Every hypothesis with what it leaves of the distance."""
        for altered in self._list():
            if not altered.needs_all or self.needs_all_fits:
                yield self.fit(altered, None if altered.needs_all else self.queries)

    def fit(self, altered: Altered, queries: npt.NDArray[np.intp] | None) -> _Fit:
        """How much of the distance from the truth a hypothesis leaves, at some queries or all."""
        chosen = slice(None) if queries is None else queries
        predicted = altered.compute(queries)[0]

        def find_left(rows: npt.NDArray[np.bool_] | None) -> float:
            start = self._measure(self.truth[:, :, chosen], queries, rows)
            return self._measure(predicted, queries, rows) / start if start > 0 else math.inf

        left, part = find_left(None), self.wrong if altered.verdict == "wrong" else self.odd
        if left <= thresholds.EXPLAINS or not part.any() or part.all():
            return _Fit(altered, left)
        return _Fit(altered, find_left(part), in_parts=True)

    def _measure(
        self, predicted: Floats, queries: npt.NDArray[np.intp] | None, rows: npt.NDArray[np.bool_] | None
    ) -> float:
        """The root mean square of the distance, each output's as a share of what rounding is likely to leave there."""
        chosen = slice(None) if queries is None else queries
        result, unit = self.result[:, :, chosen], self.unit[:, :, chosen]
        with np.errstate(all="ignore"):
            shares = np.abs(result - predicted) / unit
        # NaN on both sides tells nothing of how it came about, on one side alone it is far away.
        passed = (np.isnan(result) & np.isnan(predicted)) | ~np.isfinite(unit)
        if rows is not None:
            passed |= ~rows[:, :, chosen, None]
        if passed.all():
            return _FAR
        shares = np.minimum(np.nan_to_num(shares[~passed], nan=_FAR, posinf=_FAR), _FAR)
        return float(np.sqrt(np.mean(shares**2)))

    def check(self, fit: _Fit) -> str | None:
        """Whether a hypothesis stands for all outputs, in words; None where it does not."""
        altered = fit.altered
        if math.prod(self.asked.score_shape) > _MOST_SCORES:
            return None
        if altered.verdict != "wrong":
            left = self.fit(altered, None).left
            within = bool((np.abs(self.result - self.truth) <= self.reference.bound)[~self.reference.empty].all())
            limit = thresholds.EXPLAINS_WITHIN if within else thresholds.EXPLAINS
            return f"that leaves {left:.2g} of the distance from the truth" if left <= limit else None
        predicted, magnitudes = altered.compute()
        bound = self._bound(altered, predicted, magnitudes)
        with np.errstate(all="ignore"):
            inside = (np.abs(self.result - predicted) <= bound) | (np.isnan(self.result) & np.isnan(predicted))
        if (inside | self.reference.empty[..., None]).all():
            return "every output is within the rounding bound of that"
        is_right = ~self.wrong & ~self.reference.empty
        if not inside[self.wrong].all() or not is_right.any():
            return None
        return "every output that is wrong is within the rounding bound of that, and the others are right"

    def _bound(self, altered: Altered, predicted: Floats, magnitudes: Floats) -> Floats:
        """How far rounding may take a result of the hypothesis from what was predicted."""
        if altered.bend is None:
            bounds = bound_attention(altered.asked, altered.operands, predicted)
            return np.where(np.isfinite(bounds.worst), bounds.worst, 0.0)
        # The same scores, exponentials and sums, so the same share of the magnitudes.
        with np.errstate(all="ignore"):
            share = (self.reference.bound / self.reference.magnitudes).max(axis=-1, keepdims=True)
        return np.where(np.isfinite(share), share, 0.0) * magnitudes + self.reference.bound.min(initial=0.0)
