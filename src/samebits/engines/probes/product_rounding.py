"""Is a product rounded before it is added? Two terms with random values, compared bit for bit with each possibility.

Of the first two terms that meet, the first's product is the running sum; the second's is added to it, rounded or not.
All four answers are computed from float64 values in which float32 products are exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.array import add_to_odd, round_array_to_format
from samebits.numbers.format import find_format
from samebits.numbers.scalar import NEAREST_EVEN, round_to_format
from samebits.problems import Problem

Product = Literal["fused", "fused_reversed", "rounded", "exact"]
_WAYS: tuple[Product, ...] = ("fused", "fused_reversed", "rounded", "exact")
_SEED = 11
_MOST_COMPARED = 256
_MOST_ROUNDS = 12
# So many bits can be rounded from float64 once, and products of so many are exact in it.
_MOST_PRECISION = 51
_SMALLEST_SUM, _LARGEST_SUM = 2.0, 8.0


@dataclass(frozen=True)
class ProductRounding:
    """Which possibilities agreed with all outputs that were compared."""

    possible: tuple[Product, ...]
    compared: int


# What the source's and the rows' values are rounded to before they are multiplied; None: nothing.
Roundings = tuple[tuple[str, str] | None, tuple[str, str] | None]


def _draw(
    random: np.random.Generator,
    shape: tuple[int, ...],
    rounding: tuple[str, str] | None,
    dtype: np.dtype,
    scale: float = 1.0,
) -> np.ndarray:
    """Values in 1 ... 2, times a power of two, of a dtype that an operand's rounding leaves as they are."""
    values = random.uniform(1.0, 2.0, shape).astype(dtype).astype(np.float64)
    if rounding:
        values = round_array_to_format(values, find_format(rounding[0]), rounding[1])
    return (values * scale).astype(dtype)


def _find_scale(session: ProbeSession) -> float | None:
    """A power of two that keeps sums of two products of such values between a clip's bounds; None if there is none."""
    then = session.problem.then
    if then is None or then.high >= _LARGEST_SUM:
        scale = 1.0
    elif then.high <= 0:
        return None
    else:
        scale = 2.0 ** (math.frexp(then.high)[1] - 1 - round(math.log2(_LARGEST_SUM)))
    least = max(find_format(n).smallest_normal_exponent for n in (session.problem.dtype, session.problem.out))
    return scale if scale >= 2.0**least and (then is None or then.low <= _SMALLEST_SUM * scale) else None


