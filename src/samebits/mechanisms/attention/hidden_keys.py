"""Hypotheses: other keys are hidden than declared. Causal masks and windows elsewhere; masks lost, turned or finite."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.mechanisms.attention.plain_attention import (
    Altered,
    Bend,
    Floats,
    Operands,
    Queries,
    apply_weights,
    find_weights,
    hide_as,
    weigh_plainly,
)
from samebits.problems.attention import Attention

_CAUSE = CauseCode.HIDDEN_KEYS
_CORNERS = {"upper_left": "upper left", "lower_right": "lower right"}
_MOST_PAIRS = 66
# What people write for minus infinity.
_FINITE = (-1e4, -1e9, 0.0, -100.0, -1e3, -50.0, -20.0, -10.0, -1.0)


def list_hidden_keys(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Other alignments of `causal`, other windows, and other readings of the mask."""
    yield from _list_causal(asked, operands)
    yield from _list_windows(asked, operands)
    if asked.mask is not None:
        yield from _list_masks(asked, operands)
    if not asked.sees_with(operands).all():
        yield from _list_finite(asked, operands)


def _list_causal(asked: Attention, operands: Operands) -> Iterator[Altered]:
    for corner in (None, "upper_left", "lower_right"):
        if corner == asked.causal or (corner and asked.causal and asked.q[2] == asked.k[2]):
            continue
        if corner is None:
            says = "hides no later keys: causal was left out"
        elif asked.causal is None:
            says = f"hides later keys, as causal does from the {_CORNERS[corner]}, which was not asked for"
        else:
            says = f"aligns its causal mask to the {_CORNERS[corner]}; asked was the {_CORNERS[asked.causal]}"
        yield Altered(says, _CAUSE, replace(asked, causal=corner), operands)
    if asked.causal is None:
        return
    mask = replace(asked, causal=None, window=None).sees_with(operands)
    ahead = asked.find_distances()
    for extra, says in ((1, "sees one key too many: j <= i + 1"), (-1, "does not see the query's own key: j < i")):
        seen = (ahead <= extra) & mask
        if asked.window is not None:
            seen &= ahead > -asked.window
        yield Altered(f"is causal but {says}", _CAUSE, *hide_as(asked, operands, seen))
    last = np.arange(asked.q[2])[:, None] == asked.q[2] - 1
    says = "is causal but for the last query, which sees every key"
    yield Altered(says, _CAUSE, *hide_as(asked, operands, (asked.sees() | last) & mask))


def _list_windows(asked: Attention, operands: Operands) -> Iterator[Altered]:
    if asked.window is None:
        return
    yield Altered("ignores the window", _CAUSE, replace(asked, window=None), operands)
    for width in (asked.window - 1, asked.window + 1):
        if width >= 1:
            says = f"has a window of {width} keys in place of {asked.window}"
            yield Altered(says, _CAUSE, replace(asked, window=width), operands)
    mask = replace(asked, causal=None, window=None).sees_with(operands)
    ahead = asked.find_distances()
    most_ahead = 0 if asked.causal else asked.window - 1
    for behind, before in itertools.product((-1, 0, 1), repeat=2):
        if asked.causal is None and behind != before:
            seen = (ahead >= 1 - asked.window - behind) & (ahead <= most_ahead + before) & mask
            sides = [f"{_more(n)} {side}" for n, side in ((behind, "before"), (before, "behind")) if n]
            says = f"has a window of {' and '.join(sides)} the query"
            yield Altered(says, _CAUSE, *hide_as(asked, operands, seen))


def _more(count: int) -> str:
    return "one key more" if count > 0 else "one key less"


