"""What is scattered onto places of an array and added, multiplied or compared there.

Bounds are those of sums in any order (Higham, chapter 4): n updates of one place lose at most (n + 2) u of the sum of
their sizes. A place that no update meets keeps its bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node
from samebits.networks.values import Value, list_floats, make_plain

SCATTERS = ("ScatterElements", "ScatterND")
_WHERE = tuple[np.ndarray, ...]


def is_reducing_scatter(node: Node) -> bool:
    """Whether a node computes with what it scatters, and does not only put it there."""
    return node.operator in SCATTERS and _name_reduction(node) != "none"


def scatter(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """ScatterElements and ScatterND with a reduction."""
    data, _, updates = list_floats(inputs)
    places = make_plain(inputs[1])
    named = _name_reduction(node)
    if places is None or (node.operator == "ScatterND" and not places.shape[-1]):
        return None
    if named in ("max", "min") and (np.isnan(data.value).any() or np.isnan(updates.value).any()):
        # Nobody says which of a number and NaN is larger.
        return None
    where = _find_places(node, places.astype(np.int64), data.value.shape)
    counts = np.zeros(data.value.shape)
    np.add.at(counts, where, 1.0)
    return [_REDUCTIONS[named](a, data, updates, where, counts)]


def _name_reduction(node: Node) -> str:
    given = node.attributes.get("reduction", "none")
    return given.decode() if isinstance(given, bytes) else str(given)


def _find_places(node: Node, places: np.ndarray, shape: tuple[int, ...]) -> _WHERE:
    """For each update the index of what it meets."""
    if node.operator == "ScatterND":
        return tuple(np.moveaxis(places, -1, 0) % np.reshape(shape[: places.shape[-1]], (-1, *[1] * (places.ndim - 1))))
    axis = int(node.attributes.get("axis", 0)) % len(shape)
    own = np.indices(places.shape)
    own[axis] = places % shape[axis]
    return tuple(np.asarray(one) for one in own)


def _add(a: Arithmetic, data: Bounded, updates: Bounded, where: _WHERE, counts: Floats) -> Bounded:
    value, error, sizes = (
        _gather(np.add, getattr(data, name), getattr(updates, name), where) for name in ("value", "error", "magnitude")
    )
    own = np.where(counts > 0, (counts + 2) * a.unit * (sizes + error) + counts * a.least, 0.0)
    return Bounded(value, error + own, sizes)


def _multiply(a: Arithmetic, data: Bounded, updates: Bounded, where: _WHERE, counts: Floats) -> Bounded:
    with np.errstate(over="ignore", invalid="ignore"):
        value = _gather(np.multiply, data.value, updates.value, where)
        most = _gather(np.multiply, np.abs(data.value) + data.error, np.abs(updates.value) + updates.error, where)
        own = np.where(counts > 0, (counts + 1) * (a.unit * most + a.least), 0.0)
        return Bounded(value, most - np.abs(value) + own, np.abs(value))


def _take_extreme(
    _: Arithmetic, data: Bounded, updates: Bounded, where: _WHERE, __: Floats, *, smallest: bool
) -> Bounded:
    value = _gather(np.minimum if smallest else np.maximum, data.value, updates.value, where)
    return Bounded(value, _gather(np.maximum, data.error, updates.error, where), np.abs(value))


def _gather(operation: np.ufunc, data: Floats, updates: Floats, where: _WHERE) -> Floats:
    found = data.copy()
    operation.at(found, where, updates)
    return found


_REDUCTIONS = {
    "add": _add,
    "mul": _multiply,
    "max": lambda *given: _take_extreme(*given, smallest=False),
    "min": lambda *given: _take_extreme(*given, smallest=True),
}
