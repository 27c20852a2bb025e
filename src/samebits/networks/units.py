"""The network in units: what engines compute as one, so that its inputs and its output can be observed.

A product (convolution, Gemm, MatMul) and the elementwise operations that follow it make one unit, as engines fuse
these. What remains between products makes units of what hangs together. What makes a value that cannot be observed
without changing what is observed is part of every unit that reads the value.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.networks.bounded import Bounded, arithmetic_in
from samebits.networks.function_bodies import apply_any, has_body
from samebits.networks.network import Network, Node
from samebits.networks.operations import (
    ELEMENTWISE,
    MOVES,
    begins_unit,
    is_known,
    is_random,
    is_whole_product,
)
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.recurrent_operations import returns_states
from samebits.networks.values import Value, as_value
from samebits.numbers.format import FORMATS, numpy_dtype

# Larger constants (tables of weights) are taken as computed: sums with them round far more often than they did.
_MOST_BOUNDED = 2**22


@dataclass(frozen=True)
class Unit:
    """Nodes by their places, in sequence; the values that come in from outside, and those that go out."""

    name: str
    places: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...]
    # Places of the products among them.
    products: tuple[int, ...]


def divide_network(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unobserved: Iterable[str] = (),
    preferred: Iterable[str] = (),
    apart: Iterable[str] = (),
) -> list[Unit]:
    """The units of a network in the sequence they run in.

    `folded` are values that are the same whatever comes in, `unobserved` those that no unit may end with: what
    makes one of them may be in several. Where two products are added either may make a unit with the sum: the one whose
    value is in `preferred`, else the later one. A product's unit ends where it makes a value of `apart`.
    """
    owners: dict[int, int] = {}
    read = _list_read(network)
    live = [i for i in read if not all(v in folded for v in network.nodes[i].outputs if v)]
    products = [i for i in live if network.nodes[i].operator in PRODUCTS]
    first = {network.producers[v] for v in preferred if v in network.producers}
    ends = {*network.outputs, *apart}
    for place in sorted(products, key=lambda i: (i not in first, i)):
        for member in _grow_unit(network, folded, owners, place, place in first, ends):
            owners[member] = place
    _join_rest(network, folded, owners, live)
    for value in network.hidden:
        if value in network.producers:
            _join(owners, [network.producers[value], *network.consumers.get(value, ())])
    _break_cycles(network, owners)
    groups = _list_groups(network, owners)
    hidden = {v for v in unobserved if v not in network.outputs}
    if any(v in hidden for group in groups for v in group.outputs):
        groups = _join_alike(network, _reach_back(network, groups, hidden))
    return _sort([make_unit(network, folded, group.places, group.outputs) for group in groups])


def _list_read(network: Network) -> list[int]:
    """The nodes that some output depends on; others have nothing that could be seen."""
    found: set[int] = set()
    asked = [network.producers[v] for v in network.outputs if v in network.producers]
    while asked:
        place = asked.pop()
        if place not in found:
            found.add(place)
            asked += [network.producers[v] for v in network.nodes[place].inputs if v in network.producers]
    return sorted(found)


def list_addends(network: Network, units: Iterable[Unit]) -> list[str]:
    """Products' values that another product's unit adds to its own: to be preferred where engines fuse otherwise."""
    return [
        v
        for unit in units
        if unit.products
        for v in unit.inputs
        if (source := network.producers.get(v)) is not None
        and network.nodes[source].operator in PRODUCTS
        and any(network.nodes[r].operator in ("Add", "Sum") for r in network.consumers[v] if r in unit.places)
    ]


def fold_constants(network: Network) -> Mapping[str, np.ndarray]:
    """Values that depend on nothing fed: the weights, and what is computed of them, by ONNX's reference; once.

    Engines compute these too, each in its own arithmetic: what rounding may do to them is kept in `folded_bounds`.
    """
    if network.folded:
        return network.folded
    folded, bounds = dict(network.constants), network.folded_bounds
    for node in network.nodes:
        known = _read_sizes(network, node) if node.operator == "Shape" else _cast_like(network, node, folded)
        if known is not None:
            folded[node.outputs[0]] = known
            continue
        if is_random(node.operator) or not all(v in folded for v in node.inputs if v):
            continue
        try:
            results = evaluate_plainly(node, [folded[v] if v else None for v in node.inputs], network.opset)
        except NoReferenceError:  # It is not folded, but computed when the network runs.
            continue
        names = [v for v in node.outputs if v]
        found = _bound_folded(network, folded, node, results)
        if found is None and any(v in bounds for v in node.inputs):
            # Which of several values it becomes is not known.
            continue
        folded |= dict(zip(names, results, strict=True))
        for name, value in zip(names, found or (), strict=False):
            if isinstance(value, Bounded) and value.error.any():
                bounds[name] = value
    network.folded.update(folded)
    return network.folded


def _read_sizes(network: Network, node: Node) -> np.ndarray | None:
    """What a Shape is where every size is declared or follows from what is."""
    known = None if node.attributes else network.types.get(node.inputs[0])
    # Exporters declare no sizes at all where they know none.
    if known is None or not known.shape or None in known.shape:
        return None
    return np.array(known.shape, np.int64)


def _cast_like(network: Network, node: Node, folded: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """A constant cast to the type of another value, of which nothing else matters; None for any other node."""
    if node.operator != "CastLike" or node.inputs[0] not in folded or node.inputs[0] in network.folded_bounds:
        return None
    like = network.types.get(node.inputs[1]) or network.inputs.get(node.inputs[1])
    if like is None or like.dtype not in FORMATS:
        return None
    return folded[node.inputs[0]].astype(numpy_dtype(like.dtype))


def _bound_folded(
    network: Network, folded: Mapping[str, np.ndarray], node: Node, results: Sequence[np.ndarray]
) -> list[Value] | None:
    """What a foldable node makes, with its bound; nothing for what is exact, and for what nobody can bound."""
    bounds, arrays = network.folded_bounds, {v: folded[v] for v in node.inputs if v}
    formats = [FORMATS[array.dtype.name] for array in arrays.values() if array.dtype.name in FORMATS]
    is_exact = node.operator in MOVES and not any(v in bounds for v in arrays)
    if is_exact or not formats or max(array.size for array in (*arrays.values(), *results)) > _MOST_BOUNDED:
        return []
    given = [None if not v else bounds[v] if v in bounds else as_value(arrays[v]) for v in node.inputs]
    format_ = min(formats, key=lambda f: f.precision)
    try:
        return apply_any(arithmetic_in(format_), node, given, network.opset, format_.name)
    except NoReferenceError:
        return None


def _makes_whole(network: Network, node: Node) -> bool:
    """Whether a node makes whole numbers or truth values of floats: their last bit may decide."""
    if node.operator != "Cast" or not node.inputs[0]:
        return False
    known, made = network.types.get(node.inputs[0]), network.types.get(node.outputs[0])
    return known is not None and made is not None and known.dtype in FORMATS and made.dtype not in FORMATS


def _grow_unit(
    network: Network,
    folded: Mapping[str, np.ndarray],
    owners: Mapping[int, int],
    place: int,
    may_wait: bool,
    ends: Container[str],
) -> list[int]:
    """A product with the elementwise nodes behind it, up to the last place where one value alone goes on.

    With `may_wait` it may add what a later node makes, as long as that does not depend on it. It goes no further than
    a value of `ends`.
    """
    members, inside = [place], {v for v in network.nodes[place].outputs if v}
    kept = [place]
    while True:
        readers = sorted({r for v in inside for r in network.consumers.get(v, ()) if r not in members})
        if not readers or any(r in owners or network.nodes[r].operator not in ELEMENTWISE for r in readers):
            return kept
        if any(v in ends for v in inside):
            return kept
        reader = readers[0]
        node = network.nodes[reader]
        others = [v for v in node.inputs if v and v not in inside and v not in folded]
        # A tensor from elsewhere is added by what engines fuse, not multiplied; it must be there before.
        if others and (node.operator not in ("Add", "Sum") or len(others) > 1):
            return kept
        if others and not may_wait and network.producers.get(others[0], -1) > place:
            return kept
        if others and _depends(network, others[0], place):
            return kept
        members.append(reader)
        inside = {
            v
            for m in members
            for v in network.nodes[m].outputs
            if v and (v in network.outputs or any(r not in members for r in network.consumers.get(v, ())))
        }
        if len(inside) == 1:
            kept = list(members)


def _depends(network: Network, value: str, place: int) -> bool:
    """Whether a value depends on what the node at `place` makes."""
    asked, seen = [value], {value}
    while asked:
        source = network.producers.get(asked.pop(), -1)
        if source == place:
            return True
        # What stands before the node cannot depend on it.
        if source > place:
            new = [v for v in network.nodes[source].inputs if v and v not in seen]
            asked += new
            seen.update(new)
    return False


def _join_rest(network: Network, folded: Mapping[str, np.ndarray], owners: dict[int, int], live: list[int]) -> None:
    """Groups what lies between products: connected nodes with the same number of products before them.

    An operator that nobody can bound stays alone, so that it spreads no doubt; one that decides begins a unit, and one
    that goes on from its own results ends one, as each step is judged by what it returned of the step before.
    """
    level: dict[str, int] = {}
    for place in live:
        node = network.nodes[place]
        depth = max((level.get(v, 0) for v in node.inputs if v), default=0)
        own = network.nodes[owners[place]].operator in PRODUCTS if place in owners else is_whole_product(node)
        begins = begins_unit(node) or _makes_whole(network, node)
        for value in node.outputs:
            level[value] = depth + (1 if own or begins else 0)
        if place in owners:
            continue
        owners[place] = place
        if begins or not _is_known(node, network.opset):
            continue
        for value in node.inputs:
            source = network.producers.get(value)
            if source is None or value in folded or source not in owners or value in network.ends:
                continue
            if not _is_known(network.nodes[source], network.opset) or returns_states(network.nodes[source]):
                continue
            if network.nodes[owners[source]].operator not in PRODUCTS and level[value] == depth:
                _join(owners, [source, place])


def _is_known(node: Node, opset: int) -> bool:
    return is_known(node, opset) or has_body(node, opset)


def _join(owners: dict[int, int], places: list[int]) -> None:
    """Joins all units that these nodes belong to; the joint unit is named by its product, if there is one."""
    joined = {owners[p] for p in places if p in owners}
    if len(joined) < 2:
        return
    first = min(joined)
    for place, owner in owners.items():
        if owner in joined:
            owners[place] = first


def _break_cycles(network: Network, owners: dict[int, int]) -> None:
    """Joins units that wait for each other."""
    while True:
        after: dict[int, set[int]] = {owner: set() for owner in owners.values()}
        for place, owner in owners.items():
            for value in network.nodes[place].inputs:
                source = network.producers.get(value)
                if source in owners and owners[source] != owner:
                    after[owner].add(owners[source])
        cycle = _find_cycle(after)
        if not cycle:
            return
        _join(owners, cycle)


def _find_cycle(after: Mapping[int, set[int]]) -> list[int]:
    """The units on cycles: those left when units without predecessors, then without successors, are taken away."""
    left = {owner: set(before) for owner, before in after.items()}
    while free := [owner for owner, before in left.items() if not before]:
        for owner in free:
            del left[owner]
        for before in left.values():
            before.difference_update(free)
    while ends := [owner for owner in left if not any(owner in before for before in left.values())]:
        for owner in ends:
            del left[owner]
    return sorted(left)


@dataclass(frozen=True)
class _Group:
    """Nodes by their places, and what of what they make is read outside."""

    places: frozenset[int]
    outputs: frozenset[str]


def _list_groups(network: Network, owners: Mapping[int, int]) -> list[_Group]:
    members: dict[int, set[int]] = {}
    for place, owner in owners.items():
        members.setdefault(owner, set()).add(place)
    return [
        _Group(
            frozenset(places),
            frozenset(
                v
                for p in places
                for v in network.nodes[p].outputs
                if v
                and (v in network.outputs or any(r in owners and r not in places for r in network.consumers.get(v, ())))
            ),
        )
        for places in members.values()
    ]


def _reach_back(network: Network, groups: Iterable[_Group], hidden: set[str]) -> list[_Group]:
    """The groups without hidden outputs, each with all that it takes to make the others from what can be observed."""
    groups = list(groups)
    live = {p for group in groups for p in group.places}
    shown = {v for group in groups for v in group.outputs} - hidden
    found: list[_Group] = []
    for group in groups:
        if not (outputs := group.outputs - hidden):
            continue
        asked, places = [network.producers[v] for v in outputs], set[int]()
        while asked:
            place = asked.pop()
            if place in places:
                continue
            places.add(place)
            makers = {v: network.producers[v] for v in network.nodes[place].inputs if v in network.producers}
            asked += [p for v, p in makers.items() if p in live and (p in group.places or v not in shown)]
        found.append(_Group(frozenset(places), outputs))
    return found


def _join_alike(network: Network, groups: list[_Group]) -> list[_Group]:
    """Joins groups that have most of their nodes in common, where nothing between them stands in the way."""
    while True:
        common = Counter(pair for shared in _list_sharing(groups) for pair in itertools.combinations(shared, 2))
        alike = [(i, j) for (i, j), n in common.items() if 2 * n > max(len(groups[i].places), len(groups[j].places))]
        after = _list_after(network, groups) if alike else []
        pair = next((p for p in alike if not _is_between(after, *p) and not _is_between(after, *p[::-1])), None)
        if pair is None:
            return groups
        i, j = pair
        joined = _Group(groups[i].places | groups[j].places, groups[i].outputs | groups[j].outputs)
        groups = [joined, *(g for k, g in enumerate(groups) if k not in pair)]


def _list_sharing(groups: Sequence[_Group]) -> Iterable[list[int]]:
    """The groups that every node is in."""
    found: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        for place in group.places:
            found.setdefault(place, []).append(i)
    return found.values()


def _list_after(network: Network, groups: Sequence[_Group]) -> list[tuple[set[int], int]]:
    """Of each group, those that read what it makes, and as bits those that depend on it."""
    makers = {v: i for i, group in enumerate(groups) for v in group.outputs}
    readers: list[set[int]] = [set() for _ in groups]
    for i, group in enumerate(groups):
        made = {v for p in group.places for v in network.nodes[p].outputs}
        for value in {v for p in group.places for v in network.nodes[p].inputs} - made:
            if value in makers:
                readers[makers[value]].add(i)
    reached: dict[int, int] = {}
    for start in range(len(groups)):
        stack = [start]
        while stack:
            i = stack[-1]
            waiting = [r for r in readers[i] if r not in reached]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            bits = 0
            for r in readers[i]:
                bits |= reached[r] | 1 << r
            reached[i] = bits
    return [(readers[i], reached[i]) for i in range(len(groups))]


def _is_between(after: Sequence[tuple[set[int], int]], first: int, last: int) -> bool:
    """Whether some other group depends on the first one and is needed by the last one."""
    return any(after[r][1] >> last & 1 for r in after[first][0] if r != last)


def make_unit(network: Network, folded: Container[str], members: Iterable[int], outputs: Iterable[str]) -> Unit:
    """The unit of nodes at these places that shows these values."""
    places = tuple(sorted(members))
    nodes = [network.nodes[p] for p in places]
    made = {v for node in nodes for v in node.outputs if v}
    inputs = dict.fromkeys(v for node in nodes for v in node.inputs if v and v not in made and v not in folded)
    products = tuple(p for p in places if network.nodes[p].operator in PRODUCTS)
    named = network.nodes[products[0]] if products else nodes[0]
    return Unit(named.name, places, tuple(inputs), tuple(sorted(outputs)), tuple(n.operator for n in nodes), products)


def _sort(units: list[Unit]) -> list[Unit]:
    """In a sequence in which every unit stands behind those it reads from, else as their last nodes stand."""
    made = {value: i for i, unit in enumerate(units) for value in unit.outputs}
    waits = {i: {made[v] for v in unit.inputs if v in made} for i, unit in enumerate(units)}
    return [units[i] for i in _sequence(units, waits)]


def _sequence(units: Sequence[Unit], waits: dict[int, set[int]]) -> Iterator[int]:
    """Places of units, each behind those it waits for; those that wait for each other as their last nodes stand."""
    waiting = {i: len(before) for i, before in waits.items()}
    after: dict[int, list[int]] = {}
    for i, before in waits.items():
        for other in before:
            after.setdefault(other, []).append(i)
    # Of two units that end with the same node, the longer one begins earlier.
    keys = [(unit.places[-1], -len(unit.places)) for unit in units]
    ready = [(keys[i], i) for i, count in waiting.items() if not count]
    heapq.heapify(ready)
    while waiting:
        if not ready:
            ready = [min((keys[i], i) for i in waiting)]
        _, i = heapq.heappop(ready)
        if waiting.pop(i, None) is None:
            continue
        yield i
        for other in after.get(i, ()):
            if other in waiting:
                waiting[other] -= 1
                if not waiting[other]:
                    heapq.heappush(ready, (keys[other], other))


@dataclass(frozen=True)
class SharedUnit:
    """A unit, and the sides of which it is one."""

    unit: Unit
    sides: tuple[str, ...]


def merge_divisions(network: Network, divisions: Mapping[str, Sequence[Unit]]) -> list[SharedUnit]:
    """The units of all sides in one sequence, which follows each side's own; equal ones are one.

    Every unit has a name of its own: one that begins where another does says how far it goes.
    """
    sides: dict[tuple[int, ...], list[str]] = {}
    for side, division in divisions.items():
        for unit in division:
            sides.setdefault(unit.places, []).append(side)
    by_places = {unit.places: unit for division in divisions.values() for unit in division}
    units = [by_places[places] for places in sides]
    number = {places: i for i, places in enumerate(sides)}
    waits: dict[int, set[int]] = {i: set() for i in range(len(units))}
    for division in divisions.values():
        made = {value: number[unit.places] for unit in division for value in unit.outputs}
        for unit in division:
            waits[number[unit.places]] |= {made[v] for v in unit.inputs if v in made}
    shortest: dict[str, int] = {}
    for unit in units:
        shortest[unit.name] = min(len(unit.places), shortest.get(unit.name, len(unit.places)))
    found: list[SharedUnit] = []
    names: Counter[str] = Counter()
    for unit in (units[i] for i in _sequence(units, waits)):
        name = unit.name
        if len(unit.places) > shortest[name]:
            name = f"{network.nodes[unit.places[0]].name} to {network.nodes[unit.places[-1]].name}"
        names[name] += 1
        name = name if names[name] == 1 else f"{name} #{names[name]}"
        found.append(SharedUnit(replace(unit, name=name), tuple(sides[unit.places])))
    return found
