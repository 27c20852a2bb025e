"""Wrong outputs whose values are right ones of elsewhere, or off by multiples of a power of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_places
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.numbers.format import find_format
from samebits.problems.windows import name_axes

Mask = npt.NDArray[np.bool_]
# Outputs that are looked for elsewhere; how many values of others may be as near.
_LOOKED_AT, _MOST_ALIKE, _SEED = 48, 64, 21
# Sums and indices of so many bits.
WIDTHS = (32, 16)
# Distances along all axes are tried, too.
_FEWEST_BITS = 2 * thresholds.FEWEST_BITS


def find_exchange(observation: Observation, wrong: Mask) -> tuple[CauseCode, str] | None:
    """Two parts of the result that stand in each other's place: the cause, and what the side does.

    Every wrong output has the value that is right so far away, one part this way and the other one back.
    """
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    if not (np.isfinite(given[wrong]).all() and np.isfinite(truth).all()):
        return None
    if _count_bits(given, truth, observation.bound, wrong) < _FEWEST_BITS:
        return None
    # A tile of a matrix product is one of channels by positions, whose rows may end anywhere in an image.
    arrays, flat = (given, truth, observation.bound, wrong), observation.whole()
    matrix = tuple(flat.pick(a) for a in arrays)
    both = _exchange(*arrays) or _exchange(*matrix)  # type: ignore[arg-type]  (four arrays)
    if both is None:
        return None
    if both[0].shape != wrong.shape:
        both = tuple(_put_back(observation, part) for part in both)
    places = [(describe_places(observation.problem, part) or "").removeprefix("only in ") for part in both]
    says = f"exchanges two parts of its result: {places[0]}, and {places[1]}"
    return CauseCode.AXIS_ORDER, says


def _exchange(given: Floats, truth: Floats, bound: Floats, wrong: Mask) -> tuple[Mask, Mask] | None:
    """The two parts that stand in each other's place."""
    away = _find_distance(given, truth, bound, wrong, wrong)
    if away is None or not _votes_back(given, truth, bound, wrong, away):
        return None
    there, back = (_mark_moved(given, truth, bound, wrong, way) for way in (away, -away))
    if not (there | back)[wrong].all() or not (there & ~back).any() or not (back & ~there).any():
        return None
    return there & ~back & wrong, back & ~there & wrong


def _put_back(observation: Observation, part: Mask) -> Mask:
    """A mask [rows, positions] over the result."""
    marked = np.zeros(observation.problem.out_shape, bool)
    view = observation.terms.view_result(marked)
    view[...] = part.reshape(view.shape)
    return marked


def explain_shift(observation: Observation) -> Mechanism | None:
    """The right result, moved along an axis, with something else in what that leaves free; None where it is none."""
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    wrong = observation.distances.over_bound > 1.0
    if wrong.mean() <= thresholds.MAJORITY or not (np.isfinite(given).all() and np.isfinite(truth).all()):
        return None
    everywhere = np.ones(wrong.shape, bool)
    away = _find_distance(given, truth, observation.bound, wrong, everywhere)
    if away is None or not away.any():
        return None
    inside = np.zeros(wrong.shape, bool)
    inside[_cut(wrong.shape, away)] = True
    moved = _mark_moved(given, truth, observation.bound, everywhere, away)
    few = (~inside).sum() > thresholds.MOST_SCATTERED * wrong.size
    if few or not moved[inside].all() or _count_bits(given, truth, observation.bound, wrong & inside) < _FEWEST_BITS:
        return None
    problem = observation.problem
    is_spatial = problem.stated is None and not away[:2].any()
    cause = CauseCode.PADDING if is_spatial else CauseCode.AXIS_ORDER
    if problem.is_transposed and is_spatial:
        cause = CauseCode.TRANSPOSED_GEOMETRY
    ways = [
        f"by {abs(by)} along {name} toward the {'beginning' if by > 0 else 'end'}"
        for name, by in zip(name_axes(problem), away.tolist(), strict=False)
        if by
    ]
    free = "zeros" if not given[~inside].any() else "other values"
    says = f"returns its result moved {' and '.join(ways)}, with {free} where that leaves it free"
    evidence = f"{int(inside.sum()):,} of {wrong.size:,} outputs are right so far away, each within its bound"
    return Mechanism(cause, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))


