"""A few pairs of values that a log prints in full: what their numbers show, with the chance that it means nothing.

Three or five values say little of a result, but a value of 24 bits is a number of float16 once in 2^13 times only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
# Values of fewer decimal digits are taken as they are: a room of one unit of theirs would fit any factor.
_FEWEST_DECIMALS = 5


@dataclass(frozen=True)
class SeenPairs:
    """What printed pairs show: sentences, the plainest first, and the side that they are about.

    `rounds` says that this side holds numbers of a narrower format, `beyond_rounding` that no rounding explains it.
    """

    says: tuple[str, ...] = ()
    side: int = 0
    rounds: bool = False
    beyond_rounding: bool = False


def read_pairs(pairs: Sequence[tuple[int, float, float]], names: tuple[str, str], room: float = 0.0) -> SeenPairs:
    """NaN on one side, one side rounded; zeros, one bound or one factor in the values that differ, and where they lie.

    `pairs` are (flat index, value of the first side, value of the second), each as far from what was printed as `room`
    at most. Of few values only what chance would hardly give is said.
    """
    indices = np.array([p[0] for p in pairs], np.int64)
    first, second = (np.array([p[i] for p in pairs], np.float64) for i in (1, 2))
    both = ((first, second, names[0], names[1]), (second, first, names[1], names[0]))
    odd = [said for own, other, name, beside in both for said in _say_not_finite(own, other, name, beside)]
    for side, (own, other, name, beside) in enumerate(both):
        if grid := _say_grid(own, other, name, beside, room):
            return SeenPairs((*odd, *grid), side, rounds=True)
    if odd:
        return SeenPairs(tuple(odd))
    differs = _find_differing(first, second, room)
    if not differs.any():
        return SeenPairs()
    where = _say_where(indices, differs)
    own, other = first[differs], second[differs]
    values = f"all {len(own)} {'printed' if differs.all() else 'differing'} values of"
    for side, told in enumerate((_say_lost(own, other, names[1]), _say_lost(other, own, names[0]))):
        if told:
            return SeenPairs((f"{values} {names[side]} are {told}{where}",), side, beyond_rounding=True)
    if factor := _say_factor(own, other, names[1], room):
        return SeenPairs((f"{values} {names[0]} are {factor}{where}",), 0, beyond_rounding=True)
    return SeenPairs((f"printed values differ{where}",) if where else ())


def _find_differing(first: Floats, second: Floats, room: float) -> npt.NDArray[np.bool_]:
    """Which values differ by more than float32 rounds, few times, and printing takes."""
    with np.errstate(invalid="ignore"):
        return ~(np.abs(first - second) <= _ROOM * np.maximum(np.abs(first), np.abs(second)) + 2 * room)


def _say_where(indices: npt.NDArray[np.int64], differs: npt.NDArray[np.bool_]) -> str:
    """Where the differing values lie among the printed ones; nothing where all differ, or they lie anyhow."""
    if differs.all():
        return ""
    at = np.flatnonzero(differs)
    low, high = int(indices[at[0]]), int(indices[at[-1]])
    if at[-1] - at[0] + 1 != len(at):
        where = f"in {len(at)}"
    elif len(at) == 1:
        where = f"only element {low:,}"
    elif at[-1] == len(indices) - 1:
        where = f"from element {low:,} on"
    else:
        where = f"only up to element {high:,}" if at[0] == 0 else f"only elements {low:,} to {high:,}"
    return f" ({where} of the {len(indices):,} printed)"


def _say_lost(own: Floats, other: Floats, beside: str) -> str:
    """All values are zero, or one bound that the other side's are beyond."""
    if len(own) < _FEWEST_OF_ONE_FACTOR or (own != own[0]).any() or not np.isfinite(other).all():
        return ""
    bound = float(own[0])
    if bound == 0:
        return f"zero, where {beside} has numbers up to {np.abs(other).max():g}"
    if (other > bound).all() or (other < bound).all():
        return f"{bound:g}, where {beside} has {'larger' if bound < other[0] else 'smaller'} ones: cut off there"
    return ""


def _say_not_finite(own: Floats, other: Floats, name: str, beside: str) -> list[str]:
    odd = int((~np.isfinite(own) & np.isfinite(other)).sum())
    return (
        [f"{name} is NaN or infinite in {odd} of {len(own)} printed values where {beside} has numbers"] if odd else []
    )


def _say_grid(own: Floats, other: Floats, name: str, beside: str, room: float) -> list[str]:
    """All values of one side are numbers of a narrow format, those of the other are of float32 and not of that."""
    told = np.isfinite(own) & np.isfinite(other) & (own != 0)
    a, b = np.unique(own[told]), other[told]
    # Values that were printed with few digits are not even those of float32.
    if not len(a) or (np.abs(b.astype(np.float32).astype(np.float64) - b) > room).any():
        return []
    for format_name in _NARROW:
        format_ = find_format(format_name)
        off_grid = np.abs(round_array_to_format(b, format_) - b) > room
        if (np.abs(round_array_to_format(a, format_) - a) > room).any() or not off_grid.all():
            continue
        chance = 2.0 ** -(len(a) * (_FEWEST_DIGITS_BITS - format_.precision))
        if chance > thresholds.CHANCE_REPLAYED:
            continue
        rounded = (np.abs(round_array_to_format(b, format_) - own[told]) <= room).all()
        says = f"all {int(told.sum())} printed values of {name} are numbers of {format_name}, none of {beside}'s is"
        says += f" (by chance once in {1 / chance:.0e})"
        return [
            f"{says}: they are {beside}'s, rounded" if rounded else f"{says}: it computes or stores in {format_name}"
        ]
    return []


def _say_factor(own: Floats, other: Floats, beside: str, room: float) -> str:
    """One factor between all values, the sign among them; values that are zero on both sides fit any."""
    told = (own != 0) | (other != 0)
    own, other = own[told], other[told]
    if len(own) < _FEWEST_OF_ONE_FACTOR or len(np.unique(other)) < _FEWEST_OF_ONE_FACTOR:
        return ""
    with np.errstate(all="ignore"):
        ratios = own / other
    factor = float(np.median(ratios))
    if not math.isfinite(factor) or abs(factor - 1) < _LEAST_FACTOR_OFF:
        return ""
    share = _find_printed_room(own) + _find_printed_room(other)
    allowed = (_ROOM + share) * np.abs(own) + room * (1 + abs(factor))
    if not (np.abs(own - factor * other) <= allowed).all():
        return ""
    return f"{factor:.{6 if share == room == 0 else 4}g} times {beside}'s"


def _find_printed_room(values: Floats) -> float:
    """What printing with as few digits as the longest of the values has takes from each; of whole numbers nothing."""
    digits = max(len(repr(abs(float(v))).partition("e")[0].replace(".", "").strip("0")) for v in values)
    return 5 * 10.0**-digits if digits >= _FEWEST_DECIMALS else 0.0
