"""Single outputs of attention in integers of any size, until their rounding is certain.

Scores are sums of products of integers, exact but for 1 / sqrt(d); exp is a series in fixed point. More bits are taken
until both ends of the enclosure round to one number. They never do where the exact result is a tie of two numbers, or
a number itself: by the theorem of Lindemann and Weierstrass just where the values of the keys with one and the same
score have the same mean for every score, which is then the result, a fraction.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.numbers.format import Format, code_dtype
from samebits.problems.attention import Attention
from samebits.sums.truth.rounding import codes_of_format, encode_fraction

_BITS = (160, 320, 640, 1280, 2560)
# Fixed point: bits beyond those asked for, halvings of the argument of exp, and what a weight is off by in all.
_GUARD, _HALVINGS, _WEIGHT_ERROR = 40, 8, 16


class ExactRow:
    """Settles outputs of one attention, row by row."""

    def __init__(self, asked: Attention, format_: Format):
        self.asked, self.format = asked, format_
        self.codes = codes_of_format(format_)

    def settle(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, added: np.ndarray | None, columns: npt.NDArray[np.intp]
    ) -> np.ndarray:
        """The codes of some outputs of a row: q (d), and k (n, d), v (n, d_v), added (n) of the keys that it sees."""
        q_whole, q_power = _as_integers(q)
        k_whole, k_power = _as_integers(k)
        products: list[int] = list(k_whole @ q_whole)
        power = q_power + k_power
        masks = [Fraction(0)] * len(products) if added is None else [Fraction(float(m)) for m in added]
        v_whole, v_power = _as_integers(v[:, columns])
        found = np.zeros(len(columns), code_dtype(self.format))
        left = list(range(len(columns)))
        for bits in _BITS:
            weights = self._weigh(products, power, masks, bits)
            unsettled = [c for c in left if not self._round(weights, v_whole[:, c], v_power, found, c)]
            if bits == _BITS[0]:
                unsettled = [
                    c
                    for c in unsettled
                    if not self._take_mean(products, power, masks, v_whole[:, c], v_power, found, c)
                ]
            left = unsettled
            if not left:
                return found
        for c in left:
            found[c] = self._settle_tie(products, power, masks, v_whole[:, c], v_power)
        return found

    def _weigh(self, products: list[int], power: int, masks: list[Fraction], bits: int) -> list[int]:
        """Weights times 2^bits, the largest 1, each off by less than _WEIGHT_ERROR."""
        one = bits + _GUARD
        scores = [self._score(p, power, one) + _to_fixed(m, one) for p, m in zip(products, masks, strict=True)]
        most = max(scores)
        return [_exp(score - most, one) >> _GUARD for score in scores]

    def _score(self, product: int, power: int, one: int) -> int:
        """A score in fixed point, off by less than 2^20 of its units (2^-20 of those asked for)."""
        asked = self.asked
        if asked.scale is not None:
            score = _to_fixed(Fraction(asked.scale) * product * Fraction(2) ** power, one)
        else:
            # sqrt(product^2 / d), rounded down, with the sign of the product.
            shift = 2 * (one + power)
            squared = product * product
            squared = squared << shift if shift >= 0 else squared >> -shift
            score = math.isqrt(squared // asked.q[3])
            score = score if product >= 0 else -score
        if asked.softcap is None:
            return score
        cap = Fraction(asked.softcap)
        # tanh(x) = (1 - e) / (1 + e) with e = exp(-2 x), of the magnitude; the cap enlarges what it is off by.
        more = max(math.ceil(math.log2(asked.softcap)), 0)
        e = _exp(-2 * _divide(abs(score) << more, cap), one + more)
        tanh = (((1 << (one + more)) - e) << (one + more)) // ((1 << (one + more)) + e)
        capped = _multiply(tanh, cap) >> more
        return capped if score >= 0 else -capped

    def _round(self, weights: Sequence[int], values: np.ndarray, power: int, found: np.ndarray, column: int) -> bool:
        """Writes the code of one output if both ends of its enclosure have the same."""
        total, error = sum(weights), _WEIGHT_ERROR * len(weights)
        product = sum(w * int(x) for w, x in zip(weights, values, strict=True))
        off = _WEIGHT_ERROR * sum(abs(int(x)) for x in values)
        ends = (product - off, product + off)
        low = Fraction(ends[0], total + error if ends[0] >= 0 else total - error)
        high = Fraction(ends[1], total - error if ends[1] >= 0 else total + error)
        codes = [self._encode(end, power) for end in (low, high)]
        if not any(code & ~(1 << self.codes.sign) for code in codes):
            # How far below the smallest number a result is, and so its sign, may take any number of bits to say.
            codes = [0, 0]
        found[column] = codes[0]
        return codes[0] == codes[1]

    def _take_mean(
        self,
        products: list[int],
        power: int,
        masks: list[Fraction],
        values: np.ndarray,
        v_power: int,
        found: np.ndarray,
        column: int,
    ) -> bool:
        """Writes the code of one output whose values have one mean for every score."""
        means = {Fraction(sum(group), len(group)) for group in self._group(products, power, masks, values).values()}
        if len(means) > 1:
            return False
        found[column] = self._encode(means.pop(), v_power)
        return True

    def _group(
        self, products: list[int], power: int, masks: list[Fraction], values: np.ndarray
    ) -> dict[object, list[int]]:
        """The values of the keys that have one and the same score.

        With a scale that is no fraction, or a cap, scores are equal where product and mask are.
        """
        asked, root = self.asked, math.isqrt(self.asked.q[3])
        scale: Fraction | None = None
        if asked.softcap is None and asked.scale is not None:
            scale = Fraction(asked.scale)
        elif asked.softcap is None and root * root == asked.q[3]:
            scale = Fraction(1, root)
        groups: dict[object, list[int]] = {}
        for product, mask, value in zip(products, masks, values, strict=True):
            exact = None if scale is None else scale * product * Fraction(2) ** power + mask
            groups.setdefault((product, mask) if exact is None else exact, []).append(int(value))
        return groups

    def _settle_tie(
        self, products: list[int], power: int, masks: list[Fraction], values: np.ndarray, v_power: int
    ) -> int:
        """The code where the largest weights alone give a tie, or a number, and the others are too small to show.

        The sign of what these add decides. Scores that differ by less than 2^-2560 of their size count as equal.
        """
        one = _BITS[-1] + _GUARD
        scores = [self._score(p, power, one) + _to_fixed(m, one) for p, m in zip(products, masks, strict=True)]
        groups: dict[int, list[int]] = {}
        for score, value in zip(scores, values, strict=True):
            groups.setdefault(score, []).append(int(value))
        first = groups[max(groups)]
        mean = Fraction(sum(first), len(first))
        others = {score: group for score, group in groups.items() if Fraction(sum(group), len(group)) != mean}
        sign = 0
        if others:
            most = max(others)
            added = sum(_exp(s - most, one) * (sum(g) - len(g) * mean) for s, g in others.items())
            sign = (added > 0) - (added < 0)
        # Less than any step between numbers of any format.
        code = self._encode(mean + sign * max(abs(mean), 1) * Fraction(1, 1 << _BITS[-1]), v_power)
        return 0 if not code & ~(1 << self.codes.sign) else code

    def _encode(self, value: Fraction, power: int) -> int:
        """The code nearest to value * 2^power."""
        return encode_fraction(value, self.codes, power)


def take_root(features: int) -> Fraction:
    """1 / sqrt(d), within 2^-300."""
    root = math.isqrt(features)
    if root * root == features:
        return Fraction(1, root)
    return Fraction(math.isqrt((1 << 640) // features), 1 << 320)


def _as_integers(values: npt.NDArray[np.float64]) -> tuple[np.ndarray, int]:
    """Integers and one power of two, whose products are the values."""
    fractions, powers = np.frexp(values)
    whole = np.rint(np.ldexp(fractions, 53)).astype(np.int64)
    powers = powers.astype(np.int64) - 53
    least = int(powers[whole != 0].min()) if whole.any() else 0
    shifted = [int(w) << max(int(p) - least, 0) for w, p in zip(whole.ravel(), powers.ravel(), strict=True)]
    return np.array(shifted, object).reshape(values.shape), least


def _to_fixed(value: Fraction, one: int) -> int:
    return (value.numerator << one) // value.denominator


def _multiply(fixed: int, factor: Fraction) -> int:
    return fixed * factor.numerator // factor.denominator


def _divide(fixed: int, divisor: Fraction) -> int:
    return fixed * divisor.denominator // divisor.numerator


@functools.lru_cache(maxsize=16)
def _find_ln2(one: int) -> int:
    """ln 2 = 18 atanh(1/26) - 2 atanh(1/4801) + 8 atanh(1/8749), in fixed point, within a few units."""
    return (18 * _atanh(26, one + 8) - 2 * _atanh(4801, one + 8) + 8 * _atanh(8749, one + 8)) >> 8


def _atanh(inverse: int, one: int) -> int:
    power, total, n = (1 << one) // inverse, 0, 1
    while power:
        total += power // n
        power //= inverse * inverse
        n += 2
    return total


def _exp(fixed: int, one: int) -> int:
    """exp of a number that is not above 0, in fixed point: off by less than 2^24 units where the number is exact."""
    ln2 = _find_ln2(one)
    steps, rest = divmod(fixed, ln2)
    if -steps > one + 2:
        return 0
    rest >>= _HALVINGS
    term = total = 1 << one
    n = 1
    while term:
        term = (term * rest >> one) // n
        total += term
        n += 1
    for _ in range(_HALVINGS):
        total = total * total >> one
    return total >> -steps if steps <= 0 else total << steps
