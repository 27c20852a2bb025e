"""The truth of attention: every output correctly rounded from the exact softmax of exact scores.

Each is computed in float64 with a bound of its error; where both ends of the interval round to one number, that is the
output. The others are computed again in integers of as many bits as it takes (`attention_exact`).

The bound: with u = 2^-53 and g(n) = n u / (1 - n u), a score q . k scale is off by at most g(d + 4) scale |q| |k|
(Cauchy and Schwarz; any order of summation), the mask and the difference t to the largest by u (|m| + 2 |t|) more, and
exp by _EXP_UNITS u of itself. Where weights are off by shares e_j, a sum of n terms by g(n) more, the result y is off
by at most r (|y| + the mean of |v|) / (1 - r), r the largest of e_j plus g(n + 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.errors import ResourceLimitError
from samebits.machine import count_cores
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import Format, code_dtype, find_format, numpy_dtype
from samebits.problems.attention import Attention, check_attention_operands
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.memory import count_available_bytes
from samebits.sums.tiles.running import find_pool
from samebits.sums.truth.attention_exact import ExactRow, take_root
from samebits.sums.truth.attention_pairs import settle_row, split_pair
from samebits.sums.truth.convolution import round_all_to_nearest
from samebits.sums.truth.rounding import codes_of_format

_UNIT = 2.0**-53
# Horner's rule for 13 steps on |r| <= ln(2) / 2 (2 * 13 roundings, times e^0.7), the remainder of the series and the
# error of the reduced argument; Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 5.1.
_EXP_UNITS = 60.0
_COEFFICIENTS = tuple(1.0 / math.factorial(i) for i in range(14))
# ln(2) in two parts; the first has 21 trailing zeros, so that its product with a whole number up to 1100 is exact.
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
_PER_LN2 = 1 / math.log(2)
# Weights below exp of this add nothing that the bound does not cover: together less than 2^-900 of the largest.
_LOWEST = -700.0
_POWERS = np.exp2(np.arange(-1022, 1, dtype=np.float64))
# A larger share says that the scores themselves are not known well enough.
_LARGEST_SHARE = 2.0**-8
_LEAST = 2.0**-1074
_TILE_SCORES = 2**22
# Handing fewer products to threads takes longer.
_FEWEST_SHARED = 2**18
# Of what judges a result, too: scores, weights, distances and errors of one head.
_BYTES_PER_SCORE, _SMALL_BYTES = 200, 2**28


@dataclass(frozen=True)
class AttentionTruth:
    """The correctly rounded result, how many outputs were settled in which way, and the rows that see no key.

    `empty` marks those, (N, H, Lq); their softmax is 0 / 0, and `values` holds 0 there.
    """

    values: np.ndarray
    settled: dict[str, int]
    empty: npt.NDArray[np.bool_]


@default_float_environment()
def compute_attention(
    asked: Attention, operands: Mapping[str, np.ndarray], *, progress: Progress = ignore_progress
) -> AttentionTruth:
    """Every output of an attention, rounded once to nearest even; a zero is +0.

    Operands of shape and dtype as the problem says; the result has shape `asked.out_shape` and the operands' dtype.
    Exact always: the exponentials of different algebraic numbers are independent over the algebraic numbers (Lindemann
    and Weierstrass), which says when an output is a tie of two numbers. Raises OperandError.

    >>> import numpy as np
    >>> from samebits.problems.attention import parse_attention
    >>> asked = parse_attention("attention q=1x1x1x1 k=1x1x2x1")
    >>> q, k, v = np.float32([[[[0]]]]), np.float32([[[[1], [1]]]]), np.float32([[[[1], [4]]]])
    >>> compute_attention(asked, {"q": q, "k": k, "v": v}).values.item()
    2.5
    """
    arrays = check_attention_operands(asked, operands)
    check_scores_fit(asked)
    format_ = find_format(asked.dtype)
    values = np.zeros(asked.out_shape, numpy_dtype(asked.dtype))
    seen = np.broadcast_to(asked.sees_with(arrays), asked.score_shape)
    added = asked.read_added(arrays)
    empty = np.asarray(~seen.any(axis=-1))
    settling = _Settling(asked, format_)

    def settle_head(item: int, head: int) -> None:
        tile = _Tile(asked, arrays, seen[item, head], None if added is None else added[item, head], item, head)
        step = max(_TILE_SCORES // asked.k[2], 1)
        for first in range(0, asked.q[2], step):
            rows = slice(first, min(first + step, asked.q[2]))
            low, high = tile.enclose(rows)
            codes = [_round(end, asked.dtype).view(code_dtype(format_)) for end in (low, high)]
            settled = ((codes[0] == codes[1]) & np.isfinite(low)) | empty[item, head, rows, None]
            part = values[item, head, rows]
            part[...] = np.where(settled & ~empty[item, head, rows, None], codes[0], 0).view(part.dtype)
            for row in np.flatnonzero(~settled.all(axis=-1)):
                columns = np.flatnonzero(~settled[row])
                part[row, columns] = settling.settle(tile, first + int(row), columns).view(part.dtype)

    heads = list(np.ndindex(asked.q[:2]))
    if asked.multiply_adds < _FEWEST_SHARED:
        for head in heads:
            settle_head(*head)
    else:
        futures = [find_pool(count_cores()).submit(settle_head, *head) for head in heads]
        for done, future in enumerate(as_completed(futures)):
            future.result()
            progress("computing the truth", (done + 1) / len(heads))
    counts = {name: sum(found[name] for found in settling.counts) for name in ("pairs", "exact")}
    return AttentionTruth(values, {"float64": values.size - sum(counts.values()), **counts}, empty)


def check_scores_fit(asked: Attention) -> None:
    """Raises ResourceLimitError where the scores of one head, and what is computed of them, need too much memory."""
    needed = _BYTES_PER_SCORE * asked.q[2] * asked.k[2]
    if needed > _SMALL_BYTES and needed > 0.8 * count_available_bytes():
        size = f"{needed / 2**30:.1f} GiB for {asked.q[2]:,} x {asked.k[2]:,} scores"
        raise ResourceLimitError(f"attention needs about {size}, more than the memory that is free")


def _round(values: npt.NDArray[np.float64], format_name: str) -> np.ndarray:
    return round_all_to_nearest(values.ravel(), format_name).reshape(values.shape)


class _Settling:
    """What float64 leaves open: in pairs of numbers, and where these leave it open in integers."""

    def __init__(self, asked: Attention, format_: Format):
        scale = Fraction(asked.scale) if asked.scale is not None else take_root(asked.q[3])
        self.scale = split_pair(scale)
        self.cap = asked.softcap or 0.0
        self.rows, self.codes, self.format = ExactRow(asked, format_), codes_of_format(format_), format_
        # One for each row, as rows are settled by several threads.
        self.counts: list[dict[str, int]] = []

    def settle(self, tile: _Tile, row: int, columns: npt.NDArray[np.intp]) -> np.ndarray:
        """The codes of some outputs of a row."""
        q, k, v, added = tile.read_row(row)
        codes, settled = np.zeros(len(columns), code_dtype(self.format)), np.zeros(len(columns), bool)
        own = np.zeros(len(k)) if added is None else added
        settle_row(q, k, v, own, *self.scale, self.cap, columns, self.codes, codes, settled)
        self.counts.append({"pairs": int(settled.sum()), "exact": int((~settled).sum())})
        if not settled.all():
            codes[~settled] = self.rows.settle(q, k, v, added, columns[~settled])
        return codes


class _Tile:
    """One head of one item: its operands in float64, and enclosures of its outputs."""

    def __init__(
        self,
        asked: Attention,
        operands: Mapping[str, np.ndarray],
        seen: npt.NDArray[np.bool_],
        added: npt.NDArray[np.float64] | None,
        item: int,
        head: int,
    ):
        self.asked, self.seen, self.added = asked, seen, added
        own = head // asked.group
        self.q = operands["q"][item, head].astype(np.float64)
        self.k = operands["k"][item, own].astype(np.float64)
        self.v = operands["v"][item, own].astype(np.float64)

    def read_row(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """One query and what it sees: q, and the keys, values and added numbers."""
        seen = self.seen[row]
        return self.q[row], self.k[seen], self.v[seen], None if self.added is None else self.added[row][seen]

    def enclose(self, rows: slice) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Two ends between which each output of some rows lies; NaN where nothing is known."""
        asked = self.asked
        scale = asked.factor
        with np.errstate(all="ignore"):
            scores = self.q[rows] @ self.k.T
            scores *= scale
            if asked.softcap is not None:
                scores = asked.softcap * np.tanh(scores / asked.softcap)
            if self.added is not None:
                scores += self.added[rows]
            weights = np.empty_like(scores)
            sums, means, largest = (np.empty(len(scores)) for _ in range(3))
            _weigh(scores, np.ascontiguousarray(self.seen[rows]), weights, sums, means, largest)
            values = weights @ self.v
            values /= sums[:, None]
            norms = _find_norms(self.q[rows]) * float(_find_norms(self.k).max())
            share = _grow(asked.q[3] + 6) * scale * norms + _UNIT * (largest + _EXP_UNITS)
            if asked.softcap is not None:
                # tanh of any library, to 4 units, the quotient and the product.
                share += 8 * _UNIT * asked.softcap
            share += _grow(asked.k[2] + 8)
            share[~(share < _LARGEST_SHARE)] = np.nan
            # The mean of |v| is off by as large a share as the result.
            sizes = np.abs(self.v)
            reach = weights @ sizes
            reach /= sums[:, None]
            farther = sizes.max(axis=0)
            error = share[:, None] * (1.01 * reach + np.abs(values)) + 2.0**-900 * farther
            error += (3 * _UNIT * means)[:, None] * (farther + np.abs(values))
            # Of the two ends, and of products below the least number.
            error += 2 * _UNIT * np.abs(values) + np.where(farther > 0, self.v.shape[0] * _LEAST, 0.0)
            return values - error, values + error


