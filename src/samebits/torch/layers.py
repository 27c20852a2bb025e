"""torch.nn's convolutions and Linear with the truth in place of the kernel, forward and for all gradients.

They keep parameters, state and signature of the layers that they stand for. Each result is the number nearest to the
exact sum, ties to even, in the layer's dtype; so is the gradient of a bias.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from samebits.errors import ArgumentError
from samebits.numbers.float_environment import default_float_environment
from samebits.problems.problem import Problem
from samebits.questions.pick.subject_problems import list_gradients
from samebits.sums.truth import compute_truth
from samebits.torch.pinned import Pinned, SettingsSource, read_layer_lock
from samebits.torch.plain_arrays import compute_once, dtype_name, to_numpy

ModuleT = TypeVar("ModuleT", bound=nn.Module)
# The attribute that holds what a layer is pinned to: no parameter and no buffer, so that its state does not change.
_SOURCE = "_samebits_source"


class _Exact(torch.autograd.Function):
    """A problem and its gradients, computed by the truth."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, problem: Problem) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.problem = problem
        operands = {"x": x, "w": w} | ({} if bias is None else {"bias": bias})
        return _compute(problem, operands, x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grad_outputs
        x, w = ctx.saved_tensors
        plain = replace(ctx.problem, bias=False)
        needs = ctx.needs_input_grad
        grads: list[Tensor | None] = [None, None, None, None]
        if needs[0]:
            by_input = replace(plain, direction="grad_input")
            grads[0] = compute_once(lambda dy, w: _compute(by_input, {"w": w, "dy": dy}, dy), dy, w)
        if needs[1]:
            by_weight = replace(plain, direction="grad_weight")
            grads[1] = compute_once(lambda dy, x: _compute(by_weight, {"x": x, "dy": dy}, dy), dy, x)
        if needs[2]:
            grads[2] = compute_once(lambda dy: _sum_rows(plain, dy), dy)
        return tuple(grads)


def _compute_layer(layer: Any, x: Tensor, w: Tensor, bias: Tensor | None, problem: Problem) -> Tensor:
    source = getattr(layer, _SOURCE, None)
    if source is None:
        result: Tensor = _Exact.apply(x, w, bias, problem)  # type: ignore[no-untyped-call]  (torch's)
    else:
        result = Pinned.apply(x, w, bias, problem, source)  # type: ignore[no-untyped-call]  (torch's)
    return result


# torch.compile leaves it to torch as it is.
_apply: Callable[[Any, Tensor, Tensor, Tensor | None, Problem], Tensor] = torch.compiler.disable(_compute_layer)  # type: ignore[assignment]  (torch types it as a decorator)


def _sum_rows(problem: Problem, dy: Tensor) -> Tensor:
    """The gradient of a bias: the exact sum over all but the channels, as the product of ones with dy."""
    axis = -1 if problem.product else 1
    rows = dy.movedim(axis, -1).reshape(-1, dy.shape[axis]).contiguous()
    ones = torch.ones(1, rows.shape[0], dtype=dy.dtype, device=dy.device)
    summed = Problem(kind="matmul", x=tuple(ones.shape), w=tuple(rows.shape), dtype=problem.dtype)
    return _compute(summed, {"x": ones, "w": rows}, dy).reshape(-1)


@default_float_environment()
def _compute(problem: Problem, operands: dict[str, Tensor], like: Tensor) -> Tensor:
    made = compute_truth(problem, {name: to_numpy(t) for name, t in operands.items()}).values
    if problem.out == "bfloat16":
        return torch.from_numpy(made.view(np.int16)).view(torch.bfloat16).to(like.device)
    return torch.from_numpy(made).to(like.device)


def _convolve(
    kind: str, x: Tensor, w: Tensor, bias: Tensor | None, layer: Any, padding: Any, output_padding: Sequence[int] = ()
) -> Tensor:
    """A layer's convolution; x may lack the batch axis. `padding` has one number, or a pair, per axis."""
    rank = w.dim() - 2
    unbatched = x.dim() == rank + 1
    given = x.unsqueeze(0) if unbatched else x
    pairs = tuple((p, p) if isinstance(p, int) else tuple(p) for p in padding)
    problem = Problem(
        kind=kind,  # type: ignore[arg-type]  (one of the kinds)
        x=tuple(given.shape),
        w=tuple(w.shape),
        bias=bias is not None,
        stride=tuple(layer.stride),
        padding=pairs,  # type: ignore[arg-type]  (pairs, each of two numbers)
        dilation=tuple(layer.dilation),
        output_padding=tuple(output_padding),
        groups=layer.groups,
        dtype=dtype_name(given),
    )
    result = _apply(layer, given, w, bias, problem)
    return result.squeeze(0) if unbatched else result


def _forward_convolution(layer: Any, kind: str, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    if layer.padding_mode != "zeros":
        # What is repeated or mirrored is moved, not computed.
        x = nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
        return _convolve(kind, x, w, bias, layer, [0] * (w.dim() - 2))
    if isinstance(layer.padding, str):
        both = layer._reversed_padding_repeated_twice
        pairs = [(both[i], both[i + 1]) for i in range(len(both) - 2, -1, -2)]
        return _convolve(kind, x, w, bias, layer, pairs)
    return _convolve(kind, x, w, bias, layer, layer.padding)


class Conv1d(nn.Conv1d):
    """torch.nn.Conv1d, correctly rounded."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _forward_convolution(self, "conv1d", input, weight, bias)


class Conv2d(nn.Conv2d):
    """torch.nn.Conv2d, correctly rounded."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _forward_convolution(self, "conv2d", input, weight, bias)


class Conv3d(nn.Conv3d):
    """torch.nn.Conv3d, correctly rounded."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _forward_convolution(self, "conv3d", input, weight, bias)


def _forward_transposed(layer: Any, rank: int, x: Tensor, output_size: list[int] | None) -> Tensor:
    extra = layer._output_padding(x, output_size, layer.stride, layer.padding, layer.kernel_size, rank, layer.dilation)
    return _convolve(f"conv_transpose{rank}d", x, layer.weight, layer.bias, layer, layer.padding, extra)


class ConvTranspose1d(nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d, correctly rounded."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return _forward_transposed(self, 1, input, output_size)


class ConvTranspose2d(nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d, correctly rounded."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return _forward_transposed(self, 2, input, output_size)


class ConvTranspose3d(nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d, correctly rounded."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return _forward_transposed(self, 3, input, output_size)


class Linear(nn.Linear):
    """torch.nn.Linear, correctly rounded."""

    def forward(self, input: Tensor) -> Tensor:
        given = input.unsqueeze(0) if input.dim() == 1 else input
        problem = Problem(
            kind="linear",
            x=tuple(given.shape),
            w=tuple(self.weight.shape),
            bias=self.bias is not None,
            dtype=dtype_name(given),
        )
        result = _apply(self, given, self.weight, self.bias, problem)
        return result.squeeze(0) if input.dim() == 1 else result


_STANDS_FOR: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
    nn.ConvTranspose1d: ConvTranspose1d,
    nn.ConvTranspose2d: ConvTranspose2d,
    nn.ConvTranspose3d: ConvTranspose3d,
    nn.Linear: Linear,
}


def convert(module: ModuleT, *, lock: str | Path | None = None) -> ModuleT:
    """The module itself, with every convolution and Linear in it correctly rounded from now on.

    With `lock`, a file that `samebits pick` wrote, they are computed by torch instead, each problem and each gradient
    under the settings that were picked for it; LockError is raised for a problem that the lock has no choice for.
    Parameters, state_dict, hooks and names stay as they are; layers of other classes, those derived from torch's among
    them, are left alone. Other operations (norms, pools, activations) remain torch's.

    >>> import samebits.torch, torch
    >>> layer = samebits.torch.convert(torch.nn.Linear(3, 2, bias=False))
    >>> x = torch.randn(4, 3)
    >>> torch.equal(layer(x)[:1], layer(x[:1]))
    True
    """
    _replace_layers(module, None if lock is None else read_layer_lock(lock))
    return module


def list_problems(module: nn.Module, *inputs: Any, gradients: bool = False) -> list[Problem]:
    """The problems of a module's convolutions and Linears on these inputs, for `samebits.pick`; each once.

    A copy of the module is run on copies of the inputs; random states stay as they are. With
    `gradients` also those of its training.

    >>> import torch
    >>> from samebits.problems import format_problem
    >>> [format_problem(problem) for problem in list_problems(torch.nn.Linear(3, 2), torch.zeros(4, 3))]
    ['linear x=4x3 w=2x3 bias dtype=float32']
    """
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"problems are listed of a torch module, not of {type(module).__name__}")
    listing = _Listing()
    own = copy.deepcopy(module)
    _replace_layers(own, listing)
    with torch.no_grad(), torch.random.fork_rng():
        own(*copy.deepcopy(inputs))
    backwards = [gradient for problem in listing.problems for gradient in list_gradients(problem)]
    return list(dict.fromkeys([*listing.problems, *(backwards if gradients else [])]))


class _Listing:
    """Records every problem it is asked about; its empty settings let torch compute them as usual."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def find(self, problem: Problem) -> Mapping[str, str]:
        self.problems.append(problem)
        return {}


def _replace_layers(module: nn.Module, source: SettingsSource | None) -> None:
    for part in module.modules():
        stands = _STANDS_FOR.get(type(part))
        if stands is not None:
            part.__class__ = stands  # type: ignore[assignment]  (the same layout, one method apart)
        if type(part) in _STANDS_FOR.values():
            part.__dict__[_SOURCE] = source
