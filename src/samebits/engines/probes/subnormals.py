"""Are subnormal numbers flushed to zero? Powers of two that are subnormal as an operand, or as a result.

Flushing hardware knows float32's subnormals (below 2^-126); float16's are normal numbers once converted to float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from samebits.engines.probes.session import ProbeSession
from samebits.numbers.format import find_format


@dataclass(frozen=True)
class Subnormals:
    """Which subnormals survived: row values, source values, results. None: not readable here."""

    rows: bool
    source: bool
    results: bool | None

    @property
    def says(self) -> str:
        """What becomes of subnormal numbers, in words."""
        lost = [n for n, kept in (("operands", self.rows and self.source), ("results", self.results)) if kept is False]
        if not lost:
            return "kept"
        return "flushed" if len(lost) == 2 else f"{lost[0]} flushed"


def find_subnormals(session: ProbeSession, term: int, position: int) -> Subnormals:
    """Three calls, read at an output position that has the term. Raises EngineFailure."""
    format_ = find_format(session.problem.dtype)
    out = find_format(session.problem.out)
    # Half the smallest normal number: the subnormal that rounding operands to fewer bits leaves alone.
    smallest = 2.0 ** (format_.smallest_normal_exponent - 1)
    lift = 2.0 ** (-format_.smallest_normal_exponent // 2)
    rows = _ask(session, term, position, row=smallest, source=lift)
    source = _ask(session, term, position, row=lift, source=smallest)
    low = 2.0 ** ((out.smallest_normal_exponent - 2) // 2)
    product = low * 2.0 ** (out.smallest_normal_exponent - 2 - (out.smallest_normal_exponent - 2) // 2)
    results = None
    if low >= 2.0**format_.smallest_normal_exponent:
        results = _ask(session, term, position, row=product / low, source=low) == product
    return Subnormals(rows == smallest * lift, source == smallest * lift, results)


def _ask(session: ProbeSession, term: int, position: int, *, row: float, source: float) -> float:
    operands = session.make_operands(source)
    view = session.view_rows(operands)
    view[..., term // session.terms.volume, term % session.terms.volume] = row
    return float(session.ask_by_row(operands)[0, position])
