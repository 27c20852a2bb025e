"""From a problem to sums of products: out[g, m, b, i] = sum over c, r of rows[g, m, c, r] * source[g, b, c, at(i, r)].

All kinds and directions are one of three forms, gather, scatter and filter (`problems.forms`).
A scatter splits into one phase per residue of the output index modulo the stride, each with the taps that reach it, so
that no product with an inserted zero is ever formed; outputs that no tap reaches are in none of them. Phases that
differ in their first tap only are one contraction: a stride of 100 along three axes makes a million phases.
Spatial axes are always three; missing ones have size 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from samebits.problems import Axis, Problem
from samebits.problems.terms import find_parts

Three = tuple[int, int, int]
Six = tuple[int, int, int, int, int, int]


class Contraction(NamedTuple):
    """One family of sums, all integers, in elements (not bytes); a NamedTuple because compiled code reads it.

    at(i, r) = source_start + i * source_output_step + r * source_term_step per axis; a term whose source lies outside
    [0, source_size) on any axis does not exist. Strides are (g, m, c, r0, r1, r2) for rows, (g, b, c, s0, s1, s2) for
    the source and (g, m, b, i0, i1, i2) for the result. All of this is repeated for each of `phases` (per axis), with
    rows and result a phase step further each time.
    """

    groups: int
    rows: int
    batch: int
    depth: int
    outputs: Three
    terms: Three
    source_size: Three
    source_start: Three
    source_output_step: Three
    source_term_step: Three
    rows_offset: int
    rows_strides: Six
    source_strides: Six
    out_offset: int
    out_strides: Six
    phases: Three
    rows_phase_steps: Three
    out_phase_steps: Three

    @property
    def reduction_length(self) -> int:
        """Terms in a whole sum."""
        return self.depth * math.prod(self.terms)


@dataclass(frozen=True)
class Plan:
    """The contractions of a problem, and which operand plays which part in them.

    Each output element belongs to one contraction, or, if no term reaches it (`count_gaps` of them), to none.
    """

    rows_operand: str
    source_operand: str
    contractions: tuple[Contraction, ...]
    outputs: int

    def count_gaps(self) -> int:
        """How many outputs are empty sums; only transposed forms with a stride beyond their kernel have any."""
        return self.outputs - sum(
            c.groups * c.rows * c.batch * math.prod((*c.outputs, *c.phases)) for c in self.contractions
        )


@dataclass(frozen=True)
class _Sweep:
    """One axis of one contraction, with the steps of the result's and the rows' own indices."""

    outputs: int
    terms: int
    source_size: int
    source_start: int
    source_output_step: int
    source_term_step: int
    out_start: int = 0
    out_step: int = 1
    rows_start: int = 0
    rows_step: int = 1
    phases: int = 1
    rows_phase_step: int = 0
    out_phase_step: int = 0


def plan_contractions(problem: Problem) -> Plan:
    """The plan of a problem."""
    axes = (Axis(1, 1, 1, 1, 1, 0, 0),) * (3 - problem.rank) + problem.axes
    parts = find_parts(problem)
    contractions = {"gather": _gather, "scatter": _scatter, "filter": _filter}[parts.form](problem, axes)
    return Plan(parts.rows_operand, parts.source_operand, tuple(contractions), math.prod(problem.out_shape))


def _gather(problem: Problem, axes: tuple[Axis, ...]) -> Iterator[Contraction]:
    sweeps = [_Sweep(a.size_small, a.kernel, a.size_large, -a.pad_begin, a.stride, a.dilation) for a in axes]
    n, small, per_group, g = problem.x[0], problem.w[0], problem.w[1], problem.groups
    taps, in_size, out_size = _volumes(axes)
    rows = small // g
    yield _contraction(
        (g, rows, n, per_group),
        sweeps,
        rows=(rows * per_group * taps, per_group * taps, taps, *_spatial([a.kernel for a in axes])),
        source=(per_group * in_size, g * per_group * in_size, in_size, *_spatial([a.size_large for a in axes])),
        out=(rows * out_size, out_size, small * out_size, *_spatial([a.size_small for a in axes])),
    )


def _scatter(problem: Problem, axes: tuple[Axis, ...]) -> Iterator[Contraction]:
    n, small, per_group, g = problem.x[0], problem.w[0], problem.w[1], problem.groups
    taps, large_size, small_size = _volumes(axes)
    depth = small // g
    for sweeps in itertools.product(*(list(_phases(a)) for a in axes)):
        yield _contraction(
            (g, per_group, n, depth),
            list(sweeps),
            rows=(depth * per_group * taps, taps, per_group * taps, *_spatial([a.kernel for a in axes])),
            source=(depth * small_size, small * small_size, small_size, *_spatial([a.size_small for a in axes])),
            out=(
                per_group * large_size,
                large_size,
                g * per_group * large_size,
                *_spatial([a.size_large for a in axes]),
            ),
        )


def _filter(problem: Problem, axes: tuple[Axis, ...]) -> Iterator[Contraction]:
    sweeps = [_Sweep(a.kernel, a.size_small, a.size_large, -a.pad_begin, a.dilation, a.stride) for a in axes]
    n, small, per_group, g = problem.x[0], problem.w[0], problem.w[1], problem.groups
    taps, large_size, small_size = _volumes(axes)
    rows = small // g
    yield _contraction(
        (g, rows, per_group, n),
        sweeps,
        rows=(rows * small_size, small_size, small * small_size, *_spatial([a.size_small for a in axes])),
        source=(
            per_group * large_size,
            large_size,
            g * per_group * large_size,
            *_spatial([a.size_large for a in axes]),
        ),
        out=(rows * per_group * taps, per_group * taps, taps, *_spatial([a.kernel for a in axes])),
    )


def _phases(axis: Axis) -> Iterator[_Sweep]:
    """Output indices q of a scatter, by residue: tap k reaches q where stride divides q + pad_begin - k * dilation.

    Only residues that some tap reaches; they are found from the first taps, which meet each of them once. Neighbouring
    taps that reach as many outputs, with as many terms, from the same source index are phases of one sweep.
    """
    step = axis.stride // math.gcd(axis.stride, axis.dilation)

    def reach(tap: int) -> tuple[int, int, int] | None:
        """Outputs, terms and first source index of a tap's residue; None where the result ends before it."""
        start = (tap * axis.dilation - axis.pad_begin) % axis.stride
        if start >= axis.size_large:
            return None
        first = (start + axis.pad_begin - tap * axis.dilation) // axis.stride
        return -(-(axis.size_large - start) // axis.stride), -(-(axis.kernel - tap) // step), first

    for same, taps in itertools.groupby(range(min(step, axis.kernel)), reach):
        if same is None:
            continue
        outputs, terms, source_start = same
        tap, *others = taps
        yield _Sweep(
            outputs=outputs,
            terms=terms,
            source_size=axis.size_small,
            source_start=source_start,
            source_output_step=1,
            source_term_step=-(step * axis.dilation) // axis.stride,
            out_start=(tap * axis.dilation - axis.pad_begin) % axis.stride,
            out_step=axis.stride,
            rows_start=tap,
            rows_step=step,
            phases=1 + len(others),
            rows_phase_step=1,
            out_phase_step=axis.dilation,
        )


def _volumes(axes: tuple[Axis, ...]) -> tuple[int, int, int]:
    # A tuple of three by its names, which a generator does not tell the checker.
    return tuple(math.prod(getattr(a, name) for a in axes) for name in ("kernel", "size_large", "size_small"))  # type: ignore[return-value]  (three)


def _spatial(sizes: list[int]) -> Three:
    """Row-major strides of the three spatial axes."""
    return sizes[1] * sizes[2], sizes[2], 1


def _contraction(
    counts: tuple[int, int, int, int], sweeps: list[_Sweep], rows: Six, source: Six, out: Six
) -> Contraction:
    def three(name: str) -> Three:
        a, b, c = (getattr(s, name) for s in sweeps)
        return a, b, c

    def stepped(strides: Six, name: str) -> tuple[int, Six]:
        starts, steps = three(f"{name}_start"), three(f"{name}_step")
        offset = sum(s * t for s, t in zip(starts, strides[3:], strict=True))
        # Six strides: three as they are and three times their steps; the checker cannot count a generator.
        return offset, (*strides[:3], *(s * t for s, t in zip(steps, strides[3:], strict=True)))  # type: ignore[return-value]  (six)

    rows_offset, rows_strides = stepped(rows, "rows")
    out_offset, out_strides = stepped(out, "out")

    def phase_steps(strides: Six, name: str) -> Three:
        a, b, c = (s * t for s, t in zip(three(f"{name}_phase_step"), strides[3:], strict=True))
        return a, b, c

    groups, count, batch, depth = counts
    return Contraction(
        groups, count, batch, depth,
        three("outputs"), three("terms"), three("source_size"), three("source_start"),
        three("source_output_step"), three("source_term_step"),
        rows_offset, rows_strides, source, out_offset, out_strides,
        three("phases"), phase_steps(rows, "rows"), phase_steps(out, "out"),
    )  # fmt: skip
