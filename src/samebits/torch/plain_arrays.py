"""Tensors as NumPy arrays, bfloat16 included, and which of their dtypes are computed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samebits.errors import OperandError
from samebits.numbers.format import numpy_dtype
from samebits.problems.problem import DTYPES


def to_numpy(tensor: Tensor) -> np.ndarray:
    """The tensor's numbers as an array of the same dtype; of bfloat16 in ml_dtypes' array."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return plain.numpy()


def dtype_name(tensor: Tensor) -> str:
    """The name of a tensor's dtype; raises OperandError for one that nothing is computed in."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise OperandError(f"layers compute in {', '.join(DTYPES)}, not in {name}")
    return name


class _Once(torch.autograd.Function):
    """A gradient as its own autograd operation, connected to its inputs, so that no derivative is dropped silently."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        return compute(*tensors)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        raise OperandError("layers of samebits are differentiated once; gradients of their gradients are not computed")


def compute_once(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The result of `compute` on the tensors; differentiating it raises OperandError."""
    result: Tensor = _Once.apply(compute, *tensors)  # type: ignore[no-untyped-call]  (torch's)
    return result