def find_product_rounding(
    session: ProbeSession,
    pair: tuple[int, int],
    positions: np.ndarray,
    accumulator: str,
    mode: str = NEAREST_EVEN,
    roundings: Roundings = (None, None),
) -> ProductRounding:
    """How the products of two terms that meet first are added, from one call.

    `positions` (numbers of output positions that have both terms) are compared, in all rows. `fused`: the second
    product is added unrounded to the rounded first; `fused_reversed`: the other way round; `rounded`: both rounded;
    `exact`: neither. Values are such that the operands' own roundings change nothing. Raises EngineFailure.
    """
    terms, scale = session.terms, _find_scale(session)
    if scale is None:
        return ProductRounding(_WAYS, 0)
    random = np.random.default_rng(_SEED)
    operands = session.make_operands()
    source = operands[terms.source_operand]
    source[...] = _draw(random, source.shape, roundings[0], source.dtype)
    view = session.view_rows(operands)
    rows = np.zeros((terms.groups * terms.rows, terms.count), session.dtype)
    rows[:, pair] = _draw(random, (len(rows), 2), roundings[1], rows.dtype, scale)
    view[...] = rows.reshape(view.shape)
    answers = session.ask_by_row(operands)
    chosen = [(r, p) for p in positions for r in range(len(rows))]
    random.shuffle(chosen)
    possible: set[Product] = set(_WAYS)
    compared = chosen[:_MOST_COMPARED]
    sources = terms.view_source(source).astype(np.float64)
    places = np.prod(terms.outputs, dtype=np.int64)
    for r, p in compared:
        at = terms.locate_sources(np.array([p % places]))[0]
        first, second = (
            Fraction(float(rows[r, t]))
            * Fraction(float(sources[r // terms.rows, p // places, t // terms.volume, at[t % terms.volume]]))
            for t in pair
        )
        expected = _predict(first, second, accumulator, mode, session.problem.out)
        possible &= {name for name, value in expected.items() if value == answers[r, p]}
        if not possible:
            break
    return ProductRounding(tuple(n for n in _WAYS if n in possible), len(compared))


def find_term_products(
    session: ProbeSession,
    pairs: list[tuple[int, int]],
    rows: np.ndarray,
    positions: np.ndarray,
    accumulator: str,
    roundings: Roundings = (None, None),
    starting: Collection[tuple[int, int]] = (),
) -> dict[tuple[int, int], Product]:
    """Whether the second product of each pair (first term of a running sum, later term) is `fused` or `rounded`.

    Of `starting` pairs, whose terms are the first two of their sum, the first product may be added to the second
    instead (`fused_reversed`). A pair has a row of its own, read at several positions; two ways of rounding agree by
    chance about every second time, so pairs that are still open are asked again with other values. Pairs that no single
    way explains, or that no position has, are left out.
    """
    scale = _find_scale(session)
    if scale is None:
        return {}
    ways: dict[tuple[int, int], set[Product]] = {pair: {"fused", "rounded"} for pair in pairs}
    for pair in starting:
        ways[pair].add("fused_reversed")
    random = np.random.default_rng(_SEED)
    for _ in range(_MOST_ROUNDS):
        undecided = [pair for pair in pairs if len(ways[pair]) > 1]
        for start in range(0, len(undecided), len(rows)):
            part = dict(zip(undecided[start : start + len(rows)], rows.tolist(), strict=False))
            for pair, seen in _ask_products(session, part, positions, random, accumulator, roundings, scale):
                ways[pair] &= seen
    return {pair: next(iter(left)) for pair, left in ways.items() if len(left) == 1}


def _ask_products(
    session: ProbeSession,
    row_of_pair: dict[tuple[int, int], int],
    positions: np.ndarray,
    random: np.random.Generator,
    accumulator: str,
    roundings: Roundings,
    scale: float,
) -> Iterator[tuple[tuple[int, int], set[Product]]]:
    """Makes one call; yields every pair with the ways that give its answers at all positions with both terms."""
    terms = session.terms
    places = int(np.prod(terms.outputs))
    at = terms.locate_sources(positions % places)
    operands = session.make_operands()
    source = operands[terms.source_operand]
    source[...] = _draw(random, source.shape, roundings[0], source.dtype)
    values = np.zeros((terms.groups * terms.rows, terms.count), session.dtype)
    drawn = _draw(random, (len(row_of_pair), 2), roundings[1], session.dtype, scale)
    for (pair, row), two in zip(row_of_pair.items(), drawn, strict=True):
        values[row, list(pair)] = two
    view = session.view_rows(operands)
    view[...] = values.reshape(view.shape)
    rows = np.array(list(row_of_pair.values()))
    answers = session.ask_by_row(operands)[np.ix_(rows, positions)]
    sources = terms.view_source(source).astype(np.float64)
    pairs = np.array(list(row_of_pair))
    where = at[:, pairs % terms.volume].transpose(1, 0, 2)
    met = sources[
        (rows // terms.rows)[:, None, None], (positions // places)[:, None], pairs[:, None] // terms.volume, where
    ]
    present = (where >= 0).all(axis=2)
    expected = _predict_arrays(drawn.astype(np.float64)[:, None], met, accumulator, session.problem)
    agrees = {name: ((value == answers) | ~present).all(axis=1) for name, value in expected.items()}
    for number in np.flatnonzero(present.sum(axis=1)):
        yield list(row_of_pair)[number], {name for name in _WAYS if agrees[name][number]}


def _predict_arrays(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], accumulator: str, problem: Problem
) -> dict[Product, npt.NDArray[np.float64]]:
    """As `_predict`, of arrays whose last axis holds the factors of the first and of the second product."""
    format_, result = find_format(accumulator), find_format(problem.out)
    if max(format_.precision, 2 * find_format(problem.dtype).precision) > _MOST_PRECISION:
        one, other = np.broadcast_arrays(one, other)
        both = zip(one.reshape(-1, 2).tolist(), other.reshape(-1, 2).tolist(), strict=True)
        answers = [
            _predict(Fraction(a) * Fraction(b), Fraction(c) * Fraction(d), accumulator, NEAREST_EVEN, problem.out)
            for (a, c), (b, d) in both
        ]
        return {name: np.array([answer[name] for answer in answers]).reshape(one.shape[:-1]) for name in _WAYS}
    first, second = np.moveaxis(one * other, -1, 0)

    def rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return round_array_to_format(values, format_)

    sums: dict[Product, npt.NDArray[np.float64]] = {
        "fused": add_to_odd(rounded(first), second),
        "fused_reversed": add_to_odd(first, rounded(second)),
        "rounded": add_to_odd(rounded(first), rounded(second)),
        "exact": add_to_odd(first, second),
    }
    return {name: round_array_to_format(rounded(value), result) for name, value in sums.items()}


def _predict(first: Fraction, second: Fraction, accumulator: str, mode: str, out: str) -> dict[Product, float]:
    format_, result = find_format(accumulator), find_format(out)

    def rounded(value: Fraction) -> Fraction:
        return Fraction(round_to_format(value, format_, mode))

    sums: dict[Product, Fraction] = {
        "fused": rounded(rounded(first) + second),
        "fused_reversed": rounded(first + rounded(second)),
        "rounded": rounded(rounded(first) + rounded(second)),
        "exact": rounded(first + second),
    }
    return {name: round_to_format(value, result) for name, value in sums.items()}
