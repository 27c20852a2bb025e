"""What a converter made of a whole file, a half format or codes: one headline in place of many nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.networks.folded_weights import FOLDING_ROUNDINGS, Folded, find_norm, scale_weights
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.quantising_operations import WHOLE_PRODUCTS
from samebits.networks.unit_reference import HALVES
from samebits.networks.units import fold_constants
from samebits.numbers.format import FORMATS, find_format

_PACKED = "MatMulNBits"
_DYNAMIC = "DynamicQuantizeLinear"
_STORES, _READS = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True)
class Conversion:
    """What one file does that the other does not, as a sentence without its subject, and the cause that it is."""

    cause: CauseCode
    says: str


def find_conversion(first: Network, second: Network) -> Conversion | None:
    """How the second file was converted as a whole; None where it was not, or where the first one was as well."""
    if not _list_quantised(first) and (said := _list_quantised(second)):
        return Conversion(CauseCode.QUANTIZED_OPERANDS, f"quantises its {' and its '.join(said)}")
    return _find_halves(first, second)


def list_odd_weights(first: Network, second: Network) -> list[str]:
    """Products of the converted file whose weights are none of the first file's, rounded or quantised: their names.

    Batch normalisations may have been multiplied into weights before.
    """
    known: dict[tuple[int, ...], list[tuple[np.ndarray, bool]]] = {}
    for weights, is_folded in _list_own_weights(first):
        known.setdefault(tuple(sorted(weights.shape)), []).append((weights, is_folded))
    odd: list[str] = []
    for node, weights, step, folded_step in _list_converted(second):
        candidates = known.get(tuple(sorted(weights.shape)), [])
        if not any(_are_close(weights, own, folded_step if folded else step) for own, folded in candidates):
            odd.append(node.name)
    return odd


def _list_own_weights(network: Network) -> Iterator[tuple[np.ndarray, bool]]:
    """Every constant of the network, and those of products times the scales of a batch normalisation behind them.

    True with the latter.
    """
    folded = fold_constants(network)
    for array in folded.values():
        if array.ndim > 1 and array.dtype.kind == "f":
            yield array.astype(np.float64), False
    for node in network.nodes:
        norm = find_norm(network, node)
        weights = folded.get(node.inputs[1]) if norm is not None else None
        if (
            norm is not None
            and weights is not None
            and (scaled := scale_weights(folded, node, norm, weights)) is not None
        ):
            yield scaled, True


def _list_converted(network: Network) -> Iterator[tuple[Node, np.ndarray, np.ndarray, np.ndarray]]:
    """Products with constant weights: what these stand for, and how far each may be from what it was made of.

    Farther where a normalisation was multiplied into them: that may have been done in the narrow format.
    """
    folded = fold_constants(network)
    makers = network.producers
    for node in network.nodes:
        if node.operator in WHOLE_PRODUCTS and (found := _read_codes(network, folded, node)) is not None:
            # Half a step, and three roundings of a quotient that is rounded to a code.
            step = found[1] / 2 + 3 * 2.0**-24 * np.abs(found[0])
            yield node, found[0], step, step
            continue
        name = node.inputs[1] if node.operator in PRODUCTS and len(node.inputs) > 1 else ""
        weights = folded.get(name)
        if weights is None or weights.ndim < 2 or weights.dtype.name not in FORMATS:
            continue
        maker = network.nodes[makers[name]] if name in makers else None
        size = np.abs(weights.astype(np.float64))
        if maker is not None and maker.operator == _READS:
            # Half a step, and three roundings of a quotient that is rounded to a code.
            half = _spread_scale(maker, folded[maker.inputs[1]], weights.shape) / 2
            step = half + 3 * 2.0**-24 * size
            yield node, weights.astype(np.float64), step, step
            continue
        held = folded[maker.inputs[0]] if maker is not None and _list_cast(network, maker) else weights
        if held.dtype.name in HALVES:
            # Rounded once; converters may raise the smallest numbers to the smallest that there is.
            format_ = find_format(held.dtype.name)
            unit = float(format_.unit_roundoff)
            step = size * unit / (1 - unit) + float(format_.smallest_subnormal)
            # Weights and scale were rounded before, too.
            yield node, weights.astype(np.float64), step, (FOLDING_ROUNDINGS + 2) * step


def _read_codes(network: Network, folded: Folded, node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """What the constant codes of a whole-number product stand for, and a step of each; None where that is not seen.

    The sum is cast and multiplied by both scales, as dynamic quantisation writes it.
    """
    codes = folded.get(node.inputs[1])
    zero = folded.get(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else np.zeros(1)
    value: str | None = node.outputs[0]
    for operator in ("Cast", "Mul"):
        readers = [network.nodes[r] for r in network.consumers.get(value or "", ())]
        if codes is None or zero is None or [r.operator for r in readers] != [operator]:
            return None
        reads, value = readers[0].inputs, readers[0].outputs[0]
        scales = [network.nodes[network.producers[v]] for v in reads if v in network.producers]
    steps = [folded[v] for made in scales if made.operator == "Mul" for v in made.inputs if v in folded]
    if len(steps) != 1 or steps[0].size not in (1, codes.shape[-1]) or zero.size not in (1, codes.shape[-1]):
        return None
    step = np.broadcast_to(steps[0].astype(np.float64), codes.shape)
    return (codes.astype(np.float64) - zero.astype(np.float64)) * step, step


def _spread_scale(node: Node, scale: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The scale of each element: of a tensor, along an axis, or of blocks along it."""
    sizes = np.abs(scale.astype(np.float64))
    axis = int(node.attributes.get("axis", 1)) % len(shape)
    if sizes.ndim == len(shape) and node.attributes.get("block_size"):
        return np.repeat(sizes, int(node.attributes["block_size"]), axis).take(range(shape[axis]), axis)
    along = [-1 if i == axis else 1 for i in range(len(shape))]
    return np.broadcast_to(sizes.reshape(along if sizes.size > 1 else ()), shape)


