"""What flows between nodes while a unit is referred: floating values with their bounds, all others as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node

Value = Bounded | np.ndarray
# A node's outputs for its inputs; None where nothing bounds their error.
Rule = Callable[[Arithmetic, Node, Sequence[Value | None]], list[Value] | None]


def list_floats(inputs: Sequence[Value | None]) -> list[Bounded]:
    """The inputs that are there, as bounded values; whole numbers are exact."""
    return [v if isinstance(v, Bounded) else bounded.exactly(v) for v in inputs if v is not None]


def read_whole(value: Value | None) -> tuple[int, ...] | None:
    """A short list of whole numbers, such as axes; None where there is none."""
    if value is None:
        return None
    array = value.value if isinstance(value, Bounded) else value
    return tuple(int(i) for i in np.asarray(array).reshape(-1))


def as_value(array: np.ndarray) -> Value:
    """A computed array: floating ones are exact values."""
    return bounded.exactly(array) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def make_plain(value: Value | None) -> np.ndarray | None:
    """A value as an array, of float32 where it is floating."""
    return value.value.astype(np.float32) if isinstance(value, Bounded) else value
