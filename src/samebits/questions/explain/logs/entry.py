"""What a log says of one mismatch, whichever tool wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.problems import Problem
from samebits.problems.languages.hlo import CallMemory

LONGEST_NAME = 80
# The fact that says where a problem was found that the mismatch itself does not name.
PROBLEM_LINE = "problem from line"
# The fact that says which direction of a problem failed, where one command runs several.
DIRECTION = "direction"
# The fact that says which part of a result a mismatch is about, with a capital.
PLACE = "place"

Tool = Literal["xla", "assert_close", "polygraphy", "onednn", "tensorrt", "verifier", "benchdnn", "other"]


@dataclass(frozen=True)
class Metrics:
    """Summary statistics of a comparison that shows no values; None where the log does not say.

    `rms_share` is the root mean square of all differences in shares of the largest value, `share` how many of the
    elements differ where no count is given.
    """

    mismatched: int | None = None
    elements: int | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    mean_abs: float | None = None
    atol: float | None = None
    rtol: float | None = None
    largest_value: float | None = None
    max_ulp: float | None = None
    rms_share: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Mismatch:
    """One mismatch of a log, from line `line` on; `tool` says how it is explained, "other" by metrics and pairs.

    `names` are the two sides; `pairs` hold (flat index, value of the first, value of the second). `implementation` is
    what oneDNN says it ran, `computes_in` the operand formats it ran in; of TensorRT its version, and the formats that
    its layers may compute in. `outputs` are both sides' whole results, where a file has them. `memory` says how the
    arrays of XLA's call lie in memory, where the log does. `has_reference` says that the second side is the tool's own
    reference, `beyond` what the tool found that no rounding makes, `printed_room` how far printing took any value at
    most from what it was (absolute).
    """

    tool: Tool = "other"
    line: int = 1
    problem: Problem | None = None
    names: tuple[str, str] = ("a", "b")
    pairs: tuple[tuple[int, float, float], ...] = ()
    metrics: Metrics | None = None
    implementation: str = ""
    computes_in: tuple[str, ...] = ()
    trouble: str = ""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    memory: CallMemory | None = None
    outputs: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
    printed_room: float = 0.0
    has_reference: bool = False
    beyond: str = ""


def name_sides(first: str, second: str) -> tuple[str, str]:
    """Two sides' names as a log gives them, not too long, and never the same."""
    first, second = first[:LONGEST_NAME], second[:LONGEST_NAME]
    return (first, second) if first != second else (f"{first} (first)", f"{second} (second)")
