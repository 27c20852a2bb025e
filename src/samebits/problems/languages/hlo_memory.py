"""In which sequence the elements of a cuDNN custom-call's arrays lie in memory, from the layouts that XLA prints."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.errors import ProblemTextError
from samebits.problems.languages.hlo_text import HloArray, read_convolution
from samebits.problems.problem import Shape


@dataclass(frozen=True)
class ArrayOrder:
    """The axes of a problem's array from the slowest in memory to the fastest, and those that are stored mirrored."""

    axes: Shape
    mirrored: Shape = ()


@dataclass(frozen=True)
class CallMemory:
    """The operands of a custom-call, in its own sequence and by the problem's names, and its result.

    `filled_as` is the type whose numbers an autotuner puts there, where it is not that of the problem.
    """

    operands: tuple[tuple[str, ArrayOrder], ...]
    result: ArrayOrder
    filled_as: str | None = None


# Which of (input, filter, output) each operand of the call is, and its result.
_ROLES = {
    "Forward": (("x", 0), ("w", 1), ("", 2)),
    "BiasActivationForward": (("x", 0), ("w", 1), ("bias", None), ("", 2)),
    "BackwardInput": (("dy", 2), ("w", 1), ("", 0)),
    "BackwardFilter": (("x", 0), ("dy", 2), ("", 1)),
}
_FILTER = 1


def read_memory(text: str) -> CallMemory | None:
    """The memory of a cuDNN custom-call, `text` as `parse_hlo` takes it; None where its layouts are not printed.

    A plain convolution is no call of a library, and has none. Raises ProblemTextError.
    """
    line = read_convolution(text)
    if line.target not in _ROLES:
        return None
    flipped = tuple(2 + a for a, is_reversed in enumerate(line.window.reversal) if is_reversed)
    orders: list[tuple[str, ArrayOrder]] = []
    for (name, role), array in zip(_ROLES[line.target], line.arrays, strict=True):
        if array.layout is None:
            return None
        axes = range(1) if role is None else _list_axes(line.labels[role], role)
        orders.append((name, _arrange(array, tuple(axes), flipped if role == _FILTER else (), text)))
    return CallMemory(tuple(orders[:-1]), orders[-1][1])


def _list_axes(labels: str, role: int) -> Shape:
    """The axis of the problem's array that each axis of the HLO array is: the b or o first, then f or i, then space."""
    order = "oi" if role == _FILTER else "bf"
    return tuple(order.index(c) if c in order else 2 + int(c) for c in labels)


def _arrange(array: HloArray, axes: Shape, mirrored: Shape, text: str) -> ArrayOrder:
    assert array.layout is not None
    if sorted(array.layout) != list(range(len(axes))):
        raise ProblemTextError(f"layout {array.layout} does not number the axes of {array.sizes}", text)
    return ArrayOrder(tuple(axes[a] for a in reversed(array.layout)), mirrored)
