"""Hypotheses with numbers that are found from the result: scales, caps, scores of hidden keys, how often keys count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import list_in_words
from samebits.mechanisms.attention.hidden_keys import count_hidden
from samebits.mechanisms.attention.plain_attention import (
    Altered,
    Bend,
    Floats,
    Operands,
    Queries,
    apply_weights,
    compute_scores,
    count_keys,
    exponentiate,
    find_weights,
    weigh_plainly,
)
from samebits.numbers.array import measure_spacing
from samebits.numbers.format import FLOAT32, find_format
from samebits.problems.attention import Attention

# Factors from a 32nd to 32 are tried, four to an octave, then the best of them is refined.
_FACTORS = tuple(2.0 ** (step / 4) for step in range(-20, 21))
# Scores of hidden keys: exp of less than -30 adds nothing to any sum in float32.
_SCORES = tuple(float(score) for score in range(-30, 11))
_REFINED = 40
_GOLDEN = (math.sqrt(5) - 1) / 2
# A fitted scale so near to 1 / sqrt(n) is that, a number so near to a round one is the round one.
_NEAR_ROOT, _NEAR_ROUND = 1e-4, 1e-3
_MOST_ROOT = 4096
# One number for each query is fitted to so many features at least.
_FEWEST_FEATURES = 4
# A number so near to one of a format, in its steps, is one of it: one in eight is by chance.
_NEAR_STEP = 1 / 16
# A sum of weights so near to theirs is theirs in fewer digits: half a unit of bfloat16.
_NARROW_SUM = 2.0**-8
_MOST_EQUATIONS, _MOST_ENTRIES, _TIMES_KEYS, _MOST_PICKED = 2**15, 2**24, 2, 64


@dataclass(frozen=True)
class Evidenced:
    """A result, the truth, what rounding is likely to leave of each output, and which queries (N, H, Lq) are off."""

    asked: Attention
    operands: Operands
    result: Floats
    truth: Floats
    unit: Floats
    off: npt.NDArray[np.bool_]


def find_numbers(asked: Attention, operands: Operands, leaves: Callable[[Altered], float]) -> Iterator[Altered]:
    """The scale, the cap and the score of hidden keys that leave least of the distance, if any leaves little."""
    declared = asked.factor

    def scale_by(factor: float) -> Altered:
        scale = _name_root(declared * factor)
        named = f"1/sqrt({round(1 / scale**2)}) = {scale:.6g}" if _is_root(scale) else f"{scale:.6g}"
        says = f"has a scale of {named} in place of {declared:.6g}"
        return Altered(says, CauseCode.DROPPED_ATTRIBUTE, replace(asked, scale=scale), operands, is_fitted=True)

    yield from _fit(scale_by, _FACTORS, leaves)
    if asked.softcap is not None:
        cap = asked.softcap

        def cap_by(factor: float) -> Altered:
            other = _name_round(cap * factor)
            says = f"has a softcap of {other:.6g} in place of {cap:g}"
            return Altered(says, CauseCode.DROPPED_ATTRIBUTE, replace(asked, softcap=other), operands, is_fitted=True)

        yield from _fit(cap_by, _FACTORS, leaves)
    if not asked.sees_with(operands).all():
        for is_added in (True, False):

            def count_as(score: float, is_added: bool = is_added) -> Altered:
                return replace(count_hidden(asked, operands, _name_round(score), is_added=is_added), is_fitted=True)

            yield from _fit(count_as, _SCORES, leaves)


def _fit(
    make: Callable[[float], Altered], grid: tuple[float, ...], leaves: Callable[[Altered], float]
) -> Iterator[Altered]:
    """The hypothesis with the number, between the neighbours of the best of a grid, that leaves least."""
    tried = [leaves(make(number)) for number in grid]
    best = int(np.argmin(tried))
    if not 0 < best < len(grid) - 1:
        return
    low, high = grid[best - 1], grid[best + 1]
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b = leaves(make(a)), leaves(make(b))
    for _ in range(_REFINED):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN * (high - low)
            at_a = leaves(make(a))
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN * (high - low)
            at_b = leaves(make(b))
    yield make((low + high) / 2)


def _is_root(scale: float) -> bool:
    root = round(1 / scale**2) if scale > _MOST_ROOT**-0.5 else 0
    return root > 1 and scale == root**-0.5


def _name_root(scale: float) -> float:
    """1 / sqrt(n) where a scale is about that."""
    root = round(1 / scale**2) if scale > _MOST_ROOT**-0.5 else 0
    return root**-0.5 if root > 0 and abs(scale * math.sqrt(root) - 1) < _NEAR_ROOT else scale


def _name_round(number: float) -> float:
    """A whole or half number where a number is about that."""
    near = round(2 * number) / 2
    return near if abs(number - near) < _NEAR_ROUND * max(abs(near), 1) else number


def find_row_sums(given: Evidenced) -> Iterator[Altered]:
    """Each query's result as the right one times a number: the weights were divided by another sum."""
    asked, off = given.asked, given.off
    if asked.v[3] < _FEWEST_FEATURES or not off.any():
        return
    with np.errstate(all="ignore"):
        products, squares = (given.result * given.truth).sum(axis=-1), (given.truth**2).sum(axis=-1)
        factors = np.where(off, products / squares, 1.0)[..., None]
    if not np.isfinite(factors).all() or (factors <= 0).any():
        return
    others = factors[off].ravel()
    typical = float(np.median(others))
    if float(np.abs(others - 1).max()) <= _NARROW_SUM or _is_narrow(given, factors):
        says = "keeps the sum of the weights in fewer digits"
        cause, verdict = CauseCode.NARROW_INTERMEDIATE, "downgrade"
    else:
        says = f"divides the weights by another sum than theirs: results are about {typical:.4g} times the right ones"
        cause, verdict = CauseCode.SOFTMAX, "wrong"
    yield Altered(says, cause, asked, given.operands, _multiply(factors), is_fitted=True, verdict=verdict)


