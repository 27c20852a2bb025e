"""A few pairs of values that a log prints in full: what their numbers show, with the chance that it means nothing.

Three or five values say little of a result, but a value of 24 bits is a number of float16 once in 2^13 times only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import find_format

Floats = npt.NDArray[np.float64]
_NARROW = ("bfloat16", "float16", "tf32")
# Digits that a decimal must have been printed with to tell a grid; relative size of what float32 rounds, few times.
_FEWEST_DIGITS_BITS, _ROOM = 24, 2.0**-21
_FEWEST_OF_ONE_FACTOR, _LEAST_FACTOR_OFF = 3, 1e-3


def say_pairs(pairs: Sequence[tuple[int, float, float]], names: tuple[str, str]) -> list[str]:
    """What the values show: NaN on one side, one side rounded, signs, one factor; nothing where they show nothing."""
    first, second = (np.array([p[i] for p in pairs], np.float64) for i in (1, 2))
    said: list[str] = []
    for own, other, name, beside in ((first, second, *names), (second, first, *names[::-1])):
        said += _say_not_finite(own, other, name, beside)
        said += _say_grid(own, other, name, beside)
    return said or _say_factor(first, second, *names)


def _say_not_finite(own: Floats, other: Floats, name: str, beside: str) -> list[str]:
    odd = int((~np.isfinite(own) & np.isfinite(other)).sum())
    return (
        [f"{name} is NaN or infinite in {odd} of {len(own)} printed values where {beside} has numbers"] if odd else []
    )


def _say_grid(own: Floats, other: Floats, name: str, beside: str) -> list[str]:
    """All values of one side are numbers of a narrow format, those of the other are of float32 and not of that."""
    told = np.isfinite(own) & np.isfinite(other) & (own != 0)
    a, b = np.unique(own[told]), other[told]
    # Values that were printed with few digits are not even those of float32.
    if not len(a) or (b.astype(np.float32).astype(np.float64) != b).any():
        return []
    for format_name in _NARROW:
        format_ = find_format(format_name)
        if (round_array_to_format(a, format_) != a).any() or (round_array_to_format(b, format_) == b).any():
            continue
        chance = 2.0 ** -(len(a) * (_FEWEST_DIGITS_BITS - format_.precision))
        if chance > thresholds.CHANCE_REPLAYED:
            continue
        rounded = np.array_equal(round_array_to_format(b, format_), own[told])
        says = f"all {int(told.sum())} printed values of {name} are numbers of {format_name}, none of {beside}'s is"
        says += f" (by chance once in {1 / chance:.0e})"
        return [
            f"{says}: they are {beside}'s, rounded" if rounded else f"{says}: it computes or stores in {format_name}"
        ]
    return []


def _say_factor(own: Floats, other: Floats, name: str, beside: str) -> list[str]:
    """One factor between all values, the sign among them."""
    told = np.isfinite(own) & np.isfinite(other) & (own != 0) & (other != 0)
    if told.sum() < _FEWEST_OF_ONE_FACTOR or len(np.unique(other[told])) < _FEWEST_OF_ONE_FACTOR:
        return []
    with np.errstate(all="ignore"):
        ratios = own[told] / other[told]
    factor = float(np.median(ratios))
    if not math.isfinite(factor) or abs(factor - 1) < _LEAST_FACTOR_OFF or (np.abs(ratios / factor - 1) > _ROOM).any():
        return []
    return [f"all {int(told.sum())} printed values of {name} are {factor:.6g} times {beside}'s"]
