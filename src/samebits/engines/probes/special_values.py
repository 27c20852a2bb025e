"""What becomes of infinities, NaN, negative zeros, padding and overflow. One call each; answers are words."""

from __future__ import annotations

import math

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import find_format


def find_padding_rule(session: ProbeSession) -> str | None:
    """Is padding left out, or are zeros multiplied? An infinite weight where an output lacks the term.

    None where no output lacks a term while another has it.
    """
    number, masks = session.terms.patterns
    phases, possible = session.terms.phases
    for pattern, mask in enumerate(masks):
        place = int(np.argmax(number == pattern))
        # Missing for being at a border, not for the place in the stride.
        missing = np.flatnonzero(possible[phases[place]] & ~mask)
        if mask.any() and len(missing):
            operands = session.make_operands()
            view = session.view_rows(operands)
            view[...] = 1.0
            view[..., missing[0]] = np.inf
            value = session.ask_by_row(operands)[0, place]
            return "left out" if np.isfinite(value) else "multiplied as zeros"
    return None


def find_nan_reach(session: ProbeSession) -> str | None:
    """Does a NaN in the source reach just the outputs that read it? After then=, does it stay NaN?"""
    terms = session.terms
    places = int(np.prod(terms.outputs))
    centre = terms.locate_sources(np.array([places // 2]))[0]
    reached = centre[centre >= 0]
    if not len(reached):
        return None
    pixel = int(reached[len(reached) // 2])
    operands = session.make_operands()
    session.view_rows(operands)[...] = 1.0
    terms.view_source(operands[terms.source_operand])[:, 0, 0, pixel] = np.nan
    answers = session.ask_by_row(operands).reshape(terms.groups, terms.rows, terms.batch, places)
    reads = np.concatenate(
        [
            (terms.locate_sources(np.arange(i, min(i + 4096, places))) == pixel).any(axis=1)
            for i in range(0, places, 4096)
        ]
    )
    inside, outside = answers[:, :, 0][..., reads], answers[:, :, 0][..., ~reads]
    if np.isnan(outside).any() or np.isnan(answers[:, :, 1:]).any():
        return "spreads beyond the outputs that read it"
    if np.isnan(inside).all():
        return "kept, in just the outputs that read it"
    return "becomes a number" if not np.isnan(inside).any() else "kept in some outputs that read it"


def find_zero_sign(session: ProbeSession, position: int) -> str:
    """Is a sum of negative zeros -0 or +0?"""
    operands = session.make_operands(0.0)
    session.view_rows(operands)[...] = -1.0
    if session.problem.bias:
        operands["bias"][...] = -0.0
    value = session.ask_by_row(operands)[0, position]
    return "-0" if np.signbit(value) else "+0"


def find_overflow(session: ProbeSession, triple: tuple[int, int, int], position: int) -> str:
    """largest + largest - largest: does the running sum have the range for it?

    Two terms of the largest power of two, and one of its negative, met in this sequence.
    """
    format_ = find_format(session.problem.dtype)
    largest = 2.0 ** (math.frexp(float(format_.largest))[1] - 1)
    operands = session.make_operands()
    view = session.view_rows(operands)
    rows = np.zeros((session.terms.groups * session.terms.rows, session.terms.count))
    rows[:, triple[0]] = rows[:, triple[1]] = largest
    rows[:, triple[2]] = -largest
    view[...] = rows.reshape(view.shape)
    value = session.ask_by_row(operands)[0, position]
    if value == largest:
        return "the running sum has a wider range"
    return "infinite" if np.isinf(value) else "NaN" if np.isnan(value) else f"{value:g} where {largest:g} is right"
