"""Gradients that are computed once, and say so where somebody asks for theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from samebits.errors import OperandError


class _Once(torch.autograd.Function):
    """A gradient as an operation of its own: it hangs together with what it was made from, so that nothing is lost."""

    @staticmethod
    def forward(ctx: Any, compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        return compute(*tensors)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        raise OperandError("layers of samebits are differentiated once; gradients of their gradients are not computed")


def compute_once(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """What `compute` makes of the tensors; differentiating it raises OperandError."""
    result: Tensor = _Once.apply(compute, *tensors)  # type: ignore[no-untyped-call]  (torch's)
    return result
