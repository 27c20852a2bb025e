"""Are operands rounded before they are multiplied? One term, once with random row values, once with a random source.

A product with 1 shows the other operand as it was multiplied, unless the running sum or the result is narrower still.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import BFLOAT16, FLOAT16, FLOAT32, TF32, find_format
from samebits.numbers.scalar import NEAREST_AWAY, NEAREST_EVEN, NEAREST_IF_ODD, TOWARD_ZERO

_SEED = 23
# Fewer values may be numbers of several narrower formats by chance.
_FEWEST_COMPARED = 8
_DRAWN_AT_ONCE = 2**20
_MODES = (NEAREST_EVEN, TOWARD_ZERO, NEAREST_AWAY, NEAREST_IF_ODD)
_NARROWER = (FLOAT32, FLOAT16, TF32, BFLOAT16)


@dataclass(frozen=True)
class OperandRounding:
    """How an operand's values are rounded: both None where they are not, `known` False where no rounding fits."""

    format: str | None
    mode: str | None
    known: bool
    compared: int


def find_operand_roundings(session: ProbeSession, term: int, positions: np.ndarray) -> dict[str, OperandRounding]:
    """The rounding of each operand, by name (x, w or dy), from two calls; from more where a problem has few outputs.

    `positions`: output positions that have the term.
    """
    terms = session.terms
    random = np.random.default_rng(_SEED)
    seen: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {terms.rows_operand: [], terms.source_operand: []}
    for ask, name in ((_ask_rows, terms.rows_operand), (_ask_source, terms.source_operand)):
        # Many outputs may show one and the same value.
        while sum(np.unique(given).size for given, _ in seen[name]) < _FEWEST_COMPARED:
            given, answers = ask(session, term, positions, random)
            seen[name].append((given.reshape(-1), answers.reshape(-1)))
            if not answers.size:
                break
    return {
        name: _classify(np.concatenate([g for g, _ in parts]), np.concatenate([a for _, a in parts]), session)
        for name, parts in seen.items()
    }


def _ask_rows(
    session: ProbeSession, term: int, positions: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random row values and what became of them, from one call."""
    terms = session.terms
    shape = (terms.groups * terms.rows, terms.count)
    operands = session.make_operands(0.0)
    rows = _draw(random, shape[0] * shape[1], session).reshape(shape)
    view = session.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    # One source value of 1: every output that it reaches shows the row value that met it.
    at = terms.locate_sources(positions % int(np.prod(terms.outputs)))
    pixel = int(at[len(at) // 2, term % terms.volume])
    terms.view_source(operands[terms.source_operand])[:, :, term // terms.volume, pixel] = 1.0
    answers = session.ask_by_row(operands)
    which, tap = np.nonzero(at == pixel)
    met = term // terms.volume * terms.volume + tap
    return rows[:, met].astype(np.float64), answers[:, positions[which]]


def _ask_source(
    session: ProbeSession, term: int, positions: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random source values and what became of them, from one call."""
    terms = session.terms
    places = int(np.prod(terms.outputs))
    operands = session.make_operands()
    rows = np.zeros((terms.groups * terms.rows, terms.count), session.dtype)
    rows[:, term] = 1.0
    view = session.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    source = operands[terms.source_operand]
    source[...] = _draw(random, source.size, session).reshape(source.shape)
    answers = session.ask_by_row(operands)
    at = terms.locate_sources(positions % places)[:, term % terms.volume]
    values = terms.view_source(source).astype(np.float64)
    met = values[:, positions // places, term // terms.volume, at]
    return np.repeat(met, terms.rows, axis=0), answers[:, positions]


def _draw(random: np.random.Generator, count: int, session: ProbeSession) -> npt.NDArray[np.generic]:
    """Values of both signs around 1 (positive and below any clip's bound if there is one), all bits in use."""
    values = np.empty(count, session.dtype)
    for start in range(0, count, _DRAWN_AT_ONCE):
        block = values[start : start + _DRAWN_AT_ONCE]
        block[...] = _draw_block(random, block.size, session)
    return values


def _draw_block(random: np.random.Generator, count: int, session: ProbeSession) -> npt.NDArray[np.float64]:
    then = session.problem.then
    scale: float | np.ndarray = 1.0 if then is None or then.high >= 4 else max(then.high, 2.0**-10) / 4
    if find_format(session.problem.dtype).exponent_bits >= 8:
        # Down into float16's subnormal numbers, which tf32 and bfloat16 do not have there.
        scale = scale * np.exp2(random.integers(-20, 1 if then else 12, count))
    signs = random.choice([-1.0, 1.0], count) if then is None else np.ones(count)
    values = random.uniform(1.0, 4.0, count)
    # Random values are never halfway between two numbers of a format, where ties to even and away from zero part.
    declared = find_format(session.problem.dtype).precision
    kind = random.integers(0, 4, count)
    for number, precision in enumerate(sorted({f.precision for f in _NARROWER if f.precision < declared})):
        half = 2.0**-precision
        tie = 1.0 + half * (4.0 * np.floor((values - 1.0) / (12.0 * half)) + 1.0)
        values = np.where(kind == number, tie, values)
    return values * signs * scale


def _classify(given: np.ndarray, answers: np.ndarray, session: ProbeSession) -> OperandRounding:
    """The first rounding, mildest first, that turns all values into what came out."""
    out = find_format(session.problem.out)
    given = given.astype(np.float64)
    if np.array_equal(round_array_to_format(given, out), answers):
        return OperandRounding(None, None, True, answers.size)
    dtype = find_format(session.problem.dtype)
    for format_ in _NARROWER:
        if format_.precision >= dtype.precision and format_.exponent_bits >= dtype.exponent_bits:
            continue
        for mode in _MODES:
            if np.array_equal(round_array_to_format(round_array_to_format(given, format_, mode), out), answers):
                return OperandRounding(format_.name, mode, True, answers.size)
    return OperandRounding(None, None, False, answers.size)
