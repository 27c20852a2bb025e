"""Tensors as NumPy arrays, bfloat16 included, and which of their dtypes are computed in."""

from __future__ import annotations

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