def _are_close(weights: np.ndarray, own: np.ndarray, step: np.ndarray) -> bool:
    """Whether these weights may be the first file's, as they lie or turned; ends of a range may be cut off."""
    ways = [own] if weights.ndim > 2 else [own, own.T]
    for way in ways:
        if way.shape == weights.shape:
            off = np.abs(weights - way) > step
            # What lay beyond the largest code was cut off.
            cut = np.abs(way) > np.abs(weights).max()
            if not (off & ~cut).any():
                return True
    return False


def _list_quantised(network: Network) -> list[str]:
    """What is quantised in a network, weights first: nothing where it has no codes."""
    folded = fold_constants(network)
    weights = sorted(set(_list_weights(network, folded)))
    activations = sorted(set(_list_activations(network, folded)))
    said = [f"weights to {' and '.join(weights)}"] if weights else []
    return [*said, f"activations to {' and '.join(activations)}"] if activations else said


def _list_weights(network: Network, folded: Folded) -> Iterator[str]:
    """The forms in which constants are quantised: bits, and what has a scale of its own."""
    for node in network.stored.graph.node:
        if node.op_type == _PACKED:
            given = {a.name: a.i for a in node.attribute}
            yield f"{given.get('bits', 4)} bits in blocks of {given.get('block_size', 0)}"
    for node in network.nodes:
        place = 0 if node.operator == _READS else 1 if node.operator in WHOLE_PRODUCTS else None
        codes = folded.get(node.inputs[place]) if place is not None and len(node.inputs) > place else None
        # Biases are codes of 32 bits, as exact as they were.
        if codes is None or codes.ndim == 0 or _count_bits(codes.dtype) > 16:
            continue
        yield f"{_count_bits(codes.dtype)} bits {_find_share(folded, node)}"


def _find_share(folded: Folded, node: Node) -> str:
    """What shares a scale: a tensor, a channel, or a block."""
    if node.attributes.get("block_size"):
        return f"in blocks of {node.attributes['block_size']}"
    place = 1 if node.operator == _READS else 3
    scale = folded.get(node.inputs[place]) if len(node.inputs) > place else None
    return "per channel" if scale is not None and scale.size > 1 else "per tensor"


def _list_activations(network: Network, folded: Folded) -> Iterator[str]:
    for node in network.nodes:
        if node.operator == _DYNAMIC:
            yield "8 bits by their range in each run"
        if node.operator == _STORES and node.inputs[0] not in folded:
            zero = folded.get(node.inputs[2]) if len(node.inputs) > 2 else None
            yield f"{_count_bits(zero.dtype) if zero is not None else 8} bits"


def _count_bits(dtype: np.dtype) -> int:
    """The bits of a number: int4 and the like name theirs, whatever they are stored in."""
    found = re.search(r"int(\d+)", dtype.name)
    return int(found[1]) if found else dtype.itemsize * 8


def _find_halves(first: Network, second: Network) -> Conversion | None:
    """A file whose products are of a half format where the first one's are not, or whose weights alone are."""
    if any(_find_format(first, node) in HALVES for node in first.nodes if node.operator in PRODUCTS):
        return None
    made = [_find_format(second, node) for node in second.nodes if node.operator in PRODUCTS]
    for name in HALVES:
        if count := made.count(name):
            share = "" if count == len(made) else f" in {count:,} of {len(made):,} products"
            return Conversion(CauseCode.REDUCED_PRECISION_OPERANDS, f"computes in {name}{share}")
    held = {second.constants[v].dtype.name for node in second.nodes for v in _list_cast(second, node)}
    for name in HALVES:
        if name in held:
            return Conversion(CauseCode.REDUCED_PRECISION_OPERANDS, f"holds its weights in {name}")
    return None


def _list_cast(network: Network, node: Node) -> list[str]:
    """The constants that a node casts to another dtype."""
    return [v for v in node.inputs if v in network.constants] if node.operator in ("Cast", "CastLike") else []


def _find_format(network: Network, node: Node) -> str:
    type_ = network.types.get(node.outputs[0])
    return type_.dtype if type_ is not None else ""
