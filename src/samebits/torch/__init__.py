"""Torch layers whose bits stay: correctly rounded, or pinned to a lock file; and a guard over those of others."""

from __future__ import annotations

from samebits.torch.guarding import Guard, guard
from samebits.torch.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Linear,
    convert,
    list_problems,
)

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Guard",
    "Linear",
    "convert",
    "guard",
    "list_problems",
]
