"""XLA HLO convolution lines as problems: plain `convolution` and the custom-calls that XLA makes of it for cuDNN.

Semantics: openxla.org/xla/operation_semantics (Conv) and xla/service/shape_inference.cc; the custom-calls:
xla/service/gpu/cublas_cudnn.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems.languages.command_line import find_padding_end, split_transposed_end
from samebits.problems.languages.hlo_text import Convolution, HloArray, read_convolution
from samebits.problems.problem import Direction, Problem, Shape

_DIRECTIONS: dict[str, Direction] = {"BackwardInput": "grad_input", "BackwardFilter": "grad_weight"}


def parse_hlo(text: str) -> Problem:
    """The problem that an HLO convolution computes: `convolution(...)`, or a cuDNN custom-call before autotuning.

    `text` is one instruction, or lines with one convolution among them, where operands printed without their shapes
    are looked up. Layouts are ignored, and so is `rhs_reversal`: from which end taps are counted is a matter of layout
    too. A plain convolution becomes the forward problem if it is one; with lhs_dilate the transposed one (stride =
    lhs_dilate); with batch_group_count, or where only that gives padding >= 0, the gradient of w. XLA writes gradients
    as plain convolutions on relabelled axes: that is how they are read back. Raises ProblemTextError,
    ProblemShapeError.
    """
    line = read_convolution(text)
    if not line.target:
        return _read_plain(line)
    return _read_as_forward(line, _DIRECTIONS.get(line.target, "forward"))


def _read_plain(line: Convolution) -> Problem:
    window = line.window
    positions = tuple(window.count_positions(a, size) for a, size in enumerate(line.lhs[2:]))
    if window.size != line.rhs[2:] or positions != line.result[2:]:
        line.refuse(f"window {window.size} over {line.lhs[2:]} gives {positions}, but the result has {line.result[2:]}")
    if line.batch_groups > 1:
        return _read_as_gradient(line)
    if max(window.lhs_dilate) > 1:
        return _read_as_transposed(line)
    return _take_first(line, _read_as_forward, _read_as_gradient, _read_as_transposed)


def _take_first(line: Convolution, *readings: Callable[[Convolution], Problem]) -> Problem:
    """The first reading that a problem can express; the first one's error where none can."""
    errors: list[ProblemTextError | ProblemShapeError] = []
    for read in readings:
        try:
            return read(line)
        except (ProblemTextError, ProblemShapeError) as error:
            errors.append(error)
    raise errors[0]


def _read_as_forward(line: Convolution, direction: Direction = "forward") -> Problem:
    window = line.window
    if min(*window.low, *window.high) < 0:
        line.refuse("a negative pad cuts off input, which a problem cannot express")
    if max(window.lhs_dilate) > 1 or line.batch_groups > 1:
        line.refuse("lhs_dilate and batch_group_count have no meaning in a cuDNN custom-call")
    if window.size != line.rhs[2:]:
        line.refuse(f"window size {window.size} is not the filter's, {line.rhs[2:]}")
    problem = Problem(
        kind=line.kind("conv"),
        x=line.lhs,
        w=line.rhs,
        direction=direction,
        bias=line.bias,
        stride=window.stride,
        padding=window.pads,
        dilation=window.rhs_dilate,
        groups=line.feature_groups,
        dtype=line.dtype,
        out=line.out,
        then=line.then,
    )
    return _check_shape(line, problem, problem.y_shape, line.result)


def _read_as_transposed(line: Convolution) -> Problem:
    """Large index = small * lhs_dilate - begin + tap * dilation, with taps counted from the window's other end."""
    window, groups = line.window, line.feature_groups
    if max(window.stride) > 1:
        line.refuse("stride together with lhs_dilate (or negative pads) is not a convolution a problem can express")
    if line.rhs[0] % groups or line.rhs[1] * groups != line.lhs[1]:
        line.refuse(f"feature_group_count={groups} does not fit lhs features {line.lhs[1]} and filter {line.rhs[:2]}")
    spans = [window.reach(a) - 1 for a in range(len(window.size))]
    begins = [span - low for span, low in zip(spans, window.low, strict=True)]
    if min(begins) < 0:
        line.refuse("a low pad beyond the dilated filter adds zeros to the result, which a problem cannot express")
    ends = [
        split_transposed_end(begin, span - high, stride, dilation)
        for begin, span, high, stride, dilation in zip(
            begins, spans, window.high, window.lhs_dilate, window.rhs_dilate, strict=True
        )
    ]
    problem = Problem(
        kind=line.kind("conv_transpose"),
        x=line.lhs,
        w=(line.lhs[1], line.rhs[0] // groups, *window.size),
        stride=window.lhs_dilate,
        padding=tuple((begin, end) for begin, (end, _) in zip(begins, ends, strict=True)),
        dilation=window.rhs_dilate,
        output_padding=tuple(extra for _, extra in ends),
        groups=groups,
        dtype=line.dtype,
        out=line.out,
    )
    return _check_shape(line, problem, problem.out_shape, line.result)


def _read_as_gradient(line: Convolution) -> Problem:
    """The gradient of w: lhs b = C_in and f = N, rhs i = N and o = C_out; stride and rhs_dilate change places."""
    window, groups = line.window, line.batch_groups
    if max(window.lhs_dilate) > 1 or line.feature_groups > 1 or min(window.low) < 0:
        line.refuse("no problem expresses batch_group_count with lhs_dilate, feature_group_count or negative low pads")
    if line.lhs[1] != line.rhs[1] or line.lhs[0] % groups:
        line.refuse(f"batch_group_count={groups} does not fit lhs {line.lhs[:2]} and filter {line.rhs[:2]}")
    kernel = line.result[2:]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, window.stride, strict=True)]
    padding = tuple(
        (begin, find_padding_end(small, large, reach, stride, begin))
        for small, large, reach, stride, begin in zip(
            window.size, line.lhs[2:], reaches, window.rhs_dilate, window.low, strict=True
        )
    )
    problem = Problem(
        kind=line.kind("conv"),
        x=(line.lhs[1], line.lhs[0], *line.lhs[2:]),
        w=(line.rhs[0], line.lhs[0] // groups, *kernel),
        direction="grad_weight",
        stride=window.rhs_dilate,
        padding=padding,
        dilation=window.stride,
        groups=groups,
        dtype=line.dtype,
        out=line.out,
    )
    _check_shape(line, problem, problem.y_shape, (line.rhs[1], line.rhs[0], *window.size))
    return _check_shape(line, problem, problem.out_shape, (line.result[1], line.result[0], *kernel))


def _check_shape(line: Convolution, problem: Problem, derived: Shape, given: Shape) -> Problem:
    if derived != given:
        line.refuse(f"the shapes disagree: window and operands give {derived}, the line has {given}")
    return problem


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
