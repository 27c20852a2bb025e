"""The buffers that XLA's autotuner fills, to the last bit: what a logged mismatch was computed from.

One host buffer of 10,069 numbers per type, drawn from a default-seeded mt19937, is repeated end to end through the
operands of a call in its own sequence, each in the sequence of its memory, one going on where the other stopped
(InitializeTypedBuffer in xla/service/gpu/stream_executor_util.cc, the same from 2019 to 2025).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.errors import ResourceLimitError
from samebits.judging.comparing_cost import check_memory
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, shrink_problem
from samebits.numbers.format import find_format, numpy_dtype
from samebits.problems import Problem, format_problem
from samebits.problems.languages.hlo import ArrayOrder, CallMemory
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_normal, make_uniform
from samebits.problems.problem import Shape

HOST_BUFFER_LENGTH, _SEED = 10069, 5489
# float16 and narrower types are kept from overflowing.
_LOW_RANGE, _HIGH = 0.1, 1.0

# For each axis of an array, which of its elements are wanted.
Picked = tuple[npt.NDArray[np.int64], ...]


def find_upper_bound(dtype: str) -> float:
    """The upper bound of a type's numbers; it is low where the type has few exponents."""
    return _LOW_RANGE if find_format(dtype).exponent_bits <= find_format("float16").exponent_bits else _HIGH


@functools.cache
def draw_host_buffer(dtype: str) -> np.ndarray:
    """The host buffer of a type: uniform from 0 to 0.1 where its exponents are few, as float16's are, else to 1.

    libstdc++'s uniform_real_distribution: float64 takes two draws for a number, all others are drawn in float32 and
    rounded; int8 has zeros and ones, here in float32. Exact: compiled C++ gives the same numbers.
    """
    if dtype == "int8":
        # Zeros and ones: a draw rounded to the nearest whole number, upward from the middle.
        return np.floor(draw_host_buffer("float32") + np.float64(0.5)).astype(np.float32)
    # A plain integer seeds it as C++ does only so.
    generator = np.random.MT19937()
    generator._legacy_seeding(_SEED)
    if dtype == "float64":
        low, high = generator.random_raw(2 * HOST_BUFFER_LENGTH).reshape(-1, 2).T.astype(np.float64)
        return (low + high * 2.0**32) / 2.0**64
    draws = generator.random_raw(HOST_BUFFER_LENGTH).astype(np.float32) * np.float32(2.0**-32)
    # A draw that rounds to 1 is taken for the number below.
    draws = np.minimum(draws, np.nextafter(np.float32(1), np.float32(0))) * np.float32(find_upper_bound(dtype))
    return draws.astype(numpy_dtype(dtype))


def fill_operands(problem: Problem, memory: CallMemory, picked: Mapping[str, Picked]) -> dict[str, np.ndarray]:
    """The wanted elements of every operand, in the problem's sequence of operands and axes."""
    start = 0
    filled: dict[str, np.ndarray] = {}
    for name, order in memory.operands:
        shape = problem.operand_shapes[name]
        buffer = _find_buffer(problem.dtype, memory.filled_as)
        filled[name] = buffer[(start + number_elements(order, shape, picked[name])) % HOST_BUFFER_LENGTH]
        start = (start + math.prod(shape)) % HOST_BUFFER_LENGTH
    return {name: filled[name] for name in problem.operand_shapes}


def _find_buffer(dtype: str, filled_as: str | None) -> np.ndarray:
    """The numbers repeated through the operands; where a type is filled as another of its width, that type's bits."""
    if filled_as is None:
        return draw_host_buffer(dtype)
    buffer = draw_host_buffer(filled_as)
    return buffer if filled_as == "int8" else buffer.view(numpy_dtype(dtype))


def number_elements(order: ArrayOrder, shape: Shape, picked: Picked) -> npt.NDArray[np.int64]:
    """The place in memory of every wanted element."""
    places, stride = np.zeros((1,) * len(shape), np.int64), 1
    for axis in reversed(order.axes):
        wanted = shape[axis] - 1 - picked[axis] if axis in order.mirrored else picked[axis]
        places = places + (wanted * stride).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        stride *= shape[axis]
    return places


def locate_elements(order: ArrayOrder, shape: Shape, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The indices of elements from their places in memory, [places, axes]; the other way round."""
    found = np.unravel_index(places, [shape[a] for a in order.axes])
    indices = np.empty((len(places), len(shape)), np.int64)
    for axis, values in zip(order.axes, found, strict=True):
        indices[:, axis] = shape[axis] - 1 - values if axis in order.mirrored else values
    return indices


_ROWS, _POSITIONS = 4, 8
_LONGEST_SUM, _MOST_ELEMENTS = 2_000_000, 50_000_000


@dataclass(frozen=True)
class Stage:
    """Rebuilt operands of a problem, a few outputs, and what these should be."""

    observation: Observation
    sample: Sample
    truth: Floats


def rebuild(problem: Problem, *, uniform: float | None) -> Stage:
    """Operands uniform in 0 ... `uniform`, or normal ones, and exact sums of a few outputs.

    Raises ResourceLimitError where the problem is too large to simulate.
    """
    problem = shrink_problem(problem)
    check_memory(problem, 2)
    elements = sum(math.prod(s) for s in problem.operand_shapes.values())
    if problem.reduction_length > _LONGEST_SUM or elements > _MOST_ELEMENTS:
        raise ResourceLimitError(
            f"{format_problem(problem)} is too large to simulate; store the arrays of a smaller case and explain that"
        )
    operands = make_normal(problem) if uniform is None else make_uniform(problem, 0, 0.0, uniform)
    # Sums are taken of convolutions; a product is computed as one.
    lowered = lower_problem(problem)
    problem, operands = lowered.convolution, lowered.lower_operands(operands)
    # No result was recorded, and of such long sums not all are needed.
    unknown = np.broadcast_to(np.nan, problem.out_shape)
    observation = Observation(problem, operands, unknown, unknown, unknown, unknown)
    few = observation.choose_sample().thin(_ROWS, _POSITIONS)
    return Stage(observation, few, observation.sum_instead(operands, few))
