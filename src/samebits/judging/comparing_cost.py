"""What judging a problem takes, known before anything is computed."""

from __future__ import annotations

import math

from samebits.errors import ResourceLimitError
from samebits.machine import count_cores
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem, format_problem
from samebits.problems.terms import find_terms
from samebits.progress import Announcement, Progress
from samebits.sums.tiles.memory import count_available_bytes

# Products added per core and second, as measured on Zen 5 with AVX-512 for 16 channels or more; fewer leave most of
# a vector empty. Only the estimate given beforehand depends on these.
_VECTOR_ROWS = 16
_TRUTH_RATES = {"float32": 1e10, "float64": 5e7}
_NARROW_TRUTH_RATE = 3e9
_BOUND_RATE = 1e10
_EMULATOR_RATE = 3e9
_LEAST_SHARE = 1 / 32
# An emulator's further time: per term of an order, per entry of its tables, per position.
_ORDER_S, _REACH_S, _POSITION_S = 1e-5, 1e-7, 1e-6
_WORTH_SAYING_S = 10.0
# Sets of operands that a comparison has at one time, most of them while an emulator is probed (11 were measured).
_COPIES = 12
_LEAST_WIDTH_BYTES = 4
# Arrays as large as a result, apart from each side's two: truth, bound, magnitudes on both sets of operands, distances.
_OF_RESULT = 10


def announce_cost(problem: Problem, references: int, emulations: int, progress: Progress) -> None:
    """Tells `progress` beforehand what a large problem will take; of others it says nothing.

    `references` counts sets of operands whose truth and bound are computed, `emulations` whole results of emulators.
    An estimate for this machine's cores, good to a factor of three or so; the time of engines comes on top.
    """
    terms = find_terms(problem)
    products = math.prod(problem.out_shape) * terms.count
    share = max(min(terms.rows, _VECTOR_ROWS) / _VECTOR_ROWS, _LEAST_SHARE)
    truth = _TRUTH_RATES.get(problem.dtype, _NARROW_TRUTH_RATE)
    seconds = products / (share * count_cores()) * (
        references / truth + references / _BOUND_RATE + emulations / _EMULATOR_RATE
    )  # fmt: skip
    reached = sum(o * s for o, s in zip(terms.outputs, terms.spans, strict=True))
    seconds += emulations * (terms.count * _ORDER_S + reached * _REACH_S + terms.positions * _POSITION_S)
    if seconds < _WORTH_SAYING_S:
        return
    needed = max(count_needed_bytes(problem, 2) / 2**30, 0.1)
    said = (
        f"a large problem: {products:.2g} products a result, about {_say_time(seconds)} on {count_cores()} cores and"
        f" {needed:.1f} GiB; the time of engines comes on top"
    )
    progress(Announcement(said), 0.0)


def _say_time(seconds: float) -> str:
    """One figure and a unit: more would promise too much."""
    for unit, length, most in (("seconds", 1, 90), ("minutes", 60, 5400), ("hours", 3600, 36 * 3600)):
        if seconds < most:
            return f"{float(f'{seconds / length:.1g}'):g} {unit}"
    return f"{float(f'{seconds / 86400:.1g}'):g} days"


def count_needed_bytes(problem: Problem, sides: int) -> int:
    """What operands, probes, truth, bound and the results of so many sides take in memory at most."""
    size = max(numpy_dtype(problem.dtype).itemsize, _LEAST_WIDTH_BYTES)
    operands = sum(math.prod(s) for s in problem.operand_shapes.values()) * size * _COPIES
    return operands + math.prod(problem.out_shape) * 8 * (_OF_RESULT + 2 * sides)


def check_memory(problem: Problem, sides: int) -> None:
    """Raises ResourceLimitError if operands, truth, bound and results would not fit in what is free now."""
    needed, available = count_needed_bytes(problem, sides), count_available_bytes()
    if needed > 0.8 * available:
        raise ResourceLimitError(
            f"{format_problem(problem)} needs about {needed / 2**30:.1f} GiB to compare, and"
            f" {available / 2**30:.1f} GiB are free; make the batch or the spatial size smaller"
        )
