"""Whole outputs of two runners without their operands: what their numbers alone show of how one differs.

Nothing says which side is right. But whether every number of one is the other's rounded, cut off at zero or at a bound,
or one factor of it, is seen by counting; a coincidence over so many numbers is not to be feared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.explanation.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.findings import Comparison, Evidence
from samebits.findings.causes import CauseCode
from samebits.formats.array import round_array_to_format
from samebits.formats.format import find_format
from samebits.judging import thresholds
from samebits.logs import Metrics, Mismatch
from samebits.wording.log_sentences import say_metrics

Floats = npt.NDArray[np.float64]
# Narrowest first; the mildest that fits is named.
_NARROW = ("float16", "bfloat16", "tf32")


@dataclass(frozen=True)
class _Seen:
    """A relation that holds for every number: which side deviates from the other by it, and how."""

    side: int
    says: str
    cause: CauseCode | None
    evidence: str


def explain_outputs(mismatch: Mismatch) -> Comparison:
    """What the numbers of two whole outputs show; which side is right stays open."""
    assert mismatch.outputs is not None
    shown = say_metrics(mismatch.metrics or Metrics()).replace(" by more than the tolerance", "")
    output = mismatch.facts.get("output", "")
    evidence = [Evidence("statistic", f"output {output}: {shown}")]
    seen = next(_list_relations(mismatch.outputs), None)
    if seen is None:
        sides = [
            describe_logged_side(n, "undecided", [*evidence, Evidence("statistic", RECORD)]) for n in mismatch.names
        ]
        summary = f"Output {output}: {shown}. Which side is right cannot be told without operands."
        return describe_mismatch(mismatch, "undecided", summary, sides, "not in the file")
    names = mismatch.names
    counted = seen.evidence.format(other=names[1 - seen.side])
    evidence.append(Evidence("statistic", counted))
    sides = [
        describe_logged_side(
            name,
            "undecided",
            [*evidence, Evidence("statistic", RECORD)],
            says=seen.says.format(other=names[1 - seen.side]) if i == seen.side else None,
            cause=seen.cause if i == seen.side else None,
        )
        for i, name in enumerate(names)
    ]
    says = seen.says.format(other=names[1 - seen.side])
    summary = f"Output {output}: {names[seen.side]} {says} ({counted}). Which is right, operands would tell."
    return describe_mismatch(mismatch, "undecided", summary, sides, "not in the file", seen.cause)


def _list_relations(outputs: tuple[Floats, Floats]) -> Iterator[_Seen]:
    """Every relation that holds, the most telling first."""
    for find in (_find_not_finite, _find_rounded, _find_cut, _find_grid, _find_factor):
        for side in (0, 1):
            found = find(outputs[side], outputs[1 - side])
            if found:
                says, cause, evidence = found
                yield _Seen(side, says, cause, evidence)


_Found = tuple[str, CauseCode | None, str] | None


def _find_not_finite(own: Floats, other: Floats) -> _Found:
    """NaN or infinities where the other side has numbers."""
    odd = ~np.isfinite(own) & np.isfinite(other)
    if not odd.any():
        return None
    least = float(np.abs(other[odd]).min())
    overflows = np.isinf(own[odd]).all() and least > float(find_format("float16").largest)
    cause = CauseCode.OVERFLOW if overflows else None
    what = f"{int(odd.sum()):,} of {own.size:,} values"
    if overflows:
        return "is infinite beyond the range of float16", cause, f"{what}, the least of them {least:.6g} in {{other}}"
    return "is NaN or infinite where {other} has numbers", cause, what


def _find_rounded(own: Floats, other: Floats) -> _Found:
    """Every number is the other's, rounded to a narrower format."""
    told = np.isfinite(own) & np.isfinite(other)
    for name in _NARROW:
        rounded = round_array_to_format(other[told], find_format(name))
        changed = int((rounded != other[told]).sum())
        if changed >= thresholds.FEWEST_TELLING and np.array_equal(rounded, own[told]):
            return f"has {{other}}'s values, rounded to {name}", CauseCode.RESULT_ROUNDING, f"all {own.size:,} values"
    return None


def _find_cut(own: Floats, other: Floats) -> _Found:
    """Every number is the other's, cut off at a least or a largest value."""
    told = np.isfinite(own) & np.isfinite(other)
    a, b = own[told], other[told]
    if not a.size or a.min() == a.max():
        return None
    low, high = float(a.min()), float(a.max())
    below, above = int((b < low).sum()), int((b > high).sum())
    # One value alone may be the least of any results.
    if below + above < thresholds.FEWEST_TELLING or not np.array_equal(a, np.clip(b, low, high)):
        return None
    bounds = [f"at least {low:g}"] * bool(below) + [f"at most {high:g}"] * bool(above)
    return f"is {' and '.join(bounds)}, {{other}} is not, and else the same", None, f"{below + above:,} values are cut"


def _find_grid(own: Floats, other: Floats) -> _Found:
    """All numbers are numbers of a narrower format, and the other side's are not."""
    told = np.isfinite(own) & np.isfinite(other)
    for name in _NARROW:
        on = own[told] == round_array_to_format(own[told], find_format(name))
        off = int((other[told] != round_array_to_format(other[told], find_format(name))).sum())
        if on.all() and off >= thresholds.FEWEST_TELLING:
            evidence = f"all {int(told.sum()):,} values are numbers of {name}; {off:,} of {{other}}'s are not"
            return f"stores its results in {name}, and differs by more than that", CauseCode.RESULT_ROUNDING, evidence
    return None


def _find_factor(own: Floats, other: Floats) -> _Found:
    """One factor between all numbers, to within what float32 rounds."""
    told = np.isfinite(own) & np.isfinite(other) & (own != 0) & (other != 0)
    if told.sum() < thresholds.FEWEST_TELLING:
        return None
    ratios = own[told] / other[told]
    factor = float(np.median(ratios))
    room = 4 * float(find_format("float32").unit_roundoff)
    if abs(factor - 1) <= room or not math.isfinite(factor) or (np.abs(ratios / factor - 1) > room).any():
        return None
    return f"is {factor:.7g} times {{other}}", None, f"all {int(told.sum()):,} values that are not zero"
