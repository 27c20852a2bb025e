"""A batch normalisation multiplied into the weights of the product before it, as exporters and optimizers do."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS

# The values of a network that are the same whatever comes in.
Folded = Mapping[str, np.ndarray]
# variance + epsilon, its root, the quotient and the product round once each; the root halves what came before it.
# With one rounding to spare for a reciprocal root that is multiplied in place of the quotient.
FOLDING_ROUNDINGS = 5


def find_norm(network: Network, product: Node) -> Node | None:
    """The batch normalisation that alone reads a product."""
    readers = [network.nodes[r] for r in network.consumers.get(product.outputs[0], ())]
    is_norm = product.operator in PRODUCTS and [r.operator for r in readers] == ["BatchNormalization"]
    return readers[0] if is_norm else None


def find_factor(folded: Folded, norm: Node) -> np.ndarray | None:
    """What a batch normalisation multiplies each channel by, in float64; None where it is no constant."""
    scale, variance = folded.get(norm.inputs[1]), folded.get(norm.inputs[4])
    if scale is None or variance is None:
        return None
    epsilon = float(np.float32(norm.attributes.get("epsilon", 1e-5)))
    return scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)


def scale_weights(folded: Folded, product: Node, norm: Node, weights: np.ndarray | None) -> np.ndarray | None:
    """The product's weights with the normalisation folded in, in float64; as they are where that cannot be."""
    factor = find_factor(folded, norm) if norm.operator == "BatchNormalization" else None
    axis = 1 if product.operator == "ConvTranspose" else 0
    if weights is None or factor is None or weights.ndim < 3 or weights.shape[axis] != factor.size:
        return weights
    return weights.astype(np.float64) * _along(factor, axis, weights.ndim)


def _along(factor: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return factor.reshape([-1 if i == axis else 1 for i in range(rank)])


def compare_folded(
    folded: Folded, other_folded: Folded, product: Node, norm: Node, other: Node
) -> tuple[CauseCode, str] | None:
    """How weights and bias that a product of the second file has differ from those that folding gives.

    None where they agree but for the rounding of float32, or where it cannot be said.
    """
    weights, held = folded.get(product.inputs[1]), other_folded.get(other.inputs[1])
    factor, shift, mean = find_factor(folded, norm), folded.get(norm.inputs[2]), folded.get(norm.inputs[3])
    if weights is None or held is None or factor is None or shift is None or mean is None:
        return None
    scaled = scale_weights(folded, product, norm, weights)
    if scaled is None or scaled is weights or scaled.shape != held.shape or held.dtype != np.float32:
        return None
    unit = FOLDING_ROUNDINGS * 2.0**-24
    axis = 1 if product.operator == "ConvTranspose" else 0
    odd = _list_odd_channels(held, scaled, unit, axis)
    turned = [t for n in range(2, held.ndim) for t in itertools.combinations(range(2, held.ndim), n - 1)]
    if odd.any() and any(not _list_odd_channels(np.flip(held, axes), scaled, unit, axis).any() for axes in turned):
        return CauseCode.AXIS_ORDER, "holds the first file's kernel flipped, with its normalisation"
    if odd.any():
        return (
            CauseCode.OTHER_OPERANDS,
            f"weights of {_say_channels(odd)} are not the first file's with its normalisation",
        )
    own = folded.get(product.inputs[2]) if len(product.inputs) > 2 and product.inputs[2] else np.zeros(1)
    held_bias = other_folded.get(other.inputs[2]) if len(other.inputs) > 2 and other.inputs[2] else np.zeros(1)
    if own is None or held_bias is None:
        return None
    moved = (own.astype(np.float64) - mean.astype(np.float64)) * factor
    wanted = moved + shift.astype(np.float64)
    # The difference and the sum round too, each relative to what it is made of.
    size = (np.abs(own) + np.abs(mean)) * np.abs(factor) + np.abs(shift)
    odd_bias = np.asarray(np.abs(held_bias.astype(np.float64) - wanted) > 2 * unit * size + 2.0**-149)
    if odd_bias.any():
        channels = _say_channels(odd_bias)
        return CauseCode.OTHER_OPERANDS, f"the bias of {channels} is not the first file's with its normalisation"
    return None


def _list_odd_channels(held: np.ndarray, scaled: np.ndarray, unit: float, axis: int) -> np.ndarray:
    """Which channels have weights that rounding does not make of those wanted."""
    rows = np.moveaxis(np.abs(held - scaled) > unit / (1 - unit) * np.abs(scaled) + 2.0**-149, axis, 0)
    return np.asarray(rows.reshape(len(rows), -1).any(1))


def _say_channels(odd: np.ndarray) -> str:
    places = np.flatnonzero(odd)
    if len(places) == odd.size:
        return "all channels"
    shown = ", ".join(str(p) for p in places[:4])
    return f"channel {shown}" if len(places) == 1 else f"{len(places)} channels ({shown}{', ...' * (len(places) > 4)})"
