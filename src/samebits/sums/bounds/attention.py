"""How far from the truth the result of an attention may be: worst case, likely, and beyond any arithmetic.

With weights w and values v the result is y = sum w v, and a weight that is off by a share e moves it by e w (v - y).
What may put weights off, with u the unit roundoff of float32 (of float64 for float64 operands):

    scores     (d + 6) u scale sum |q| |k|: a sum of d products in any order, the scale in any place, a cap and a mask
    exp        2 u (20 + 1.2 |t|) at a distance t from the largest score: what torch's fastest exp (20 units) and CUDA's
               __expf (2 + 1.16 |t| units) are documented to be off by, with the rounding of t itself
    rescaling  42 u for each 16 keys: blocks of at least so many keys whose sums are rescaled when the maximum grows
    storage    the unit roundoff of the operands' format: weights may be kept in it before they meet the values

and both sums add (n + 4) u of their magnitudes (Jeannerod and Rump 2013, as in `any_order`). The likely bound takes
these errors as independent (Hoeffding's inequality on their sum), which proves nothing. Beyond `farthest` is what no
arithmetic gives that keeps every value in bfloat16 or better, or adds in float16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import BFLOAT16, FLOAT16, FLOAT32, Format, find_format
from samebits.problems.attention import Attention
from samebits.sums.bounds.formula_bounds import FormulaBounds
from samebits.sums.bounds.probabilistic import ERROR_PROBABILITY

Floats = npt.NDArray[np.float64]
_EXP_UNITS, _EXP_PER_DISTANCE = 40.0, 2.4
_RESCALED_KEYS, _RESCALING_UNITS = 16, 42.0
# At larger distances a weight may be lost whole: exp(-80) is near the least normal number of float32.
_LOST_DISTANCE = {"float64": 700.0}
_USUAL_LOST_DISTANCE = 80.0
# Errors of exp that are usual, and of one sign: two units.
_USUAL_EXP_UNITS = 4.0
# expm1 of more is as good as without bound.
_LARGEST_SHARE = 300.0


@default_float_environment()
def bound_attention(
    asked: Attention, operands: Mapping[str, np.ndarray], truth: np.ndarray, *, rounds_result: bool = True
) -> FormulaBounds:
    """The bounds of an attention's result; outputs whose query sees no key have infinite ones.

    Float64 arrays of the result's shape. `truth` is the correctly rounded result. With `rounds_result=False` roundings
    to the result's format are left out: for data whose exact result needs none.
    """
    found = [np.full(asked.out_shape, np.inf) for _ in range(4)]
    may_overflow = np.zeros(asked.q[:3], bool)
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    added = asked.read_added(operands)
    for item, head in np.ndindex(asked.q[:2]):
        own_added = None if added is None else added[item, head]
        rows = _Rows(asked, operands, seen[item, head], own_added, truth[item, head].astype(np.float64), item, head)
        has_keys = seen[item, head].any(axis=-1)
        for array, own in zip(found, rows.bound(rounds_result=rounds_result), strict=True):
            array[item, head][has_keys] = own[has_keys]
        may_overflow[item, head] = rows.may_overflow
    worst, likely, farthest, magnitudes = found
    return FormulaBounds(worst, likely, farthest, magnitudes, may_overflow)


class _Rows:
    """One head of one item: scores, weights and their errors."""

    def __init__(
        self,
        asked: Attention,
        operands: Mapping[str, np.ndarray],
        seen: npt.NDArray[np.bool_],
        added: Floats | None,
        truth: Floats,
        item: int,
        head: int,
    ):
        self.asked, self.truth = asked, truth
        q, k, self.v = (
            operands[name][item, own].astype(np.float64)
            for name, own in (("q", head), ("k", head // asked.group), ("v", head // asked.group))
        )
        scale = asked.factor
        with np.errstate(all="ignore"):
            scores = (q @ k.T) * scale
            self.reach = (np.abs(q) @ np.abs(k).T) * scale
            self.squares = (q**2 @ (k**2).T) * scale**2
            if asked.softcap is not None:
                scores = asked.softcap * np.tanh(scores / asked.softcap)
            if added is not None:
                scores = scores + added
            scores = np.where(seen, scores, -np.inf)
            self.scores = np.where(seen, scores, 0.0)
            self.distance = np.where(seen, scores.max(axis=-1, keepdims=True) - scores, 0.0)
            self.distance[~np.isfinite(self.distance)] = 0.0
            weights = np.where(seen, np.exp(-self.distance), 0.0)
            self.weights = weights / weights.sum(axis=-1, keepdims=True)
        lost_distance = _LOST_DISTANCE.get(asked.dtype, _USUAL_LOST_DISTANCE)
        self.lost, self.seen = seen & (self.distance > lost_distance), seen
        # A key without any weight (behind a mask of the least number) adds nothing, however far off its score is.
        gone = weights == 0
        self.scores[gone], self.distance[gone] = 0.0, lost_distance
        # Where sums of unnormalised weights, or products that are not scaled yet, leave the accumulator's range.
        largest = float((find_format(asked.dtype) if asked.dtype == "float64" else FLOAT32).largest)
        sizes = np.where(seen, np.abs(self.v).max(axis=-1), 0.0).sum(axis=-1)
        products = np.where(seen, np.maximum(self.reach, self.reach / scale), 0.0).max(axis=-1)
        self.may_overflow = ~(np.maximum(sizes, products) < largest)

    def bound(self, *, rounds_result: bool) -> tuple[Floats, Floats, Floats, Floats]:
        """The four arrays of `FormulaBounds`, of one head."""
        asked, format_ = self.asked, find_format(self.asked.dtype)
        unit = float((format_ if format_.precision > FLOAT32.precision else FLOAT32).unit_roundoff)
        keys, y = asked.k[2], np.abs(self.truth)
        with np.errstate(all="ignore"):
            magnitudes = self.weights @ np.abs(self.v)
            shares = self._share_of_scores(unit, asked.q[3] + 6)
            shares += unit * (_EXP_UNITS + (_EXP_PER_DISTANCE + 1) * self.distance)
            shares += unit * _RESCALING_UNITS * math.ceil(keys / _RESCALED_KEYS)
            moved = self._move(np.where(self.lost, 1.0, np.expm1(np.minimum(shares, _LARGEST_SHARE))))
            moved = self._cap(moved, shares)
            summed = moved + (keys + 4) * unit * (magnitudes + y) + self._store(format_, magnitudes, y)
            worst = self._round(summed, format_, rounds_result=rounds_result)
            likely = np.minimum(self._find_likely(unit, format_, magnitudes), summed)
            likely = self._round(likely, format_, rounds_result=rounds_result)
            farthest = self._find_farthest(magnitudes, y)
        return worst, likely, np.maximum(farthest, worst), magnitudes

    def _cap(self, moved: Floats, shares: Floats) -> Floats:
        """No more than from the result to the farthest value that is seen: any weights make a mean of these.

        Looked at where scores are so large, as behind a mask of the least number, that they say little.
        """
        for row in np.flatnonzero(np.where(self.seen & ~self.lost, shares, 0.0).max(axis=-1) > 1):
            values = self.v[self.seen[row]]
            if len(values):
                farthest = np.abs(values - self.truth[row]).max(axis=0)
                moved[row] = np.minimum(np.nan_to_num(moved[row], nan=np.inf), farthest)
        return moved

    def _share_of_scores(self, unit: float, steps: int) -> Floats:
        """By how much of itself a weight may be off for what its score, and the largest, are off by."""
        return unit * (steps * self.reach + 3 * np.abs(self.scores))

    def _move(self, shares: Floats) -> Floats:
        """sum w e |v - y|, no more than sum w e |v| + |y| sum w e."""
        weighted = self.weights * shares
        return weighted @ np.abs(self.v) + weighted.sum(axis=-1, keepdims=True) * np.abs(self.truth)

    def _store(self, format_: Format, magnitudes: Floats, y: Floats) -> Floats:
        """What weights kept in a format lose, and the numbers below its normal ones."""
        if format_.precision >= FLOAT32.precision:
            return np.zeros_like(y)
        least = float(format_.smallest_subnormal)
        return float(format_.unit_roundoff) * (magnitudes + y) + least * (np.abs(self.v).sum(axis=0) + y)

    def _round(self, summed: Floats, format_: Format, *, rounds_result: bool) -> Floats:
        """With the rounding of the result, and that of the truth."""
        y = np.abs(self.truth)
        if not rounds_result:
            return summed
        unit, least = float(format_.unit_roundoff), float(format_.smallest_subnormal)
        return summed + unit * (y + summed) + unit * y + 2 * least

    def _find_likely(self, unit: float, format_: Format, magnitudes: Floats) -> Floats:
        """Hoeffding's bound of a sum of independent errors, uniform in their ranges, plus those of exp of one sign."""
        asked, keys, y = self.asked, self.asked.k[2], self.truth
        factor = math.sqrt(2 * math.log(2 * math.prod(asked.out_shape) / ERROR_PROBABILITY) / 3)
        steps = asked.q[3]
        # A sum of n products in any order: as `probabilistic` has it, of the result and of the scattered part.
        variance = (steps / 3 + 4) * self.scores**2 + (steps / 6 + 2) * self.squares + (self.distance + 4) ** 2
        narrow = float(format_.unit_roundoff) if format_.precision < FLOAT32.precision else 0.0
        variance = unit**2 * (variance + _RESCALING_UNITS * math.log(keys + 1)) + narrow**2
        squared = self.weights**2 * variance
        moved = squared @ self.v**2 - 2 * y * (squared @ self.v) + y**2 * squared.sum(axis=-1, keepdims=True)
        if narrow:
            # The sum of the weights may be that of the unrounded ones.
            moved = np.maximum(moved, 0) + narrow**2 * (self.weights**2 @ self.v**2)
        added = unit**2 * ((2 * keys / 3 + 4) * y**2 + (keys / 6 + 2) * (self.weights**2 @ self.v**2))
        moved, added = (np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in (moved, added))
        usual = unit * (_USUAL_EXP_UNITS + self.distance)
        least = float(format_.smallest_subnormal) if narrow else 0.0
        lost = 2.0**-126 * magnitudes + least * np.abs(self.v).sum(axis=0)
        return factor * np.sqrt(np.maximum(moved, 0) + added) + self._move(np.where(self.lost, 1.0, usual)) + lost

    def _find_farthest(self, magnitudes: Floats, y: Floats) -> Floats:
        """Beyond bfloat16 in every place with sums in float32, and float16 with sums in float16."""
        narrow, half = float(BFLOAT16.unit_roundoff), float(FLOAT16.unit_roundoff)
        keys = self.asked.k[2]
        stored = 2 * narrow * self.reach + 3 * narrow * (np.abs(self.scores) + self.distance)
        halves = half * ((self.asked.q[3] + 4) * self.reach + 3 * (np.abs(self.scores) + self.distance))
        shares = np.maximum(stored, halves)
        added = max(4 * narrow, (keys + 4) * half) * (magnitudes + y)
        # float16 overflows and loses small weights.
        overflows = self.reach.max() >= float(FLOAT16.largest)
        lost = 2.0**-14 * np.abs(self.v).sum(axis=0)
        moved = self._move(np.where(self.lost, 1.0, np.expm1(np.minimum(shares, _LARGEST_SHARE))))
        found = self._cap(moved, shares) + added + lost
        found = np.nan_to_num(found, nan=np.inf, posinf=np.inf)
        return np.full_like(found, np.inf) if overflows and self.asked.dtype == "float16" else found
