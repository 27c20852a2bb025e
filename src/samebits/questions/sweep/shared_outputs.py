"""Operands that all sizes of a sweep share, and the outputs whose exact value is the same at each of them.

The largest size of each axis gives the operands; a smaller one reads their beginning. Items of a batch, and rows of a
product, are all equal, so that each output's value is the first item's. Terms that only larger sums have are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.errors import ProblemShapeError
from samebits.problems import Problem
from samebits.problems.operands import make_normal

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """The largest problem, its operands, the leading part of every result that is shared, and the axis of the items."""

    largest: Problem
    operands: Mapping[str, np.ndarray]
    outputs: Shape
    item_axis: int | None


def share_outputs(problems: Sequence[Problem], seed: int = 0, *, equal: bool = True) -> Shared:
    """What the problems of a sweep have in common; raises ProblemShapeError where no output is shared.

    With `equal` all items of a batch, or rows, are the first one.
    """
    first = problems[0]
    if first.direction != "forward":
        raise ProblemShapeError("a sweep is over sizes of a forward problem: of a gradient every size changes the sums")
    shapes_x, shapes_w = _align([p.x for p in problems]), _align([p.w for p in problems])
    x, w = tuple(map(max, shapes_x)), tuple(map(max, shapes_w))
    least_x, least_w = tuple(map(min, shapes_x)), tuple(map(min, shapes_w))
    largest = replace(first, x=x, w=w)
    operands = make_normal(largest, seed)
    _clear_longer_sums(first, operands["w"], least_w)
    of_x, item_axis = _find_item_axes(first)
    if of_x is not None and equal:
        operands["x"][...] = np.take(operands["x"], [0], of_x)
    outputs = _find_product_outputs(problems) if first.product else _find_outputs(problems, least_x)
    if min(outputs, default=1) < 1:
        raise ProblemShapeError("no output reads the same inputs at every one of these sizes; begin at a larger one")
    return Shared(largest, operands, outputs, item_axis)


def _align(shapes: Sequence[Shape]) -> list[Shape]:
    """The sizes of each axis at all points."""
    return list(zip(*shapes, strict=True))


def _find_item_axes(problem: Problem) -> tuple[int | None, int | None]:
    """The axes of x and of the result along which items are independent: the batch, of a product the rows."""
    if problem.product is None:
        return 0, 0
    if len(problem.x) < 2:
        return None, None
    return len(problem.x) - 2, len(problem.out_shape) - (2 if len(problem.w) > 1 else 1)


def _clear_longer_sums(problem: Problem, w: np.ndarray, least: Shape) -> None:
    """Sets weights to zero where a sum of the smallest size has no term: along all axes of w but the result's."""
    if problem.product:
        labels = problem.product.labels["w"]
        summed = [i for i, label in enumerate(labels) if label == "k"]
    else:
        own = (1 if problem.is_transposed else 0,)
        summed = [i for i in range(w.ndim) if i not in own]
    for axis in summed:
        index = [slice(None)] * w.ndim
        index[axis] = slice(least[axis], None)
        w[tuple(index)] = 0


def _find_product_outputs(problems: Sequence[Problem]) -> Shape:
    return tuple(min(sizes) for sizes in zip(*(p.out_shape for p in problems), strict=True))


def _find_outputs(problems: Sequence[Problem], least_x: Shape) -> Shape:
    """The shape of the outputs of the smallest sizes whose windows end before the part that larger inputs add."""
    first = problems[0]
    if len({tuple(a.pad_begin for a in p.axes) for p in problems}) > 1:
        raise ProblemShapeError(f"padding={first.padding} begins elsewhere at other sizes; give the numbers")
    kept: list[int] = []
    for a in range(first.rank):
        shared = min(p.out_shape[2 + a] for p in problems)
        if len({p.x[2 + a] for p in problems}) > 1:
            shared = min(shared, *(_count_unaffected(p, a, least_x[2 + a]) for p in problems))
        kept.append(max(shared, 0))
    if first.groups > 1 and len({(p.c_in, p.c_out) for p in problems}) > 1:
        raise ProblemShapeError("with groups, other channels are other groups: sweep the batch or the space")
    channels = min(p.c_out for p in problems)
    return (min(p.x[0] for p in problems), channels, *kept)


def _count_unaffected(problem: Problem, a: int, length: int) -> int:
    """The number of outputs along an axis that read nothing from `length` on, and no padding behind it."""
    axis = problem.axes[a]
    if problem.is_transposed:
        # Input p reaches outputs from p stride - padding on.
        return length * axis.stride - axis.pad_begin
    reach = (axis.kernel - 1) * axis.dilation
    return (length - 1 - reach + axis.pad_begin) // axis.stride + 1
