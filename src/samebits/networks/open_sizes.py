"""Sizes that a network leaves open: given by name or by input, decided by its graph, or 1 for a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from samebits.errors import ModelError
from samebits.networks.network import Network, Node, ValueType
from samebits.networks.value_types import read_type, strip_constants
from samebits.networks.written_out import stand_in

# Sizes that networks are built for. Where the graph takes two of PROBES, which no network is built for, it takes any.
_CANDIDATES = (2, 3, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 416, 512, 640)
_PROBES = (37, 90)
_MOST_SIZE = 2**31


@dataclass(frozen=True)
class OpenSize:
    """One size of an input that is open: its axis, and the name that the model gives it, if it does."""

    input: str
    axis: int
    name: str


def list_open_sizes(network: Network) -> list[OpenSize]:
    """The open sizes of a network's inputs, in sequence."""
    names = {
        value.name: [d.dim_param for d in value.type.tensor_type.shape.dim] for value in network.stored.graph.input
    }
    return [
        OpenSize(name, axis, (names.get(name) or [""] * len(type_.shape))[axis])
        for name, type_ in network.inputs.items()
        for axis, size in enumerate(type_.shape)
        if size is None
    ]


def settle_shapes(network: Network, sizes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, tuple[int, ...]]:
    """The shape of each input: `sizes` has whole shapes by input, and single sizes by the model's name for them.

    The first axis of an input is 1 if nothing is said of it. Any other size is what the graph decides; raises
    ModelError, with what is open and how to give it, where it decides nothing, and for sizes that do not fit.
    """
    known = _read_sizes(network, sizes or {})
    for one in list_open_sizes(network):
        if one.axis == 0:
            known.setdefault((one.input, 0), 1)
            for same in _find_named(network, one.name) if one.name else ():
                known.setdefault((same.input, same.axis), known[one.input, 0])
    left = [one for one in list_open_sizes(network) if (one.input, one.axis) not in known]
    if left:
        decided = _find_decided(network, known, left)
        if decided is None:
            raise ModelError(_ask_for(network, left))
        known |= {(one.input, one.axis): decided for one in left}
    return {
        name: tuple(known[name, i] if size is None else size for i, size in enumerate(type_.shape))
        for name, type_ in network.inputs.items()
    }


def _find_named(network: Network, name: str) -> list[OpenSize]:
    return [one for one in list_open_sizes(network) if one.name == name]


def _read_sizes(network: Network, sizes: Mapping[str, tuple[int, ...]]) -> dict[tuple[str, int], int]:
    known: dict[tuple[str, int], int] = {}
    for name, given in sizes.items():
        if any(not 0 <= size < _MOST_SIZE for size in given):
            raise ModelError(f"--size {name[:60]}: sizes are whole numbers from 0 on, below 2^31")
        if name in network.inputs:
            type_ = network.inputs[name]
            fits = len(given) == len(type_.shape) and all(
                own in (None, size) for own, size in zip(type_.shape, given, strict=True)
            )
            if not fits:
                raise ModelError(f"--size {name[:60]}={'x'.join(map(str, given))}: the model takes {_show(type_)}")
            known |= {(name, axis): size for axis, size in enumerate(given)}
            continue
        named = _find_named(network, name)
        if not named or len(given) != 1:
            choices = [*network.inputs, *dict.fromkeys(o.name for o in list_open_sizes(network) if o.name)]
            raise ModelError(f"--size {name[:60]!r}: the model has {', '.join(choices)}")
        known |= {(one.input, one.axis): given[0] for one in named}
    return known


def _find_decided(network: Network, known: Mapping[tuple[str, int], int], left: list[OpenSize]) -> int | None:
    """The one size of those that networks are built for at which the graph's shapes fit; None for none or several."""
    if any(_fits(network, known, left, size) for size in _PROBES):
        return None
    fitting = [size for size in _CANDIDATES if _fits(network, known, left, size)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(network: Network, known: Mapping[tuple[str, int], int], left: list[OpenSize], size: int) -> bool:
    import onnx

    model = strip_constants(stand_in(network.plain, network.opset))
    del model.graph.value_info[:]
    chosen = {**known, **{(one.input, one.axis): size for one in left}}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, axis) in chosen:
                dim.dim_value = chosen[value.name, axis]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception:  # It raises anything.
        return False
    types = {value.name: read_type(value) for value in (*inferred.graph.value_info, *inferred.graph.input)}
    return all(_can_reshape(network, node, types) for node in network.nodes if node.operator == "Reshape")


def _can_reshape(network: Network, node: Node, types: Mapping[str, ValueType]) -> bool:
    """Whether a Reshape to constant sizes has as many elements as these; True where that is not known."""
    wanted, given = network.constants.get(node.inputs[1]), types.get(node.inputs[0])
    if wanted is None or given is None or None in given.shape or 0 in wanted:
        return True
    count, needed = math.prod(size or 0 for size in given.shape), math.prod(int(size) for size in wanted if size > 0)
    return count % max(needed, 1) == 0 if -1 in wanted else count == needed


def _ask_for(network: Network, left: list[OpenSize]) -> str:
    said = ", ".join(
        f"{one.input[:40]} axis {one.axis}" + (f" ({one.name[:40]})" if one.name else "") for one in left[:6]
    )
    shapes = {one.input: _show(network.inputs[one.input]).replace("?", "N") for one in left}
    given = {name: f"1{shape[1:]}" if shape.startswith("N") else shape for name, shape in shapes.items()}
    how = " ".join(f"--size {name}={shape}" for name, shape in given.items())
    return f"{network.name}: sizes are open: {said}; give them: {how} (or --inputs)"


def _show(type_: ValueType) -> str:
    return "x".join("?" if size is None else str(size) for size in type_.shape)
