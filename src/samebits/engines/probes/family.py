"""Are products of operands added at all, or transforms of them? The response to a single source value.

If every output is a sum of products, one source value of 1 among zeros gives the weights themselves, bit for bit, and
exact zeros where it does not reach. Winograd's transforms (Lavin and Gray 2016) mix the weights of a tile, a Fourier
transform those of the whole plane: rounding then shows wrong weights, and small values that leak out of reach. Weights
are drawn with 4 significant bits, which no rounding of operands touches, and with exponents so far apart that no
transform of them is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import find_format

Family = Literal["direct", "winograd", "fft", "unknown"]
_SEED = 7
_SIGNIFICANT = 4
_DRAWN_AT_ONCE = 2**20
# All of them float16 numbers (subnormal below -14), and too far apart for float32 to hold a sum of two.
_EXPONENTS = (-20, 15)
# A tile reaches a few outputs beyond the kernel, a Fourier transform the whole plane.
_FAR = 0.5


@dataclass(frozen=True)
class ImpulseResponse:
    """Shares of outputs that a weight reaches and that differ from it, and of outputs beyond reach that are not zero.

    The operands and the result are kept: only one product of each sum is not zero, so whoever replays them need not
    know in which order products are added.
    """

    family: Family
    wrong: float
    leaked: float
    finite: bool
    operands: dict[str, np.ndarray]
    result: np.ndarray


def find_family(session: ProbeSession) -> ImpulseResponse:
    """The family, from one call. Raises EngineFailure."""
    terms = session.terms
    random = np.random.default_rng(_SEED)
    operands = session.make_operands(0.0)
    rows = _draw_rows(random, session)
    view = session.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    source = terms.view_source(operands[terms.source_operand])
    places = int(np.prod(terms.outputs))
    centre = terms.locate_sources(np.array([places // 2]))[0]
    reached = centre[centre >= 0]
    if not len(reached):
        return ImpulseResponse("unknown", 0.0, 0.0, True, operands, session.ask(operands))
    pixel = int(reached[len(reached) // 2])
    # One channel (or batch item) at a time is lit, so that no output adds two weights.
    channel = int(random.integers(terms.depth))
    source[:, :, channel, pixel] = 1.0
    result = session.ask(operands)
    answers = terms.view_result(result).astype(np.float64)
    expected = np.zeros((terms.groups, terms.rows, places))
    values = rows.reshape(terms.groups, terms.rows, terms.depth, terms.volume)
    inside = np.zeros(places, bool)
    for start in range(0, places, 4096):
        chosen = np.arange(start, min(start + 4096, places))
        at, tap = np.nonzero(terms.locate_sources(chosen) == pixel)
        expected[:, :, chosen[at]] = values[:, :, channel, tap]
        inside[chosen[at]] = True
    expected = _apply_epilogue(session, expected)
    finite = bool(np.isfinite(answers).all())
    wrong = float((answers[..., inside] != expected[:, :, None, inside]).mean()) if inside.any() else 0.0
    outside = answers[..., ~inside] != expected[:, :, None, ~inside]
    leaked = float(outside.mean()) if outside.size else 0.0
    if wrong == 0.0 and leaked == 0.0:
        family: Family = "direct"
    elif not finite or not wrong:
        family = "unknown"
    else:
        family = "fft" if leaked > _FAR else "winograd"
    return ImpulseResponse(family, wrong, leaked, finite, operands, result)


def _draw_rows(random: np.random.Generator, session: ProbeSession) -> np.ndarray:
    """The rows, [groups * rows, terms]."""
    formats = [find_format(n) for n in (session.problem.dtype, session.problem.out)]
    steps = 2 ** (min(_SIGNIFICANT, *(f.precision for f in formats)) - 1)
    # Eight-bit formats hold neither so many bits nor so many exponents; float32 transforms what they hold (without
    # subnormals) exactly, so that transforms may pass for direct.
    narrow = [f for f in formats if f.width_bits <= 8]
    least = max([_EXPONENTS[0], *(f.smallest_normal_exponent for f in narrow)])
    most = min([_EXPONENTS[1], *(f.exponent_bias for f in narrow)])
    rows = np.empty(session.terms.groups * session.terms.rows * session.terms.count, session.dtype)
    for start in range(0, rows.size, _DRAWN_AT_ONCE):
        block = rows[start : start + _DRAWN_AT_ONCE]
        significands = 1 + random.integers(0, steps, block.size) / steps
        block[...] = significands * np.exp2(random.integers(least, most, block.size))
    return rows.reshape(-1, session.terms.count)


def _apply_epilogue(session: ProbeSession, values: np.ndarray) -> np.ndarray:
    then = session.problem.then
    if then is None:
        return values
    low, high = (0.0, np.inf) if then.name == "relu" else (then.low, then.high)
    return np.clip(values, low, high)
