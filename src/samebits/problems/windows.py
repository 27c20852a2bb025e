"""Which operand elements one output reads, and which outputs read padding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.problems.attention import Attention
from samebits.problems.problem import SPATIAL_AXES, Axis, Problem
from samebits.problems.product_shapes import ProductShapes
from samebits.problems.row_functions import NORMS, RowFunction

Range = list[int]
_RESULTS = {"forward": "y", "grad_input": "x", "grad_weight": "w"}


def name_axes(problem: Problem) -> tuple[str, ...]:
    """Names of the result's axes: n c_out oh ow, n c_in h w, or c_out c_per_group kh kw.

    Of a product the batch's, m and n (k for a gradient); of the convolution in its place m and n (or k), the batch's
    taken in.
    """
    if problem.product:
        return problem.product.labels[_RESULTS[problem.direction]]
    if problem.stated:
        return {"forward": ("m", "n", "one"), "grad_input": ("m", "k", "one"), "grad_weight": ("n", "k", "one")}[
            problem.direction
        ]
    spatial = SPATIAL_AXES[problem.rank]
    if problem.direction == "grad_weight":
        first = ("c_in", "c_per_group") if problem.is_transposed else ("c_out", "c_per_group")
        return (*first, *(f"k{s}" for s in spatial))
    if problem.direction == "grad_input":
        return ("n", "c_in", *spatial)
    return ("n", "c_out", *(f"o{s}" for s in spatial))


def locate_window(problem: Problem, index: tuple[int, ...]) -> dict[str, list[Range]]:
    """Half-open index ranges, per axis, of what the output at `index` gathers from: x or dy, clipped to what exists."""
    if problem.product:
        return _product_window(problem, problem.product, index)
    if problem.direction == "grad_weight":
        return _filter_window(problem, index)
    gathers = (problem.direction == "forward") != problem.is_transposed
    source = "x" if problem.direction == "forward" else "dy"
    spatial = [_gathered(a, i) if gathers else _scattered(a, i) for a, i in zip(problem.axes, index[2:], strict=True)]
    per_group = problem.w[1] if gathers else problem.w[0] // problem.groups
    own_per_group = problem.w[0] // problem.groups if gathers else problem.w[1]
    group = index[1] // own_per_group
    return {source: [[index[0], index[0] + 1], [group * per_group, (group + 1) * per_group], *spatial]}


def locate_keys(attention: Attention, index: tuple[int, ...]) -> dict[str, list[Range]]:
    """The same of an attention's output: which item, head, keys and features of k and v it reads, any mask aside."""
    item, head, query, feature = index
    seen = np.flatnonzero(attention.sees()[query])
    own = head // attention.group
    keys = [int(seen[0]), int(seen[-1]) + 1] if len(seen) else [0, 0]
    first = [[item, item + 1], [own, own + 1], keys]
    return {"k": [*first, [0, attention.k[3]]], "v": [*first, [feature, feature + 1]]}


def locate_row(function: RowFunction, index: tuple[int, ...]) -> dict[str, list[Range]]:
    """The same of a row function's output: the part of x it reads."""
    found = [[i, i + 1] for i in index]
    if function.kind == "softmax":
        found[function.axis] = [0, function.row_length]
    elif function.kind in NORMS:
        found[len(found) - function.axes :] = [[0, size] for size in function.normalized_shape]
    elif function.kind == "rope":
        found[-1] = [0, function.x[-1]]
    return {"x": found}


def mark_border(problem: Problem) -> npt.NDArray[np.bool_]:
    """True, over the result's spatial axes, where an output misses terms because they would lie outside."""
    marks = np.zeros(problem.out_shape[2:], bool)
    for begin, end in mark_sides(problem):
        marks |= begin | end
    return marks


def mark_sides(problem: Problem) -> list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """`mark_border` by axis and end: where terms are missed at the beginning, and where at the end, of each axis."""
    sides: list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]] = []
    for position, (axis, size) in enumerate(zip(problem.axes, problem.out_shape[2:], strict=True)):
        counts = np.array([_count_terms(problem, axis, i) for i in range(size)])
        shape = [1] * problem.rank
        shape[position] = size
        misses, first = counts < counts.max(), np.arange(size) < size / 2
        begin, end = ((misses & half).reshape(shape) for half in (first, ~first))
        sides.append((np.broadcast_to(begin, problem.out_shape[2:]), np.broadcast_to(end, problem.out_shape[2:])))
    return sides


def _product_window(problem: Problem, product: ProductShapes, index: tuple[int, ...]) -> dict[str, list[Range]]:
    """As `locate_window`: where the source has an axis of the result, the output's own index; else all of the axis."""
    own = dict(zip(product.labels[_RESULTS[problem.direction]], index, strict=True))
    source = "y" if problem.direction == "grad_input" else "x"
    window: list[Range] = []
    for label, size in zip(product.labels[source], product.sizes[source], strict=True):
        at = min(own[label], size - 1) if label in own else None
        window.append([0, size] if at is None else [at, at + 1])
    return {"dy" if source == "y" else "x": window}


def _gathered(a: Axis, i: int) -> Range:
    begin = i * a.stride - a.pad_begin
    return _clip(begin, begin + (a.kernel - 1) * a.dilation + 1, a.size_large)


def _scattered(a: Axis, i: int) -> Range:
    first = -((-(i + a.pad_begin - (a.kernel - 1) * a.dilation)) // a.stride)
    return _clip(first, (i + a.pad_begin) // a.stride + 1, a.size_small)


def _filter_window(problem: Problem, index: tuple[int, ...]) -> dict[str, list[Range]]:
    source = "dy" if problem.is_transposed else "x"
    spatial = []
    for a, tap in zip(problem.axes, index[2:], strict=True):
        begin = tap * a.dilation - a.pad_begin
        spatial.append(_clip(begin, begin + (a.size_small - 1) * a.stride + 1, a.size_large))
    group = index[0] // (problem.w[0] // problem.groups)
    channel = group * problem.w[1] + index[1]
    return {source: [[0, problem.x[0]], [channel, channel + 1], *spatial]}


def _count_terms(problem: Problem, a: Axis, i: int) -> int:
    if problem.direction == "grad_weight":
        at = i * a.dilation - a.pad_begin + np.arange(a.size_small) * a.stride
        return int(((at >= 0) & (at < a.size_large)).sum())
    at = np.arange(a.kernel) * a.dilation
    if (problem.direction == "forward") != problem.is_transposed:
        at = i * a.stride - a.pad_begin + at
        return int(((at >= 0) & (at < a.size_large)).sum())
    # Where stride exceeds the kernel some outputs have no tap at all; only a missing position makes a border.
    reached = i + a.pad_begin - at
    missing = (reached % a.stride == 0) & ((reached < 0) | (reached >= a.size_small * a.stride))
    return -int(missing.sum())


def _clip(begin: int, end: int, size: int) -> Range:
    return [min(max(begin, 0), size), max(min(end, size), 0)]
