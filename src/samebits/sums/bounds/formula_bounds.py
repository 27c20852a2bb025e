"""The bounds of a result that is no plain sum of products: of an attention or a row function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class FormulaBounds:
    """Per output: |result - truth| at most, the likely most, what no arithmetic reaches, and the size of what is added.

    `may_overflow` marks outputs (of an attention queries, without the last axis) for which a value on the way may leave
    the range of the accumulator.
    """

    worst: npt.NDArray[np.float64]
    likely: npt.NDArray[np.float64]
    farthest: npt.NDArray[np.float64]
    magnitudes: npt.NDArray[np.float64]
    may_overflow: npt.NDArray[np.bool_]