def _list_masks(asked: Attention, operands: Operands) -> Iterator[Altered]:
    bare, own = _without_mask(asked, operands)
    yield Altered("ignores the mask", _CAUSE, bare, own)
    mask = np.broadcast_to(operands["mask"], asked.score_shape)
    if asked.mask == "bool":
        opened = replace(asked, mask="add")
        says = "adds the boolean mask to the scores as 0 and 1"
        yield Altered(says, _CAUSE, opened, {**own, "mask": mask.astype(np.float64)})
        says = "hides keys after the softmax, whose weights no longer add up to 1"
        yield Altered(says, _CAUSE, bare, own, _drop_after(mask))
    readings = _read_otherwise(mask) if asked.mask == "bool" else _add_otherwise(asked, mask)
    for says, other in [*readings, *_move_mask(asked, mask, operands["mask"].shape)]:
        yield Altered(says, _CAUSE, asked, {**operands, "mask": other})


def _read_otherwise(mask: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [("takes the mask for its opposite: it sees what is hidden", ~mask)]


def _add_otherwise(asked: Attention, mask: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Other numbers that are added, in float64: they are not rounded to the operands' format."""
    added = mask.astype(np.float64)
    is_shown = added > -np.inf
    found = {
        "scales what the mask adds: the mask came before the scale": asked.factor * added,
        "takes the mask for a boolean one: it hides keys and adds nothing": np.zeros_like(added),
        "adds the mask twice": 2 * added,
        "subtracts what the mask adds": -added,
    }
    return [(says, np.where(is_shown, numbers, -np.inf)) for says, numbers in found.items()]


def _move_mask(asked: Attention, mask: np.ndarray, shape: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    """The mask of another item or head, or transposed."""
    found: list[tuple[str, np.ndarray]] = []
    sizes = (1,) * (4 - len(shape)) + shape
    for axis, name in ((0, "item"), (1, "head")):
        if sizes[axis] > 1:
            found += [(f"takes the mask of the {name} before", np.roll(mask, 1, axis=axis))]
            found += [(f"takes the mask of the {name} behind", np.roll(mask, -1, axis=axis))]
            for a, b in itertools.islice(itertools.combinations(range(sizes[axis]), 2), _MOST_PAIRS):
                order = np.arange(sizes[axis])
                order[[a, b]] = b, a
                found += [(f"exchanges the masks of {name}s {a} and {b}", np.take(mask, order, axis=axis))]
            first = np.broadcast_to(np.take(mask, [0], axis=axis), mask.shape)
            found += [(f"takes the mask of the first {name} for all", first)]
    if asked.q[2] == asked.k[2]:
        found.append(("takes the mask transposed", mask.swapaxes(-1, -2)))
    return found


def _without_mask(asked: Attention, operands: Operands) -> tuple[Attention, Operands]:
    return replace(asked, mask=None), {name: array for name, array in operands.items() if name != "mask"}


def _drop_after(seen: npt.NDArray[np.bool_]) -> Bend:
    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        return apply_weights(np.where(seen[:, :, queries], find_weights(scores), 0.0), values)

    return bend


def _list_finite(asked: Attention, operands: Operands) -> Iterator[Altered]:
    """Hidden keys with a finite score, or with a finite number added, as in float16 where the mask was -1e4."""
    numbers = _FINITE if asked.softcap is None else (*_FINITE, -asked.softcap)
    for number in numbers:
        for is_added in (True, False):
            yield count_hidden(asked, operands, number, is_added=is_added)


def count_hidden(asked: Attention, operands: Operands, number: float, *, is_added: bool) -> Altered:
    """Hidden keys whose score is finite: their own plus a number, or that number."""
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    opened, given = hide_as(asked, operands, np.ones(asked.score_shape, bool))

    def bend(scores: Floats, values: Floats, queries: Queries) -> tuple[Floats, Floats]:
        counted = np.where(seen[:, :, queries], scores, scores + number if is_added else number)
        return weigh_plainly(counted, values, queries)

    what, place = ("adds", "to") if is_added else ("puts", "in place of")
    says = f"{what} {number:.6g} {place} the scores of hidden keys, so that they count"
    return Altered(says, _CAUSE, opened, given, bend)
