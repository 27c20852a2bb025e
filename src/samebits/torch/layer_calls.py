"""What a layer computed in one call: its result and what it was made from, forward and in autograd's own node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from samebits.problems.terms import Form
from samebits.questions.guard.guard_schema import Direction
from samebits.torch import layers
from samebits.torch.sampled_sums import Geometry

_STANDARD: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: layers.Conv1d,
    nn.Conv2d: layers.Conv2d,
    nn.Conv3d: layers.Conv3d,
    nn.ConvTranspose1d: layers.ConvTranspose1d,
    nn.ConvTranspose2d: layers.ConvTranspose2d,
    nn.ConvTranspose3d: layers.ConvTranspose3d,
    nn.Linear: layers.Linear,
}
GUARDED = tuple(_STANDARD)
_METHODS = ("forward", "_conv_forward", "_output_padding")
_CONVOLUTION, _PRODUCTS = "ConvolutionBackward0", ("AddmmBackward0", "MmBackward0")
# Nodes that only give another view of what the one after them made, or add a Linear's bias to it.
_VIEWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0", "SqueezeBackward1",
          "SqueezeBackward4", "AddBackward0")  # fmt: skip


@dataclass(frozen=True)
class LayerResult:
    """A result and the two tensors whose products it sums, in the parts that `sampled_sums` gives them."""

    direction: Direction
    form: Form
    source: Tensor
    factors: Tensor
    result: Tensor
    kernel: tuple[int, ...]
    geometry: Geometry
    bias: Tensor | None = None

    @property
    def may_transform(self) -> bool:
        """Whether kernels may compute it by a transform (Winograd's, Fourier's): convolutions of several taps."""
        return math.prod(self.kernel) > 1 and max(self.geometry.stride, default=1) == 1


def say_unguarded(layer: nn.Module) -> str | None:
    """Why a layer of these classes cannot be checked; None where it can."""
    if "forward" in vars(layer):
        return "its forward was replaced"
    base = next(c for c in GUARDED if isinstance(layer, c))
    standing = type(layer) if type(layer) is not _STANDARD[base] else base
    if nn.utils.parametrize.is_parametrized(layer):
        return "its weights are computed again whenever they are read (parametrized)"
    if any(getattr(standing, m, None) is not getattr(base, m, None) for m in _METHODS):
        return f"{type(layer).__name__} computes otherwise than {base.__name__}"
    return None


def read_forward(layer: Any, given: Sequence[Any], named: Mapping[str, Any], result: Any) -> LayerResult | str:
    """A layer's call, or why it cannot be checked."""
    x = given[0] if given else named.get("input")
    if not isinstance(x, Tensor) or not isinstance(result, Tensor):
        return "it was called with something else than a tensor"
    x, y, w, b = x.detach(), result.detach(), layer.weight.detach(), layer.bias
    b = None if b is None else b.detach()
    if any(t is not None and t.dtype != y.dtype for t in (x, w, b)):
        if not torch.is_autocast_enabled(y.device.type):
            return f"operands of {x.dtype} and {w.dtype} make {y.dtype}"
        x, w, b = x.to(y.dtype), w.to(y.dtype), None if b is None else b.to(y.dtype)
    if min(x.numel(), w.numel(), y.numel()) == 0:
        return "it was called with an empty tensor"
    if isinstance(layer, nn.Linear):
        rows, columns = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        return LayerResult("forward", "gather", rows, w, columns, (), Geometry((), (), ()), b)
    rank = w.dim() - 2
    if x.dim() == rank + 1:
        x, y = x.unsqueeze(0), y.unsqueeze(0)
    # From the last axis to the first, as torch pads.
    around = list(layer._reversed_padding_repeated_twice)
    if layer.padding_mode != "zeros":
        x = nn.functional.pad(x, around, mode=layer.padding_mode)
        padding = (0,) * rank
    elif isinstance(layer.padding, str):
        padding = tuple(around[2 * (rank - 1 - a)] for a in range(rank))
    else:
        padding = tuple(layer.padding)
    geometry = Geometry(tuple(layer.stride), padding, tuple(layer.dilation), layer.groups)
    form: Form = "scatter" if layer.transposed else "gather"
    return LayerResult("forward", form, x, w, y, tuple(w.shape[2:]), geometry, b)


def find_node(result: Tensor) -> Any | None:
    """Autograd's node of the product behind a layer's result; None where there is none."""
    node: Any = result.grad_fn
    while node is not None and node.name() in _VIEWS:
        node = node.next_functions[0][0]
    return node if node is not None and node.name() in (_CONVOLUTION, *_PRODUCTS) else None


def read_backward(call: LayerResult, wanted: Direction, made: Sequence[Any], dy: Tensor) -> LayerResult | str | None:
    """A gradient that autograd's node of a call has just made, with what it was made from.

    None where it was not computed this time; where it cannot be checked, a text that says why.
    `made` is what the node returns: for a convolution the gradients of input, weights and bias, for a product those of
    both matrices, behind that of a bias.
    """
    products = not call.kernel
    first = len(made) - 2 if products else 0
    gradient = made[first if wanted == "grad_input" else first + 1]
    if gradient is None:
        return None
    gradient, dy = gradient.detach(), dy.detach()
    x, w, transposed = call.source, call.factors, call.form == "scatter"
    if wanted == "grad_weight":
        # The node's gradient is that of the weights as multiplied: for Linear they are transposed.
        gradient = gradient.transpose(0, 1) if products else gradient
        large, small = (dy, x) if transposed else (x, dy)
        return LayerResult(wanted, "filter", large, small, gradient, call.kernel, call.geometry)
    if gradient.shape != x.shape:
        return "it is that of an input which was padded before"
    return LayerResult(wanted, "gather" if transposed else "scatter", dy, w, gradient, call.kernel, call.geometry)
