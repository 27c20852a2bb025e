"""Two results of one shape whose slices along an axis say how they differ: moved, copied, scaled, or shifted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import find_factor
from samebits.questions.explain.output_relations import Relation

_MOST_NAMED = 3


def find_part_relation(first: np.ndarray, second: np.ndarray) -> Relation | None:
    """What slices along some axis show, bit for bit; None where none does, or where too few values would show it."""
    if first.shape != second.shape or first.dtype != second.dtype or first.size < thresholds.FEWEST_TELLING:
        return None
    return next(_list_relations((first, second)), None)


def _list_relations(outputs: tuple[np.ndarray, np.ndarray]) -> Iterator[Relation]:
    """The axis along which fewest slices differ goes first: a row that was copied is no matter of every column."""
    differing = outputs[0] != outputs[1]
    axes = [axis for axis in range(differing.ndim) if differing.shape[axis] > 1]

    def count(axis: int) -> int:
        return int(differing.any(axis=tuple(other for other in axes if other != axis)).sum()) if len(axes) > 1 else 0

    for axis in sorted(axes, key=count):
        slices = tuple([np.ascontiguousarray(s).tobytes() for s in np.moveaxis(a, axis, 0)] for a in outputs)
        # The second result is said in terms of the first, as a person names them.
        for side in (1, 0):
            own, other = slices[side], slices[1 - side]
            if found := _find_moved(own, other, axis):
                says, cause = found
                yield Relation(side, says, cause, f"all {outputs[0].size:,} values bit for bit")
        changed = [i for i, (a, b) in enumerate(zip(*slices, strict=True)) if a != b]
        if len(changed) == 1 and (found := _find_scaled(outputs, axis, changed[0])):
            yield found
    for axis in sorted(axes, key=lambda axis: differing.shape[axis]):
        if found := _find_shifted(outputs, axis):
            yield found


def _find_moved(own: Sequence[bytes], other: Sequence[bytes], axis: int) -> tuple[str, CauseCode | None] | None:
    """Where each slice of one side is some slice of the other: how they were moved. Equal slices tell nothing."""
    places = {content: i for i, content in enumerate(other)}
    if len(places) < len(other) or any(content not in places for content in own):
        return None
    taken, count = [places[content] for content in own], len(own)
    moved = [i for i, j in enumerate(taken) if i != j]
    if not moved:
        return None
    if len(set(taken)) < count:
        here, there = (", ".join(map(str, named[:_MOST_NAMED])) for named in (moved, [taken[i] for i in moved]))
        more = " ..." if len(moved) > _MOST_NAMED else ""
        return f"has at place {here}{more} of axis {axis} what {{other}} has at {there}{more}", None
    if len(moved) == 2:
        says = f"has {{other}}'s values with places {moved[0]} and {moved[1]} of axis {axis} exchanged"
    elif taken == list(range(count))[::-1]:
        says = f"has {{other}}'s values with axis {axis} reversed"
    elif all(j == (i + taken[0]) % count for i, j in enumerate(taken)):
        says = f"has {{other}}'s values shifted by {min(taken[0], count - taken[0])} along axis {axis}"
    else:
        says = f"has {{other}}'s slices along axis {axis} in another sequence"
    return says, CauseCode.AXIS_ORDER


def _find_shifted(outputs: tuple[np.ndarray, np.ndarray], axis: int) -> Relation | None:
    """Each slice is the other side's plus one number of its own, as a bias is added; of the rest only little is left.

    What is left may be the rounding of sums in two orders.
    """
    own, other = (np.moveaxis(np.asarray(a, np.float64), axis, 0).reshape(a.shape[axis], -1) for a in reversed(outputs))
    if own.size - len(own) < thresholds.FEWEST_TELLING or not (np.isfinite(own) & np.isfinite(other)).all():
        return None
    away = own - other
    shifts = np.median(away, 1)
    before, left = np.linalg.norm(away), np.linalg.norm(away - shifts[:, None])
    if not before or left > thresholds.LEFT_BY_A_SHIFT * before:
        return None
    # Slices whose shift is no more than what is left of any are not shifted.
    moved = np.abs(shifts) > np.abs(away - shifts[:, None]).max()
    count = int(moved.sum())
    shown = ", ".join(f"{number:.6g}" for number in shifts[moved][:_MOST_NAMED]) + " ..." * (count > _MOST_NAMED)
    if count == len(shifts) and np.ptp(shifts) <= np.abs(away - shifts[:, None]).max():
        return Relation(1, f"is {{other}} plus {shifts[0]:.6g}", None, f"all {own.size:,} values")
    says = f"is {{other}} plus a number for each place of axis {axis} ({shown}): a bias (inferred)"
    if count == 1:
        says = f"is {{other}} plus {shown} at place {np.flatnonzero(moved)[0]} of axis {axis} (inferred)"
    return Relation(1, says, None, f"{left / before:.1g} of the difference is left")


def _find_scaled(outputs: tuple[np.ndarray, np.ndarray], axis: int, place: int) -> Relation | None:
    """The only slice that differs is the other side's times one number."""
    own, other = (np.asarray(a.take(place, axis), np.float64).ravel() for a in outputs)
    for side, pair in ((1, (other, own)), (0, (own, other))):
        if factor := find_factor(*pair):
            says = f"is {factor:.7g} times {{other}} at place {place} of axis {axis}, and else the same"
            return Relation(side, says, None, f"all {own.size:,} values there")
    return None
