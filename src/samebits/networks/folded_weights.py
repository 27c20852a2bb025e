"""A batch normalisation multiplied into the weights of the product before it, as exporters and optimizers do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.unit_reference import HALVES
from samebits.numbers.format import FORMATS, numpy_dtype

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
    held, held_bias = other_folded.get(other.inputs[1]), _read_bias(other_folded, other)
    folding = _read_folding(folded, product, norm)
    if folding is None or held is None or held_bias is None:
        return None
    if held.dtype != np.float32 or held.shape != folding.weights.shape:
        return None
    odd, odd_bias = folding.list_odd_channels(held), folding.list_odd_biases(held_bias)
    if not odd.any() and not odd_bias.any():
        return None
    turned = [t for n in range(2, held.ndim) for t in itertools.combinations(range(2, held.ndim), n - 1)]
    if odd.any() and any(not folding.list_odd_channels(np.flip(held, axes)).any() for axes in turned):
        return CauseCode.AXIS_ORDER, "holds the first file's kernel flipped, with its normalisation"
    if rounded := folding.find_rounding(held, held_bias):
        says = f"holds the first file's weights with its normalisation, rounded to {rounded}"
        return CauseCode.REDUCED_PRECISION_OPERANDS, says
    for cause, says, changed in folding.list_changed(held):
        if not changed.list_odd_channels(held).any() and not changed.list_odd_biases(held_bias).any():
            return cause, says
    what, which = ("weights", odd) if odd.any() else ("the bias", odd_bias)
    says = (
        f"{what} of {_say_channels(which)} {'are' if odd.any() else 'is'} not the first file's with its normalisation"
    )
    return CauseCode.OTHER_OPERANDS, says


def _read_folding(folded: Folded, product: Node, norm: Node) -> _Folding | None:
    weights, own = folded.get(product.inputs[1]), _read_bias(folded, product)
    parts = [folded.get(name) for name in norm.inputs[1:5]]
    axis = 1 if product.operator == "ConvTranspose" else 0
    if weights is None or own is None or weights.ndim < 3:
        return None
    if any(part is None or part.size != weights.shape[axis] for part in parts):
        return None
    scale, shift, mean, variance = (part.astype(np.float64) for part in parts if part is not None)
    epsilon = float(np.float32(norm.attributes.get("epsilon", 1e-5)))
    own = own.astype(np.float64)
    return _Folding(weights.astype(np.float64), own, scale, shift, mean, variance, epsilon, axis)


def _read_bias(folded: Folded, product: Node) -> np.ndarray | None:
    return folded.get(product.inputs[2]) if len(product.inputs) > 2 and product.inputs[2] else np.zeros(1)


@dataclass(frozen=True)
class _Folding:
    """A product's weights and bias, and the normalisation that is to be folded into them, in float64."""

    weights: np.ndarray
    own: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    epsilon: float
    axis: int

    @property
    def factor(self) -> np.ndarray:
        """What each channel is multiplied by."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.scale / np.sqrt(self.variance + self.epsilon)

    def list_odd_channels(self, held: np.ndarray, own_unit: float = 0.0, least: float = 0.0) -> np.ndarray:
        """Which channels have weights that rounding does not make of those wanted.

        `own_unit` is the unit roundoff of a format that they are rounded to after that, `least` its smallest number.
        """
        scaled, unit = self.weights * _along(self.factor, self.axis, held.ndim), _UNIT / (1 - _UNIT)
        unit = (1 + unit) * (1 + own_unit) - 1
        near = np.abs(held - scaled) <= unit * np.abs(scaled) + _LEAST + least
        rows = np.moveaxis(~near, self.axis, 0)
        return np.asarray(rows.reshape(len(rows), -1).any(1))

    def list_odd_biases(self, held: np.ndarray, own_unit: float = 0.0, least: float = 0.0) -> np.ndarray:
        """Which channels have a bias that rounding does not make of the one wanted; see `list_odd_channels`."""
        wanted = (self.own - self.mean) * self.factor + self.shift
        # The difference and the sum round too, each relative to what it is made of.
        size = (np.abs(self.own) + np.abs(self.mean)) * np.abs(self.factor) + np.abs(self.shift)
        error = 2 * _UNIT * size
        error = error + own_unit * (np.abs(wanted) + error) + _LEAST + least
        return np.asarray(~(np.abs(held.astype(np.float64) - wanted) <= error))

    def find_rounding(self, held: np.ndarray, held_bias: np.ndarray) -> str:
        """The narrow format that the folded weights, and perhaps the bias, are rounded to; "" for none."""
        for name in HALVES:
            format_ = FORMATS[name]
            unit, least = float(format_.unit_roundoff), float(format_.smallest_subnormal)
            if not _lies_in(held, name) or self.list_odd_channels(held, unit, least).any():
                continue
            narrow = (unit, least) if _lies_in(held_bias, name) else (0.0, 0.0)
            if not self.list_odd_biases(held_bias, *narrow).any():
                return name
        return ""

    def list_changed(self, held: np.ndarray) -> Iterator[tuple[CauseCode, str, _Folding]]:
        """What an exporter may have got wrong: the cause, the words, and the folding that it would be."""
        lost = {
            "the product's own bias": "own",
            "its normalisation's bias": "shift",
            "its normalisation's mean": "mean",
        }
        for name, field in lost.items():
            yield CauseCode.DROPPED_ATTRIBUTE, f"lacks {name}", replace(self, **{field: np.zeros(1)})
        for a, b in itertools.combinations(_PARTS, 2):
            exchanged = {a: getattr(self, b), b: getattr(self, a)}
            words = f"holds the first file's weights with its normalisation's {_PARTS[a]} and {_PARTS[b]} exchanged"
            yield CauseCode.AXIS_ORDER, words, replace(self, **exchanged)
        epsilon = self._find_epsilon(held)
        if epsilon is not None:
            says = f"holds the first file's weights with an epsilon of {epsilon:.3g} in place of {self.epsilon:.3g}"
            yield CauseCode.DROPPED_ATTRIBUTE, says, replace(self, epsilon=epsilon)

    def _find_epsilon(self, held: np.ndarray) -> float | None:
        """The epsilon that the largest weight of each channel speaks for, the channel of least variance most."""
        rows = np.moveaxis(self.weights, self.axis, 0).reshape(self.scale.size, -1)
        given = np.moveaxis(held.astype(np.float64), self.axis, 0).reshape(self.scale.size, -1)
        channel = int(np.argmin(np.abs(self.variance)))
        place = int(np.argmax(np.abs(rows[channel])))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            factor = given[channel, place] / rows[channel, place]
            epsilon = (self.scale[channel] / factor) ** 2 - self.variance[channel]
        # Shown, and tried, with as many digits as a person would have written.
        return float(f"{epsilon:.2g}") if np.isfinite(epsilon) and epsilon > 0 else None


# The parts of a batch normalisation that may be exchanged: all have a number for each channel.
_PARTS = {"scale": "scale", "shift": "bias", "mean": "mean", "variance": "variance"}
# What folding may round, relative to the result, and beside the least numbers.
_UNIT, _LEAST = FOLDING_ROUNDINGS * 2.0**-24, 2.0**-149


def _lies_in(array: np.ndarray, format_: str) -> bool:
    """Whether all of these are numbers of a narrower format."""
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(numpy_dtype(format_)).astype(array.dtype), array)


def _say_channels(odd: np.ndarray) -> str:
    places = np.flatnonzero(odd)
    if len(places) == odd.size:
        return "all channels"
    shown = ", ".join(str(p) for p in places[:4])
    return f"channel {shown}" if len(places) == 1 else f"{len(places)} channels ({shown}{', ...' * (len(places) > 4)})"
