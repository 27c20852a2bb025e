"""How operands of products lie in memory: kernels are chosen by strides, and add in other orders for other ones."""

from __future__ import annotations

import numpy as np

from samebits.engines.adapters.engine import Setting

_WAYS = ("contiguous", "transposed", "strided")
OPERAND_MEMORY = {
    "x_memory": Setting(
        "how x of a product lies: its rows, its columns, or every second element", "contiguous", _WAYS, of_problems=True
    ),
    "w_memory": Setting(
        "how w of a product lies: its rows, its columns, or every second element", "contiguous", _WAYS, of_problems=True
    ),
}


def lay_out(array: np.ndarray, way: str) -> np.ndarray:
    """The same array with other strides; an array of one axis cannot be transposed and stays as it is."""
    if way == "transposed" and array.ndim > 1:
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if way == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.ascontiguousarray(array)
