"""Which numbers to count with: a mask that absorbs units, units that a result can count.

The product of a mask and a source value must absorb any sum of units in the running sum's format, and the result must
distinguish every count. What the running sum is is not known beforehand, so candidates are tried on the runner itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import find_format


@dataclass(frozen=True)
class Scale:
    """Row values of a mask and of a unit (both powers of two), and how many units a result counts exactly."""

    mask: float
    unit: float
    capacity: int


def list_scales(dtype: str) -> tuple[tuple[float, float], ...]:
    """Candidate (mask, unit) pairs of an operand format, widest first; their ratio is the room between them.

    float32's range allows 2^100. Where an engine rounds its operands to float16, only 2^15 and 2^-24 (the largest power
    of two, the smallest subnormal) are left: a ratio of 2^39, in which a float32 sum has room for 2^14 units. 2^-14 is
    float16's smallest normal number.
    """
    if find_format(dtype).exponent_bits >= 8:
        return ((2.0**100, 1.0), (2.0**15, 2.0**-24), (2.0**15, 2.0**-14))
    if dtype == "float16":
        return ((2.0**15, 2.0**-24), (2.0**15, 2.0**-14))
    format_ = find_format(dtype)
    largest = 2.0 ** int(np.log2(float(format_.largest)))
    return ((largest, float(format_.smallest_subnormal)),)


def choose_scale(session: ProbeSession) -> Scale | None:
    """The first candidate with which the runner absorbs and counts; None if there is none. One call per candidate.

    Rows hold 2^k - 1 units for every k (with k significant bits, counts up to 2^k are exact), the largest odd number
    of units, and mask, units, minus mask (is anything finite left?).
    """
    terms = session.terms
    rows = terms.groups * terms.rows
    complete = _find_complete(session)
    if complete is None:
        return None
    position, exists = complete
    own = np.flatnonzero(exists)
    odd = len(own) - 1 + len(own) % 2
    sizes = sorted({odd, *(2**k - 1 for k in range(1, 25) if 2**k - 1 < odd)}, reverse=True)
    for mask, unit in list_scales(session.problem.dtype):
        unit = _shrink_unit(session, unit, len(own))
        counted: dict[int, bool] = {}
        survives = True
        # Beside the counts: 0, masks around units; -1, a mask alone.
        every = [*sizes, 0, -1]
        for start in range(0, len(every), rows):
            operands = session.make_operands()
            view = session.view_rows(operands)
            asked = every[start : start + rows]
            for r, size in enumerate(asked):
                values = np.zeros(terms.count)
                if size >= 0:
                    values[own[:: max(len(own) // size, 1)][:size] if size else own] = unit
                if size == 0 and len(own) > 1:
                    values[own[-1]] = -mask
                if size <= 0:
                    values[own[0]] = mask
                view[r // terms.rows, r % terms.rows] = values.reshape(view.shape[2:])
            answer = session.ask_by_row(operands)[:, position] / unit
            for r, size in enumerate(asked):
                if size > 0:
                    counted[size] = bool(answer[r] == size)
                elif size == 0:
                    survives &= bool(0 <= answer[r] <= len(own))
                else:
                    survives &= bool(answer[r] * unit == _clip(session, mask))
        capacity = 0
        for size in sorted(sizes):
            if not counted[size]:
                break
            capacity = len(own) if size == odd else size + 1
        if survives and capacity >= min(len(own), 4):
            return Scale(mask, unit, capacity)
    return None


def _find_complete(session: ProbeSession) -> tuple[int, np.ndarray] | None:
    """A position with the most terms there are, and which terms it has."""
    terms = session.terms
    number, masks = terms.patterns
    best = int(masks.sum(axis=1).argmax())
    if not masks[best].any():
        return None
    s = int(np.flatnonzero(number == best)[len(np.flatnonzero(number == best)) // 2])
    return s, np.tile(masks[best], terms.depth)


def _shrink_unit(session: ProbeSession, unit: float, count: int) -> float:
    """A unit so small that no count of them leaves the range that a clip lets through."""
    then = session.problem.then
    if then is None or then.high == np.inf or then.high <= 0:
        return unit
    while unit * count > then.high / 2:
        unit /= 2
    return unit


def _clip(session: ProbeSession, value: float) -> float:
    then = session.problem.then
    return value if then is None else min(value, then.high)
