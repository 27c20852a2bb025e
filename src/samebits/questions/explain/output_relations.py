"""Two whole outputs without their operands: what their numbers alone show of how one differs from the other.

Whether every number of one is the other's rounded, cut off at zero or at a bound, or one factor of it, is seen by
counting; a coincidence over so many numbers is not to be feared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import find_factor
from samebits.numbers.array import measure_spacing, round_array_to_format
from samebits.numbers.format import Format, find_format

Floats = npt.NDArray[np.float64]
# The usual ones first; the last for results in float64.
_NARROW = ("float16", "bfloat16", "tf32", "float32")
# Codes of 16 bits have so many levels. A multiple of a step is rounded once, as is the largest, which tells the step;
# the third covers the product of both.
_MOST_LEVELS, _LEVEL_ROUNDINGS = 2**16, 3
# Binades in which a format's last bit is set: multiples of one step have it in one.
_FEWEST_SIZES = 3


@dataclass(frozen=True)
class Relation:
    """What holds for every number: which side deviates from the other by it, and how.

    `says` and `counted` have the place `{other}` for the other side's name.
    """

    side: int
    says: str
    cause: CauseCode | None
    counted: str


def find_relation(outputs: tuple[Floats, Floats]) -> Relation | None:
    """The most telling relation that holds between two flat outputs of equal length; None where none does."""
    return next(_list_relations(outputs), None)


def _list_relations(outputs: tuple[Floats, Floats]) -> Iterator[Relation]:
    """Every relation that holds, the most telling first."""
    for find in (_find_not_finite, _find_rounded, _find_cut, _find_levels, _find_grid, _find_factor):
        for side in (0, 1):
            found = find(outputs[side], outputs[1 - side])
            if found:
                says, cause, evidence = found
                yield Relation(side, says, cause, evidence)


_Found = tuple[str, CauseCode | None, str] | None


def _find_not_finite(own: Floats, other: Floats) -> _Found:
    """NaN or infinities where the other side has numbers."""
    odd = ~np.isfinite(own) & np.isfinite(other)
    if not odd.any():
        return None
    what = f"{int(odd.sum()):,} of {own.size:,} values"
    largest = float(find_format("float16").largest)
    finite = own[np.isfinite(own)]
    # Nothing that is finite is larger, and everything larger is infinite.
    overflows = np.isinf(own[odd]).all() and (np.abs(other[odd]) > largest).all() and (np.abs(finite) <= largest).all()
    if overflows:
        least = float(np.abs(other[odd]).min())
        says = f"{what}, the least of them {least:.6g} in {{other}}"
        return "is infinite beyond the range of float16", CauseCode.OVERFLOW, says
    return "is NaN or infinite where {other} has numbers", None, what


def _find_rounded(own: Floats, other: Floats) -> _Found:
    """Every number is the other's, rounded to a narrower format."""
    told = np.isfinite(other)
    if not np.array_equal(told, np.isfinite(own)):
        return None
    for name in _NARROW:
        rounded = round_array_to_format(other[told], find_format(name))
        changed = int((rounded != other[told]).sum())
        if changed >= thresholds.FEWEST_TELLING and np.array_equal(rounded, own[told]):
            says = f"all {int(told.sum()):,} finite values, of which rounding changes {changed:,}"
            return f"has {{other}}'s values, rounded to {name}", CauseCode.RESULT_ROUNDING, says
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


def _find_levels(own: Floats, other: Floats) -> _Found:
    """All numbers are multiples of one step, as whole numbers and dequantised codes are; the other side's are not."""
    own, other = own[np.isfinite(own)], other[np.isfinite(other)]
    step = _find_step(own)
    if step is None:
        return None
    off = int((~_are_multiples(other, step)).sum())
    if off < thresholds.FEWEST_TELLING:
        return None
    what = "whole numbers" if step == 1 else f"multiples of {step:.7g}"
    counted = f"all {own.size:,} finite values, {np.unique(own).size:,} different ones; {off:,} of {{other}}'s are none"
    if own.size == other.size and (np.abs(own - other) <= step / 2 * (1 + 2.0**-20)).all():
        return f"has {{other}}'s values, rounded to {what}", CauseCode.RESULT_ROUNDING, counted
    return f"holds {what} only", None, counted


def _find_step(values: Floats) -> float | None:
    """The step of which all values are multiples; None where there is none, or too few levels or too many to tell."""
    levels = np.unique(values)
    if levels.size < thresholds.FEWEST_TELLING or levels.size > _MOST_LEVELS:
        return None
    with np.errstate(over="ignore"):
        guess, largest = float(np.diff(levels).min()), float(np.abs(levels).max())
    if not largest / guess <= _MOST_LEVELS:
        return None
    # The largest value knows the step best.
    step = largest / max(round(largest / guess), 1)
    if not _are_multiples(levels, step).all():
        return None
    exact = float(f"{step:.7g}")
    return exact if _are_multiples(levels, exact).all() else step


def _are_multiples(values: Floats, step: float) -> npt.NDArray[np.bool_]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.abs(values - np.rint(values / step) * step) <= _LEVEL_ROUNDINGS * 2.0**-24 * np.abs(values)


def _find_grid(own: Floats, other: Floats) -> _Found:
    """All numbers are numbers of a narrower format, and use it; the other side's are not."""
    own, other = own[np.isfinite(own)], other[np.isfinite(other)]
    for name in _NARROW:
        format_ = find_format(name)
        off = int((other != round_array_to_format(other, format_)).sum())
        if off >= thresholds.FEWEST_TELLING and _uses(own, format_):
            evidence = f"all {own.size:,} finite values are numbers of {name}; {off:,} of {{other}}'s are not"
            return f"stores its results in {name}, and differs by more than that", CauseCode.RESULT_ROUNDING, evidence
    return None


def _uses(values: Floats, format_: Format) -> bool:
    """Whether all values are numbers of a format, and many have its last bit set, of several sizes.

    Numbers of a narrower format have not; multiples of one step, as whole numbers are, have it in one size only.
    """
    if not np.array_equal(values, round_array_to_format(values, format_)):
        return False
    own = np.unique(np.abs(values[values != 0]))
    last = np.rint(own / measure_spacing(own, format_)) % 2 == 1
    sizes = np.unique(np.frexp(own[last])[1])
    return bool(last.sum() >= thresholds.FEWEST_TELLING and sizes.size >= _FEWEST_SIZES)


def _find_factor(own: Floats, other: Floats) -> _Found:
    """One factor between all numbers."""
    factor = find_factor(own, other)
    if factor is None:
        return None
    count = int((np.isfinite(own) & np.isfinite(other) & (own != 0)).sum())
    return f"is {factor:.7g} times {{other}}", None, f"all {count:,} values that are not zero"
