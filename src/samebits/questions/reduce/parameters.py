"""A problem as whole numbers that can be changed one by one: the size of a result rather than that of an input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from samebits.errors import ProblemShapeError
from samebits.problems import Problem
from samebits.problems.problem import SPATIAL_AXES

Values = Mapping[str, int]
_PER_AXIS = ("size", "kernel", "stride", "dilation", "begin", "end", "rest")
_FROM_ZERO = ("begin", "end", "rest", "bias", "then")
# Numbers that can be changed so that the larger side of an axis keeps its size, and the smaller one follows.
_FOLLOWED = ("kernel", "stride", "dilation", "begin", "end")


def take_apart(problem: Problem) -> dict[str, int]:
    """The numbers of a problem; `put_together` makes the same problem of them, its padding written out.

    Per spatial axis `size` is the side that the stride divides, and `rest` what the other side has beyond what that
    needs: rows of the input that nothing reads, or output_padding. Channels are counted per group; `bias` and `then`
    are 0 or 1.
    """
    flags = {"bias": int(problem.bias), "then": int(problem.then is not None)}
    if problem.product:
        return {**_take_product_apart(problem), **flags}
    c_out = problem.w[1] if problem.is_transposed else problem.w[0] // problem.groups
    c_in = problem.w[0] // problem.groups if problem.is_transposed else problem.w[1]
    values = {"n": problem.x[0], "groups": problem.groups, "c_in": c_in, "c_out": c_out}
    for name, axis in zip(SPATIAL_AXES[problem.rank], problem.axes, strict=True):
        numbers = (axis.size_small, axis.kernel, axis.stride, axis.dilation, axis.pad_begin, axis.pad_end)
        rest = axis.size_large - _find_large([*numbers, 0])
        values |= {f"{part}_{name}": value for part, value in zip(_PER_AXIS, (*numbers, rest), strict=True)}
    return {**values, **flags}


def put_together(base: Problem, values: Values) -> Problem | None:
    """The problem of the same kind, direction and formats with these numbers; None where there is none."""
    try:
        problem = _put_product_together(base, values) if base.product else _put_convolution_together(base, values)
    except ProblemShapeError:
        return None
    # A rest beyond the stride is another size.
    return problem if take_apart(problem) == dict(values) else None


def find_floor(name: str) -> int:
    """The least that a number can be."""
    return 0 if name.partition("_")[0] in _FROM_ZERO else 1


def can_keep_large(base: Problem, name: str) -> bool:
    """Whether a number can be changed in two ways: the size that follows is that of the input, or of the result."""
    return base.product is None and name.partition("_")[0] in _FOLLOWED


def set_number(base: Problem, values: Values, name: str, value: int, *, keeps_large: bool = False) -> dict[str, int]:
    """The numbers with one changed; with `keeps_large` the larger side of its axis stays, the smaller one follows."""
    changed = {**values, name: value}
    part, _, axis = name.partition("_")
    if not keeps_large or part not in _FOLLOWED:
        return changed
    kept = _find_large([values[f"{p}_{axis}"] for p in _PER_AXIS])
    room = kept - _find_large([1, *(changed[f"{p}_{axis}"] for p in _PER_AXIS[1:-1]), 0])
    stride = changed[f"stride_{axis}"]
    return changed | {f"size_{axis}": room // stride + 1, f"rest_{axis}": room % stride}


def turn_axes(values: Values) -> dict[str, int]:
    """The numbers with those of the last two spatial axes exchanged; as they are where there is one axis, or none."""
    if "size_h" not in values:
        return dict(values)
    turned = {"h": "w", "w": "h"}
    return {name: values[_turn(name, turned)] for name in values}


def _turn(name: str, turned: Mapping[str, str]) -> str:
    part, _, axis = name.partition("_")
    return f"{part}_{turned[axis]}" if part in _PER_AXIS and axis in turned else name


def _find_large(numbers: Sequence[int]) -> int:
    """The larger side of an axis, from its numbers as `_PER_AXIS` names them."""
    small, kernel, stride, dilation, begin, end, rest = numbers
    return (small - 1) * stride + (kernel - 1) * dilation + 1 - begin - end + rest


def _put_convolution_together(base: Problem, values: Values) -> Problem:
    names = SPATIAL_AXES[base.rank]
    axes = [tuple(values[f"{part}_{name}"] for part in _PER_AXIS) for name in names]
    small = tuple(axis[0] for axis in axes)
    large = tuple(_find_large(axis) for axis in axes)
    kernels = tuple(axis[1] for axis in axes)
    c_in, c_out, groups = values["c_in"], values["c_out"], values["groups"]
    rests = tuple(axis[6] for axis in axes)
    if min(large) < 1:
        raise ProblemShapeError("an axis without elements")
    return Problem(
        kind=base.kind,
        x=(values["n"], c_in * groups, *(small if base.is_transposed else large)),
        w=(c_in * groups, c_out, *kernels) if base.is_transposed else (c_out * groups, c_in, *kernels),
        direction=base.direction,
        bias=bool(values["bias"]),
        stride=tuple(axis[2] for axis in axes),
        padding=tuple((axis[4], axis[5]) for axis in axes),
        dilation=tuple(axis[3] for axis in axes),
        output_padding=rests if base.is_transposed else (0,) * base.rank,
        groups=groups,
        dtype=base.dtype,
        out=base.out,
        then=base.then if values["then"] else None,
    )


def _take_product_apart(problem: Problem) -> dict[str, int]:
    values = {"k": problem.x[-1]}
    if problem.kind == "linear":
        values |= {f"rows_{i}" if len(problem.x) > 2 else "rows": size for i, size in enumerate(problem.x[:-1])}
        return values | {"columns": problem.w[0]}
    if len(problem.x) > 1:
        values["rows"] = problem.x[-2]
    if len(problem.w) > 1:
        values["columns"] = problem.w[-1]
    for i, (x, w) in enumerate(_pair_batches(problem)):
        values[f"batch_{i}"] = max(x or 1, w or 1)
    return values


def _pair_batches(problem: Problem) -> list[tuple[int | None, int | None]]:
    """The sizes of each axis of the batch in x and in w, from the last one; None where an array has no such axis."""
    x, w = problem.x[:-2][::-1], problem.w[:-2][::-1]
    count = max(len(x), len(w))
    return [(x[i] if i < len(x) else None, w[i] if i < len(w) else None) for i in range(count)]


def _put_product_together(base: Problem, values: Values) -> Problem:
    then = base.then if values["then"] else None
    if base.kind == "linear":
        rows = [values[f"rows_{i}" if len(base.x) > 2 else "rows"] for i in range(len(base.x) - 1)]
        return replace(
            base, x=(*rows, values["k"]), w=(values["columns"], values["k"]), bias=bool(values["bias"]), then=then
        )
    batches: tuple[list[int], list[int]] = ([], [])
    for i, pair in enumerate(_pair_batches(base)):
        whole = max(size or 1 for size in pair)
        for shape, size in zip(batches, pair, strict=True):
            if size is not None:
                shape.insert(0, values[f"batch_{i}"] if size == whole else 1)
    x = (*batches[0], *((values["rows"],) if len(base.x) > 1 else ()), values["k"])
    w = (*batches[1], values["k"], *((values["columns"],) if len(base.w) > 1 else ()))
    return replace(base, x=x, w=w, then=then)


def count_elements(problem: Problem) -> int:
    """How many numbers its operands and its result have together."""
    shapes = (*problem.operand_shapes.values(), problem.out_shape)
    return sum(math.prod(shape) for shape in shapes)
