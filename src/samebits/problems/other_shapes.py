"""Results of another shape than the problem's: which one change of the problem gives just that shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from samebits.errors import SamebitsError
from samebits.problems.problem import Problem, Shape

_MOST_PADDING = 16


def explain_shape(problem: Problem, shape: Shape) -> str:
    """Words to add to "has another shape": the change that gives just this shape; empty where no known one does."""
    if shape == problem.out_shape:
        return ""
    if problem.product:
        # A product has no settings that change its shape.
        is_turned = shape == (*problem.out_shape[:-2], *problem.out_shape[:-3:-1])
        return "; that is its shape with the last two axes exchanged" if is_turned else ""
    n, c, *spatial = problem.out_shape
    if shape == (n, *spatial, c):
        return "; that is its shape with channels last"
    for says, changes in _list_changes(problem):
        try:
            if replace(problem, **changes).out_shape == shape:
                return f"; it would have that shape with {says}"
        except SamebitsError:
            continue
    return ""


def _list_changes(problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings lost or taken otherwise, likeliest first."""
    if problem.direction != "forward":
        return
    rank = problem.rank
    if problem.is_transposed and any(problem.output_padding):
        yield "output_padding=0", {"output_padding": (0,) * rank}
    yield "padding=0", {"padding": ((0, 0),) * rank}
    if not problem.is_transposed:
        yield "padding=same_upper", {"padding": "same_upper"}
    begins, ends = ([getattr(a, f"pad_{side}") for a in problem.axes] for side in ("begin", "end"))
    yield "the padding at the beginning alone", {"padding": tuple((b, 0) for b in begins)}
    yield "the padding at the end alone", {"padding": tuple((0, e) for e in ends)}
    yield "its padding exchanged", {"padding": tuple(zip(begins[::-1], ends[::-1], strict=True))}
    yield "stride=1", {"stride": (1,) * rank}
    yield "its strides exchanged", {"stride": problem.stride[::-1]}
    yield "dilation=1", {"dilation": (1,) * rank}
    yield "its dilations exchanged", {"dilation": problem.dilation[::-1]}
    if problem.is_transposed:
        for most in range(1, min(max(*problem.stride, *problem.dilation), _MOST_PADDING)):
            yield f"output_padding={most}", {"output_padding": (most,) * rank}
    for most in range(1, min(max(a.kernel for a in problem.axes), _MOST_PADDING)):
        yield f"padding={most}", {"padding": ((most, most),) * rank}
