"""Which output uses which order, as a nested map, and its text.

A map is an order's number, or `Split(axis, parts)`: along one axis of the result (named as in
`samebits.problems.windows.name_axes`), for every run of indices how many and the map that holds there.

    0                     everywhere
    ow(0*48,1*8)          the first 48 columns, the last 8
    oh(ow(0*48,1*8)*55,1*1)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.numbers.whole_number import is_whole_number

_TOKEN = re.compile(r"[0-9]+|[a-z_]+|[(),*]")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Split:
    """Runs of indices along an axis, each with its length and the map that holds there."""

    axis: str
    parts: tuple[tuple[Places, int], ...]


Places = int | Split


def places_from_array(numbers: npt.NDArray[np.integer], axes: Sequence[str]) -> Places:
    """The map of an array over the result's axes, short where whole slices are equal."""
    numbers = np.asarray(numbers)
    flat = numbers.reshape(-1)
    if flat.size == 0 or (flat == flat[0]).all():
        return int(flat[0]) if flat.size else 0
    if len(numbers) == 1:
        return places_from_array(numbers[0], axes[1:])
    rows = numbers.reshape(len(numbers), -1)
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    if not len(changes):
        return places_from_array(numbers[0], axes[1:])
    starts = [0, *changes.tolist(), len(numbers)]
    parts = [(places_from_array(numbers[a], axes[1:]), b - a) for a, b in itertools.pairwise(starts)]
    return Split(axes[0], tuple(parts))


def array_from_places(places: Places, axes: Sequence[str], shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """The order's number of every output, in the result's shape. Raises RecipeError where the map does not fit."""
    numbers = np.zeros(tuple(shape), np.int64)
    _fill(places, numbers, list(axes), 0)
    return numbers


def _fill(places: Places, numbers: np.ndarray, axes: list[str], dimension: int) -> None:
    if isinstance(places, int):
        numbers[...] = places
        return
    if places.axis not in axes[dimension:]:
        raise RecipeError(
            f"where= splits {places.axis!r}; it may split {', '.join(axes[dimension:]) or 'nothing more'}"
        )
    at = axes.index(places.axis)
    if sum(n for _, n in places.parts) != numbers.shape[at]:
        raise RecipeError(
            f"where= covers {sum(n for _, n in places.parts)} of the {numbers.shape[at]} of {places.axis}"
        )
    start = 0
    for part, count in places.parts:
        index = [slice(None)] * numbers.ndim
        index[at] = slice(start, start + count)
        _fill(part, numbers[tuple(index)], axes, at + 1)
        start += count


def format_places(places: Places) -> str:
    """The map's text."""
    if isinstance(places, int):
        return str(places)
    return f"{places.axis}({','.join(f'{format_places(p)}*{n}' for p, n in places.parts)})"


def parse_places(text: str) -> Places:
    """The map of a text; raises RecipeError."""
    tokens = _TOKEN.findall(text)
    if not tokens or "".join(tokens) != text:
        raise RecipeError(f"where= takes a map such as ow(0*48,1*8), not {text[:80]!r}")
    tokens.reverse()
    places = _parse(tokens, 0)
    if tokens:
        raise RecipeError(f"where= goes on after its end: {''.join(tokens[:-81:-1])[:80]!r}")
    return places


def _parse(tokens: list[str], depth: int) -> Places:
    """One map off the end of `tokens`, which stand the other way round, as a list gives only its last one cheaply."""
    if not tokens or depth > _DEEPEST:
        raise RecipeError("where= ends too early or has too many brackets inside each other")
    axis = tokens.pop()
    if is_whole_number(axis[:1]):
        return _number(axis)
    parts: list[tuple[Places, int]] = []
    separator = "("
    while True:
        if not tokens or tokens.pop() != separator:
            raise RecipeError(f"where={axis[:40]}: expected {separator!r}")
        part = _parse(tokens, depth + 1)
        if len(tokens) < 3 or tokens.pop() != "*" or not is_whole_number(tokens[-1][:1]):
            raise RecipeError(f"where={axis[:40]}: every part needs its length, as in 0*48")
        parts.append((part, _number(tokens.pop())))
        if tokens[-1] == ")":
            tokens.pop()
            return Split(axis, tuple(parts))
        separator = ","


def _number(token: str) -> int:
    if not is_whole_number(token, 12):
        raise RecipeError(f"where=: {token[:20]}... is too large")
    return int(token)
