"""Torch layers whose bits stay: correctly rounded, or pinned to a lock file."""

from __future__ import annotations

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
    "Linear",
    "convert",
    "list_problems",
]
