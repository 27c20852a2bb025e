"""The terms of a problem: out[g, m, b, s] = sum over d, v of rows[g, m, d, v] * source[g, b, d, at(s, v)].

Every kind and direction has this form; a *term* is one product, numbered d * volume + v within its sum. Which operand
gives the rows, and what the axes of d and v are called, depends on the direction:

    gather (fprop)    rows w                     terms c kh kw
    scatter (dgrad)   rows w                     terms c kh kw
    filter (wgrad)    rows dy (transposed: x)    terms n oh ow

`forms` says which problems have which form.

So all terms of one output stand in one row of one operand, and an output's position (b, s) says what they meet there.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.problems.lowering import lower_problem
from samebits.problems.problem import SPATIAL_AXES, Axis, Problem

Form = Literal["gather", "scatter", "filter"]


@dataclass(frozen=True)
class Parts:
    """The form of a problem's sums; the operand whose rows hold a sum's factors, and the one that is read at places."""

    form: Form
    rows_operand: str
    source_operand: str


def find_parts(problem: Problem) -> Parts:
    """The form of a problem and the parts its operands play in it."""
    small, large = ("x", "dy") if problem.is_transposed else ("dy", "x")
    if problem.direction == "grad_weight":
        return Parts("filter", small, large)
    source = "x" if problem.direction == "forward" else "dy"
    gathers = (problem.direction == "forward") != problem.is_transposed
    return Parts("gather" if gathers else "scatter", "w", source)


@dataclass(frozen=True)
class Terms:
    """Sizes and views; `find_terms` makes one. All views share memory with the array they are made from.

    `axes` say which source index an output's term reads. They are the problem's own; with others in their place the
    same operands make another function of the same shape.
    """

    problem: Problem
    form: Form
    rows_operand: str
    source_operand: str
    groups: int
    rows: int
    batch: int
    depth: int
    spans: tuple[int, ...]
    outputs: tuple[int, ...]
    source_sizes: tuple[int, ...]
    axes: tuple[Axis, ...]

    @property
    def volume(self) -> int:
        """Terms per channel (or batch item): the product of the spans."""
        return math.prod(self.spans)

    @property
    def count(self) -> int:
        """Terms in a whole sum; a border or a phase of the stride may miss some of them."""
        return self.depth * self.volume

    @property
    def positions(self) -> int:
        """Places (b, s) that an output row has, batch included."""
        return self.batch * math.prod(self.outputs)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes that terms are numbered along, slowest first: c kh kw or n oh ow; k of a product."""
        if self.problem.stated:
            return ({"gather": "k", "scatter": "n", "filter": "m"}[self.form], "one")
        letter = "o" if self.form == "filter" else "k"
        first = "n" if self.form == "filter" else "c"
        return (first, *(letter + a for a in SPATIAL_AXES[self.problem.rank]))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes that terms are numbered along, slowest first."""
        return (self.depth, *self.spans)

    def view_rows(self, array: np.ndarray) -> np.ndarray:
        """The rows operand as [groups, rows, depth, volume]."""
        g, m, d, v = self.groups, self.rows, self.depth, self.volume
        if self.form == "gather":
            return array.reshape(g, m, d, v)
        if self.form == "scatter":
            return array.reshape(g, d, m, v).transpose(0, 2, 1, 3)
        return array.reshape(d, g, m, v).transpose(1, 2, 0, 3)

    def view_source(self, array: np.ndarray) -> np.ndarray:
        """The other operand as [groups, batch, depth, its spatial size]."""
        g, b, d, size = self.groups, self.batch, self.depth, math.prod(self.source_sizes)
        if self.form == "filter":
            return array.reshape(d, g, b, size).transpose(1, 2, 0, 3)
        return array.reshape(b, g, d, size).transpose(1, 0, 2, 3)

    def view_result(self, array: np.ndarray) -> np.ndarray:
        """A result as [groups, rows, batch, outputs]."""
        g, m, b, s = self.groups, self.rows, self.batch, math.prod(self.outputs)
        if self.form == "filter":
            return array.reshape(g, m, b, s)
        return array.reshape(b, g, m, s).transpose(1, 2, 0, 3)

    @functools.cached_property
    def reaches(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Per spatial axis, [outputs, spans]: the source index that an output's term reads, -1 where it has none."""
        return tuple(_reach(self.form, a) for a in self.axes)

    @functools.cached_property
    def patterns(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Which terms exist where: the pattern's number for each s, and for each pattern a mask over v."""
        number = np.zeros(1, np.int64)
        masks = np.ones((1, 1), bool)
        for reach in self.reaches:
            own, inverse = _find_distinct_rows(reach >= 0)
            number = (number[:, None] * len(own) + inverse.reshape(1, -1)).reshape(-1)
            masks = (masks[:, None, :, None] & own[None, :, None, :]).reshape(len(masks) * len(own), -1)
        used, number = np.unique(number, return_inverse=True)
        return number, masks[used]

    @functools.cached_property
    def phases(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """As `patterns`, with borders ignored: which terms could exist at s, were the source endless.

        Only a scatter with a stride has more than one phase.
        """
        number = np.zeros(1, np.int64)
        masks = np.ones((1, 1), bool)
        for a, span, size in zip(self.axes, self.spans, self.outputs, strict=True):
            if self.form == "scatter":
                offset = np.arange(size)[:, None] + a.pad_begin - np.arange(span)[None, :] * a.dilation
                possible = offset % a.stride == 0
            else:
                possible = np.ones((size, span), bool)
            own, inverse = _find_distinct_rows(possible)
            number = (number[:, None] * len(own) + inverse.reshape(1, -1)).reshape(-1)
            masks = (masks[:, None, :, None] & own[None, :, None, :]).reshape(len(masks) * len(own), -1)
        used, number = np.unique(number, return_inverse=True)
        return number, masks[used]

    def locate_sources(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[len(places), volume]: the flat source index of every term at each of some s, -1 where there is none."""
        index = np.unravel_index(places, self.outputs)
        flat = np.zeros((len(places), 1), np.int64)
        missing = np.zeros((len(places), 1), bool)
        for i, reach, size in zip(index, self.reaches, self.source_sizes, strict=True):
            part = reach[i]
            flat = (flat[:, :, None] * size + part[:, None, :]).reshape(len(places), -1)
            missing = (missing[:, :, None] | (part[:, None, :] < 0)).reshape(len(places), -1)
        return np.where(missing, -1, flat)


@functools.lru_cache(maxsize=8)
def find_terms(problem: Problem) -> Terms:
    """The terms of a problem; of a product, those of the convolution with the same sums."""
    problem = lower_problem(problem).convolution
    small = tuple(a.size_small for a in problem.axes)
    large = tuple(a.size_large for a in problem.axes)
    kernel = tuple(a.kernel for a in problem.axes)
    parts = find_parts(problem)
    n, g, channels_small, per_group = problem.x[0], problem.groups, problem.w[0], problem.w[1]
    # rows, batch, depth, spans, outputs, source sizes
    sizes = {
        "gather": (channels_small // g, n, per_group, kernel, small, large),
        "scatter": (per_group, n, channels_small // g, kernel, large, small),
        "filter": (channels_small // g, per_group, n, small, kernel, large),
    }[parts.form]
    return Terms(problem, parts.form, parts.rows_operand, parts.source_operand, g, *sizes, problem.axes)


def _find_distinct_rows(masks: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """The distinct rows, sorted, and which of them each row is; in time in proportion to the masks.

    Along an axis the terms that exist for one output follow each other at one step, the same for all outputs: so the
    first of them and their number tell one row from another.
    """
    keys = masks.argmax(axis=1) * (masks.shape[1] + 1) + masks.sum(axis=1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rows = masks[first]
    order = np.array(sorted(range(len(rows)), key=lambda i: rows[i].tobytes()), np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return rows[order], place[inverse.reshape(-1)]


def _reach(form: Form, a: Axis) -> npt.NDArray[np.int64]:
    small, tap = np.arange(a.size_small), np.arange(a.kernel)
    if form == "scatter":
        offset = np.arange(a.size_large)[:, None] + a.pad_begin - tap[None, :] * a.dilation
        at = offset // a.stride
        exists = (offset % a.stride == 0) & (at >= 0) & (at < a.size_small)
        return np.where(exists, at, -1)
    at = small[:, None] * a.stride - a.pad_begin + tap[None, :] * a.dilation
    reach = np.where((at >= 0) & (at < a.size_large), at, -1)
    return reach if form == "gather" else reach.T.copy()
