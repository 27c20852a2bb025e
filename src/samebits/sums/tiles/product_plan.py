"""From a matrix product to sums of products read where its arrays lie, with no copy of an operand or a result.

The contraction has one axis of groups, one of rows, one of terms, and four axes of the source's positions; a product's
axes are merged until they fit. Where they do not, as with batches of both operands one inside the other, whoever asks
goes by way of the convolution with the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.problems import Problem
from samebits.problems.lowering import Lowering, lower_problem
from samebits.sums.tiles.microkernel import LANES, PIXELS
from samebits.sums.tiles.plan import Contraction, Plan, plan_contractions
from samebits.sums.tiles.tiles import MOST_DOT_POSITIONS

# What reading the source against its grain costs, where it is copied one value at a time.
_AGAINST_GRAIN = 1.25


@dataclass(frozen=True)
class _Axis:
    """Labels taken as one axis: its size, and its step in each array that has it."""

    size: int
    steps: dict[str, int]


def plan_problem(problem: Problem) -> tuple[Plan, Lowering | None]:
    """The plan of a problem, and by way of which convolution, if by any; then it takes and gives that one's arrays."""
    plan = plan_product(problem)
    if plan:
        return plan, None
    lowering = lower_problem(problem)
    return plan_contractions(lowering.convolution), lowering if lowering.is_product else None


def plan_product(problem: Problem) -> Plan | None:
    """The plan of a product on its stated arrays, C-contiguous; None for a convolution, or where axes do not merge."""
    if problem.product is None:
        return None
    result = {"forward": "y", "grad_input": "x", "grad_weight": "w"}[problem.direction]
    operands = [name for name in ("y", "x", "w") if name != result]
    steps = {name: _find_steps(problem, name) for name in ("x", "w", "y")}
    sizes = {label: size for name in ("x", "w", "y") for label, (size, _) in steps[name].items()}

    def merge(has: Sequence[str], lacks: Sequence[str]) -> list[_Axis]:
        # In the sequence of the first array that has them.
        labels = [n for n in steps[has[0]] if all(n in steps[a] for a in has) and not any(n in steps[a] for a in lacks)]
        return _merge([_Axis(sizes[n], {a: steps[a][n][1] for a in has}) for n in labels])

    one, other = operands
    groups, terms = merge([result, one, other], []), merge([one, other], [result])
    own = {one: merge([result, one], [other]), other: merge([result, other], [one])}
    choices = [(rows, source) for rows, source in ((one, other), (other, one)) if not problem.bias or rows == "w"]
    fitting = [c for c in choices if max(len(groups), len(terms), len(own[c[0]])) <= 1 and len(own[c[1]]) <= 4]
    if not fitting:
        return None
    rows, source = min(fitting, key=lambda c: _waste(own[c[0]], own[c[1]], c[1], result))
    contraction = _contract(groups, terms, own[rows], own[source], (rows, source, result))
    if contraction is None:
        return None
    names = {"y": "dy"} if problem.direction != "forward" else {}
    return Plan(names.get(rows, rows), names.get(source, source), (contraction,), math.prod(problem.out_shape))


def _find_steps(problem: Problem, name: str) -> dict[str, tuple[int, int]]:
    """For every axis longer than 1 of an array: its size and its stride."""
    assert problem.product is not None
    shape = problem.product.sizes[name]
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    both = zip(problem.product.labels[name], zip(shape, strides, strict=True), strict=True)
    return {label: (size, stride) for label, (size, stride) in both if size > 1}


def _merge(axes: list[_Axis]) -> list[_Axis]:
    """Neighbours as one axis wherever the outer one's step is the whole inner one, in every array."""
    merged: list[_Axis] = []
    for axis in axes:
        before = merged[-1] if merged else None
        if before and all(before.steps[a] == axis.size * step for a, step in axis.steps.items()):
            merged[-1] = _Axis(before.size * axis.size, axis.steps)
        else:
            merged.append(axis)
    return merged


def _waste(rows: list[_Axis], positions: list[_Axis], source: str, result: str) -> float:
    """Products computed for every useful one, more where the source is read against its grain."""
    row_count, position_count = (math.prod(a.size for a in axes) for axes in (rows, positions))
    share = -(-row_count // LANES) * LANES / row_count
    if position_count <= MOST_DOT_POSITIONS:
        return 1.0
    share *= -(-position_count // PIXELS) * PIXELS / position_count
    along = bool(positions) and positions[-1].steps[source] == 1 and positions[-1].steps[result] == 1
    return share if along else share * _AGAINST_GRAIN


def _contract(
    groups: list[_Axis], terms: list[_Axis], rows: list[_Axis], positions: list[_Axis], arrays: tuple[str, str, str]
) -> Contraction | None:
    row_array, source_array, result = arrays
    none = _Axis(1, dict.fromkeys(arrays, 0))
    group, term, row = ((axes or [none])[0] for axes in (groups, terms, rows))
    # Runs of the source are copied along the last axis, so only one that has no gaps may stand there.
    inner = none
    if positions and positions[-1].steps[source_array] == 1:
        *positions, inner = positions
    if len(positions) > 3:
        return None
    batch, outer0, outer1 = (positions[::-1] + [none] * 3)[:3]
    places = (outer0, outer1, inner)
    return Contraction(
        groups=group.size,
        rows=row.size,
        batch=batch.size,
        depth=term.size,
        outputs=(outer0.size, outer1.size, inner.size),
        terms=(1, 1, 1),
        source_size=(outer0.size, outer1.size, inner.size),
        source_start=(0, 0, 0),
        source_output_step=(1, 1, 1),
        source_term_step=(1, 1, 1),
        rows_offset=0,
        rows_strides=(group.steps[row_array], row.steps[row_array], term.steps[row_array], 0, 0, 0),
        source_strides=(
            group.steps[source_array],
            batch.steps[source_array],
            term.steps[source_array],
            *_three([a.steps[source_array] for a in places]),
        ),
        out_offset=0,
        out_strides=(
            group.steps[result], row.steps[result], batch.steps[result], *_three([a.steps[result] for a in places]),
        ),
        phases=(1, 1, 1),
        rows_phase_steps=(0, 0, 0),
        out_phase_steps=(0, 0, 0),
    )  # fmt: skip


def _three(values: list[int]) -> tuple[int, int, int]:
    a, b, c = values
    return a, b, c
