"""Results that are whole steps: of eight bits, each channel its own, or of fixed point and decimals with many codes.

A sum of float32 numbers leaves multiples of a power of two by itself, at most twice the unit roundoff of its sum of
magnitudes; decimals and longer steps are left by nothing but storing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
# Outputs that the truth does not have on the grid; with each the chance that none is off it at least halves.
FEWEST_TELLING = 20
# Codes of 8 bits. That so many values of 24 bits are all multiples of a step is no accident.
_MOST_CODES, _FEWEST_VALUES = 256, 8
_MOST_DIVISOR = 6
# Steps of many codes: decimals and binary places that are tried, and by how much a step is longer than what tells it.
_DECIMALS, _PLACES = range(1, 9), range(25)
_TELLS_APART, _CHANCE_BITS, _LEAST_COUNTED = 2.0**-6, 60.0, 0.5
# Of the unit roundoff times the largest sum of magnitudes, of which twice is what any order leaves multiples of.
_LONGER = 8.0


def find_steps(
    given: Floats, true: Floats, tells: npt.NDArray[np.bool_], natural: Floats
) -> tuple[str, Floats, npt.NDArray[np.bool_]] | None:
    """In words, the step of every row, and which rows have one, for values [rows, positions]: one for all, or each.

    `natural` is the step that sums have anyway.
    """
    step = _find_step(given[tells], true[tells], natural[tells])
    rows = np.ones(len(given), bool)
    if step is not None:
        return f"stores its result in whole steps of {step:.4g}", np.full(len(given), step), rows
    each = [_find_step(given[r][tells[r]], true[r][tells[r]], natural[r][tells[r]]) for r in range(len(given))]
    known = [s for s in each if s is not None]
    if len(known) < max(len(each) // 2, 1):
        return None
    rows = np.array([s is not None for s in each])
    says = f"stores its result in whole steps, of another size in each channel ({min(known):.4g} to {max(known):.4g})"
    return says, np.array([s if s is not None else 1.0 for s in each]), rows


def _find_step(given: Floats, true: Floats, natural: Floats) -> float | None:
    """The step that all values are multiples of; None where there is none, or the truth or any sums have it too."""
    for step in _list_common_steps(np.unique(given)):
        if step <= np.max(natural, where=np.isfinite(natural), initial=0.0):
            return None
        off = np.abs(true / step - np.rint(true / step)) > 2.0**-5
        if off.sum() >= FEWEST_TELLING:
            return step
    return None


def find_common_step(values: Floats) -> float | None:
    """The longest step that all of some values are multiples of, the largest at most 256 of them."""
    return next(_list_common_steps(np.unique(values)), None)


def _list_common_steps(values: Floats) -> Iterator[float]:
    """Steps that all of several values, which are all different, are multiples of; the longest first."""
    if len(values) < _FEWEST_VALUES:
        return
    size = np.abs(values)
    # The smallest difference, and the smallest value, are whole steps; close values differ by rounding alone.
    apart = np.diff(values)
    apart = apart[apart > 1e-5 * size.max()]
    if len(apart) == 0:
        return
    least = min(float(apart.min()), float(size[size > 0].min()))
    for divisor in range(1, _MOST_DIVISOR + 1):
        step = least / divisor
        codes = np.rint(values / step)
        if not codes.any() or np.abs(codes).max() > _MOST_CODES:
            continue
        step = float((values * codes).sum() / (codes * codes).sum())
        if (np.abs(values - codes * step) <= 2.0**-22 * size).all():
            yield step


def find_long_steps(
    given: Floats, true: Floats, tells: npt.NDArray[np.bool_], unit: float, magnitudes: Floats
) -> tuple[str, float] | None:
    """The step of decimals or binary places that all values are multiples of: in words, and as a number.

    `unit` is the unit roundoff of the result's format.
    """
    values = given[tells]
    if not len(values):
        return None
    natural = _LONGER * unit * float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))
    for says, step in _list_long_steps():
        if says.startswith("in") and step <= natural:
            continue
        noise = 2 * unit * np.abs(values) / step
        counted = noise <= _TELLS_APART
        if counted.mean() < _LEAST_COUNTED:
            continue
        codes = values[counted] / step
        if (np.abs(codes - np.rint(codes)) > noise[counted]).any():
            continue
        different = np.unique(values[counted])
        bits = np.log2(step / (4 * unit * np.abs(different) + 2.0**-40 * step)).clip(0, 20).sum()
        true_codes = true[tells][counted] / step
        off = np.abs(true_codes - np.rint(true_codes)) > 2.0**-5
        if bits >= _CHANCE_BITS and off.sum() >= FEWEST_TELLING:
            return f"stores its result {says}", step
    return None


def _list_long_steps() -> Iterator[tuple[str, float]]:
    """Decimals and binary places, the longest first: whole quarters are whole hundredths, too."""
    steps = [(f"with {count} decimal{'s' if count > 1 else ''}", 10.0**-count) for count in _DECIMALS]
    steps += [(f"in fixed point with {count} fractional bits", 2.0**-count) for count in _PLACES]
    return iter(sorted(steps, key=lambda pair: -pair[1]))