def _is_narrow(given: Evidenced, factors: Floats) -> bool:
    """Whether the sums that results were divided by are numbers of 16 bits, whichever order made them."""
    if find_format(given.asked.dtype).precision < FLOAT32.precision:
        # The result has not enough digits to say.
        return False
    queries = np.unique(np.argwhere(given.off)[:, 2])
    scores, _ = compute_scores(given.asked, given.operands, queries)
    with np.errstate(all="ignore"):
        sums = exponentiate(scores).sum(axis=-1) / factors[:, :, queries, 0]
    sums = sums[given.off[:, :, queries]]
    if len(sums) < thresholds.FEWEST_TELLING:
        return False
    steps = ((sums, measure_spacing(sums, find_format(name))) for name in ("float16", "bfloat16"))
    return any(bool((np.abs(s / step - np.rint(s / step)) <= _NEAR_STEP).all()) for s, step in steps)


def _multiply(factors: Floats) -> Bend:
    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        result, magnitudes = weigh_plainly(scores, values, queries)
        return result * factors[:, :, queries], magnitudes * np.abs(factors[:, :, queries])

    return bend


def find_dropout(given: Evidenced) -> Iterator[Altered]:
    """Weights that are 0 or too large by one factor, where there are no more keys than features to solve them for."""
    asked = given.asked
    rows = np.argwhere(given.off & np.isfinite(given.result).all(axis=-1))
    most_seen = int(asked.sees_with(given.operands).sum(axis=-1).max())
    if not _FEWEST_FEATURES <= most_seen <= asked.v[3] or not len(rows):
        return
    scores, values = compute_scores(asked, given.operands, np.arange(asked.q[2]))
    with np.errstate(all="ignore"):
        weights = find_weights(scores)
    times = np.ones(asked.score_shape)
    for item, head, query in rows[: _MOST_EQUATIONS // asked.v[3]]:
        own = weights[item, head, query]
        seen = own > 0
        solved = _solve(values[item, head][seen].T, given.result[item, head, query])
        times[item, head, query, seen] = solved / own[seen]
    off = times[tuple(rows.T)][weights[tuple(rows.T)] > 0]
    kept = off[off > thresholds.MAJORITY]
    factor = float(np.median(kept)) if len(kept) else 1.0
    whole = np.where(times > factor / 2, factor, 0.0)
    whole[~given.off] = 1.0
    counted = whole[given.off][weights[given.off] > 0]
    dropped = float((counted == 0).mean()) if len(counted) else 0.0
    if abs(factor - 1) < _NEAR_ROOT or not 0 < dropped < thresholds.MAJORITY:
        return
    says = f"drops {dropped:.0%} of the weights and takes the others times {factor:.4g}: dropout is on"

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        return apply_weights(find_weights(scores) * whole[:, :, queries], values)

    yield Altered(says, CauseCode.SOFTMAX, asked, given.operands, bend, is_fitted=True)


def find_counts(given: Evidenced) -> Iterator[Altered]:
    """How often each key counts, the same for all queries that are off: 0 for one that is lost, 2 for one taken twice.

    With weights w and counts m the result is y = sum m w v / sum m w, so that sum m w (v - y) = 0 for each feature of
    each query: equations for the m, linear, solved for their differences from 1.
    """
    asked, keys = given.asked, given.asked.k[2]
    matrix = _list_equations(given)
    if matrix is None:
        return
    right = -matrix.sum(axis=1)
    counts = 1 + (_solve_all(matrix, right) if len(matrix) >= _TIMES_KEYS * keys else _pursue(matrix, right))
    middle = float(np.median(counts))
    whole = np.maximum(np.rint(counts / middle if middle > 0 else counts), 0.0)
    if (whole == 1).all() or not whole.any():
        return
    said: list[str] = []
    lost, twice = np.flatnonzero(whole == 0), np.flatnonzero(whole > 1)
    if len(lost):
        said.append(f"leaves out key{'s' if len(lost) > 1 else ''} {list_in_words(lost)}")
    if len(twice):
        said.append(f"counts key{'s' if len(twice) > 1 else ''} {list_in_words(twice)} more than once")
    yield Altered(" and ".join(said), CauseCode.OTHER_KEYS, asked, given.operands, count_keys(whole), is_fitted=True)


def _list_equations(given: Evidenced) -> Floats | None:
    """Equations for how often keys count: rows are outputs, in shares of what rounding is likely to leave of them."""
    asked, keys = given.asked, given.asked.k[2]
    rows = np.argwhere(given.off & np.isfinite(given.result).all(axis=-1))
    most = min(_MOST_EQUATIONS, _MOST_ENTRIES // keys) // asked.v[3]
    if not len(rows) or keys < 2 or most < 1:
        return None
    chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]
    queries = np.unique(chosen[:, 2])
    scores, values = compute_scores(asked, given.operands, queries)
    with np.errstate(all="ignore"):
        weights = find_weights(scores)
    place = {int(query): i for i, query in enumerate(queries)}
    parts: list[Floats] = []
    for item, head, query in chosen:
        own, result = weights[item, head, place[int(query)]], given.result[item, head, query]
        unit = given.unit[item, head, query]
        parts.append(((values[item, head] - result) * own[:, None] / unit).T)
    matrix = np.concatenate(parts)
    return matrix if np.isfinite(matrix).all() else None


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Least squares; what no equation says stays 0."""
    return np.linalg.lstsq(matrix, right, rcond=1e-9)[0].astype(np.float64)


def _solve_all(matrix: Floats, right: Floats) -> Floats:
    """Differences from 1 that add up to 0: any multiple of the counts satisfies the equations, none at all too."""
    heavy = np.full((1, matrix.shape[1]), float(np.abs(matrix).max()) * len(matrix))
    return _solve(np.concatenate([matrix, heavy]), np.append(right, 0.0))


def _pursue(matrix: Floats, right: Floats) -> Floats:
    """Few numbers other than 0, picked one by one: orthogonal matching pursuit."""
    norms = np.sqrt((matrix**2).sum(axis=0))
    picked: list[int] = []
    solved, left = np.zeros(0), right
    for _ in range(min(_MOST_PICKED, len(matrix) // _TIMES_KEYS)):
        with np.errstate(all="ignore"):
            likeness = np.nan_to_num(np.abs(matrix.T @ left) / norms)
        likeness[picked] = 0
        if likeness.max() <= 0:
            break
        picked.append(int(likeness.argmax()))
        solved = _solve(matrix[:, picked], right)
        left = right - matrix[:, picked] @ solved
        # As much as rounding leaves.
        if float(np.sqrt(np.mean(left**2))) <= 1:
            break
    found = np.zeros(matrix.shape[1])
    found[picked] = solved
    return found
