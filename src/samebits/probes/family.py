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

from samebits.formats.format import find_format
from samebits.probes.interview import Interview

Family = Literal["direct", "winograd", "fft", "unknown"]
_SEED = 7
_SIGNIFICANT = 4


@dataclass(frozen=True)
class ImpulseResponse:
    """Shares of outputs that a weight reaches and that differ from it, and of outputs beyond reach that are not zero."""

    family: Family
    wrong: float
    leaked: float
    finite: bool


def find_family(interview: Interview) -> ImpulseResponse:
    """The family, from one call. Raises EngineFailure."""
    terms = interview.terms
    random = np.random.default_rng(_SEED)
    operands = interview.make_operands(0.0)
    spread = 10 if find_format(interview.problem.dtype).exponent_bits >= 8 else 5
    rows = np.empty((terms.groups * terms.rows, terms.count))
    significands = 1 + random.integers(0, 2 ** (_SIGNIFICANT - 1), rows.shape) / 2 ** (_SIGNIFICANT - 1)
    rows[...] = significands * np.exp2(random.integers(-spread, spread + 1, rows.shape))
    view = interview.view_rows(operands)
    view[...] = rows.reshape(view.shape)
    source = terms.view_source(operands[terms.source_operand])
    places = int(np.prod(terms.outputs))
    centre = terms.locate_sources(np.array([places // 2]))[0]
    reached = centre[centre >= 0]
    if not len(reached):
        return ImpulseResponse("unknown", 0.0, 0.0, True)
    pixel = int(reached[len(reached) // 2])
    # One channel (or batch item) at a time is lit, so that no output adds two weights.
    channel = int(random.integers(terms.depth))
    source[:, :, channel, pixel] = 1.0
    answers = interview.ask_by_row(operands).reshape(terms.groups, terms.rows, terms.batch, places)
    expected = np.zeros((terms.groups, terms.rows, places))
    values = rows.reshape(terms.groups, terms.rows, terms.depth, terms.volume)
    inside = np.zeros(places, bool)
    for start in range(0, places, 4096):
        chosen = np.arange(start, min(start + 4096, places))
        at, tap = np.nonzero(terms.locate_sources(chosen) == pixel)
        expected[:, :, chosen[at]] = values[:, :, channel, tap]
        inside[chosen[at]] = True
    expected = _apply_epilogue(interview, expected)
    given = answers[:, :, :, :]
    finite = bool(np.isfinite(given).all())
    wrong = float((given[..., inside] != expected[:, :, None, inside]).mean()) if inside.any() else 0.0
    outside = given[..., ~inside] != expected[:, :, None, ~inside]
    leaked = float(outside.mean()) if outside.size else 0.0
    if wrong == 0.0 and leaked == 0.0:
        return ImpulseResponse("direct", wrong, leaked, finite)
    if not finite:
        return ImpulseResponse("unknown", wrong, leaked, finite)
    far = leaked > 0.5
    return ImpulseResponse("fft" if far else "winograd" if wrong else "unknown", wrong, leaked, finite)


def _apply_epilogue(interview: Interview, values: np.ndarray) -> np.ndarray:
    then = interview.problem.then
    if then is None:
        return values
    low, high = (0.0, np.inf) if then.name == "relu" else (then.low, then.high)
    return np.clip(values, low, high)
