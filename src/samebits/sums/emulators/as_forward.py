"""Every direction as the forward convolution that computes it, for algorithms that are defined on that one only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from samebits.problems import Problem
from samebits.problems.terms import find_terms


@dataclass(frozen=True)
class Forward:
    """out[b, g, m, s] = sum over d, v of w[g, m, d, v] * x[b, g, d, s * stride - pad + v * dilation].

    `x` is [batch, groups, depth, *sizes], `w` [groups, rows, depth, *taps]; `pads` are (begin, end) per axis, where an
    end that reaches beyond what any output reads may be negative; `outputs` is the result's spatial size and `restore`
    brings [batch, groups, rows, *outputs] into the problem's own shape.
    """

    x: np.ndarray
    w: np.ndarray
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]
    restore: Callable[[np.ndarray], np.ndarray]


def as_forward(problem: Problem, operands: Mapping[str, np.ndarray]) -> Forward:
    """The forward convolution of a problem; operands keep their dtype and values (zeros are added between some)."""
    terms = find_terms(problem)
    g, m, b, d = terms.groups, terms.rows, terms.batch, terms.depth
    w = np.ascontiguousarray(terms.view_rows(operands[terms.rows_operand])).reshape(g, m, d, *terms.spans)
    source = np.ascontiguousarray(terms.view_source(operands[terms.source_operand]))
    x = np.moveaxis(source.reshape(g, b, d, *terms.source_sizes), 0, 1)
    axes = problem.axes
    if terms.form == "scatter":
        spread = np.zeros((b, g, d, *((a.size_small - 1) * a.stride + 1 for a in axes)), x.dtype)
        spread[(slice(None),) * 3 + tuple(slice(None, None, a.stride) for a in axes)] = x
        x = spread
        w = w[(slice(None),) * 3 + (slice(None, None, -1),) * len(axes)]
        stride, dilation = (1,) * len(axes), tuple(a.dilation for a in axes)
        begins = tuple((a.kernel - 1) * a.dilation - a.pad_begin for a in axes)
    elif terms.form == "filter":
        stride, dilation = tuple(a.dilation for a in axes), tuple(a.stride for a in axes)
        begins = tuple(a.pad_begin for a in axes)
    else:
        stride, dilation = tuple(a.stride for a in axes), tuple(a.dilation for a in axes)
        begins = tuple(a.pad_begin for a in axes)
    reads = [
        (o - 1) * s + (n - 1) * k + 1 for o, s, n, k in zip(terms.outputs, stride, w.shape[3:], dilation, strict=True)
    ]
    pads = tuple((p, r - p - n) for p, r, n in zip(begins, reads, x.shape[3:], strict=True))

    def restore(result: np.ndarray) -> np.ndarray:
        placed = np.zeros(problem.out_shape, result.dtype)
        terms.view_result(placed)[...] = np.moveaxis(result, 0, 2).reshape(g, m, b, -1)
        return placed

    return Forward(x, np.ascontiguousarray(w), stride, dilation, pads, terms.outputs, restore)


def pad_or_crop(x: np.ndarray, pads: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Zeros around the spatial axes (the last ones), or less of them where a pad is negative."""
    widths = [(0, 0)] * (x.ndim - len(pads)) + [(max(b, 0), max(e, 0)) for b, e in pads]
    padded = np.pad(x, widths)
    crop = [slice(None)] * (x.ndim - len(pads))
    crop += [slice(max(-b, 0), padded.shape[x.ndim - len(pads) + i] - max(-e, 0)) for i, (b, e) in enumerate(pads)]
    return padded[tuple(crop)]