def _find_norms(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The root of each row's sum of squares, which neither overflows nor underflows before it has to."""
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    return largest[:, 0] * np.sqrt((scaled**2).sum(axis=-1))


def _grow(count: int) -> float:
    """g(n), with a little for the roundings of the bound itself."""
    return 1.01 * count * _UNIT / (1 - count * _UNIT)


@compiled
def _exp(t):
    """exp of a number in -700 to 0, within _EXP_UNITS units."""
    steps = np.rint(t * _PER_LN2)
    r = (t - steps * _LN2_HIGH) - steps * _LN2_LOW
    total = _COEFFICIENTS[13]
    for i in range(12, -1, -1):
        total = total * r + _COEFFICIENTS[i]
    return total * _POWERS[int(steps) + 1022]


@compiled
def _weigh(scores, seen, weights, sums, means, largest):
    """exp(score - the largest) of what is seen; per row their sum, their mean distance, and the largest's magnitude."""
    rows, keys = scores.shape
    for i in range(rows):
        most = -np.inf
        for j in range(keys):
            if seen[i, j] and scores[i, j] > most:
                most = scores[i, j]
        total = 0.0
        distance = 0.0
        for j in range(keys):
            weight = 0.0
            if seen[i, j]:
                t = scores[i, j] - most
                if t >= _LOWEST:
                    weight = _exp(t)
                    distance -= weight * t
                elif t != t:
                    weight = np.nan
            weights[i, j] = weight
            total += weight
        sums[i] = total
        means[i] = distance / total if total > 0.0 else np.nan
        largest[i] = abs(most)