def _find_distance(
    given: Floats, truth: Floats, bound: Floats, wrong: Mask, pool: Mask
) -> npt.NDArray[np.int64] | None:
    """How far from wrong outputs those of a pool stand whose right values they have: what most of them say, if any."""
    votes: Counter[tuple[int, ...]] = Counter()
    looked = 0
    for away in _vote(given, truth, bound, wrong, pool):
        looked += 1
        votes.update(away)
    # Of two parts that are exchanged each says the way back of the other.
    best = max(votes, key=lambda one: votes[one] + votes[tuple(-a for a in one)], default=None)
    if best is None or votes[best] + votes[tuple(-a for a in best)] <= looked / 2:
        return None
    return np.array(best)


def _vote(given: Floats, truth: Floats, bound: Floats, wrong: Mask, pool: Mask) -> Iterator[set[tuple[int, ...]]]:
    """For some wrong outputs, how far away their values are right, where these are not those of many."""
    at, there = np.argwhere(wrong), np.argwhere(pool)
    order = np.argsort(truth[pool])
    values = truth[pool][order]
    for one in np.random.default_rng(_SEED).permutation(len(at))[:_LOOKED_AT]:
        value, room = given[tuple(at[one])], 2 * bound[tuple(at[one])]
        first, end = np.searchsorted(values, [value - room, value + room])
        found = range(first, end) if end - first <= _MOST_ALIKE else ()
        yield {tuple(far) for far in (there[order[k]] - at[one] for k in found) if any(far)}


def _votes_back(given: Floats, truth: Floats, bound: Floats, wrong: Mask, away: npt.NDArray[np.int64]) -> bool:
    """Whether both ways are taken."""
    votes = list(_vote(given, truth, bound, wrong, wrong))
    return all(any(tuple(way) in one for one in votes) for way in (away, -away))


def _mark_moved(given: Floats, truth: Floats, bound: Floats, wrong: Mask, away: npt.NDArray[np.int64]) -> Mask:
    """Wrong outputs that have the value that is right so far away, within both bounds."""
    marked = np.zeros(wrong.shape, bool)
    here, there = _cut(wrong.shape, away), _cut(wrong.shape, -away)
    marked[here] = np.abs(given[here] - truth[there]) <= bound[here] + bound[there]
    return marked & wrong


def _cut(shape: tuple[int, ...], away: npt.NDArray[np.int64]) -> tuple[slice, ...]:
    """The outputs that have another so far away."""
    return tuple(slice(max(-int(a), 0), size - max(int(a), 0)) for a, size in zip(away, shape, strict=True))


def _count_bits(given: Floats, truth: Floats, bound: Floats, wrong: Mask) -> float:
    """What it takes of luck that outputs which are off so much are right elsewhere, in bits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log2(np.maximum(np.abs(given - truth) / bound, 1.0))[wrong].sum())


def say_multiples(numbers: Floats, width: int) -> str:
    """ "is off by 1 times 2^16 ..."; `numbers` are the multiples."""
    found = np.unique(numbers)
    times = f"{int(found[0])} times 2^{width}" if len(found) == 1 else f"multiples of 2^{width}"
    return f"is off by {times}, as where a sum wraps around or a carry is lost"


def _find_common_power(values: np.ndarray) -> float:
    """The largest power of two that all values are multiples of."""
    some = values.astype(np.float64)
    mantissas, exponents = np.frexp(some[some != 0])
    whole = (mantissas * 2.0**53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)) - 53 + exponents
    return float(2.0 ** lowest.min()) if lowest.size else 0.0


def find_multiples(observation: Observation, wrong: Mask) -> tuple[CauseCode, str] | None:
    """Wrong outputs that are off by whole multiples of 2^32 or 2^16, as by a sum's width."""
    given, truth, room = (
        a.astype(np.float64)[wrong] for a in (observation.result, observation.truth, observation.bound)
    )
    if not (np.isfinite(given).all() and np.isfinite(truth).all()):
        return None
    if not given.all():
        return None
    natural = _find_common_power(observation.truth[np.isfinite(observation.truth)])
    # Results of such a size are rounded as such.
    room = room + 2 * float(find_format(observation.problem.out).unit_roundoff) * np.abs(given)
    for width in WIDTHS:
        size = 2.0**width
        off = (given - truth) / size
        near = np.abs(off - np.rint(off)) * size <= room
        if not near.all() or not (np.rint(off) != 0).all():
            continue
        # Outputs that are all alike tell once.
        first = np.unique(np.stack([given, truth]), axis=1, return_index=True)[1]
        with np.errstate(divide="ignore"):
            bits = np.log2(np.maximum(size / np.maximum(2 * room[first], natural), 1.0)).sum()
        if bits < thresholds.FEWEST_BITS:
            return None
        return CauseCode.OVERFLOW, say_multiples(np.rint(off), width)
    return None
