"""Hypotheses of products that take elements for others: an operand or the result transposed, batches mixed up, operands
exchanged, the bias along the wrong axis, a tail of every sum left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.problems import Problem
from samebits.problems.lowering import Lowering, lower_problem
from samebits.problems.product_shapes import Labels, ProductShapes

Operands = Mapping[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]
# Widths of vectors and tiles that kernels step through a sum in.
_STEPS = (4, 8, 16, 32, 64)
# A length has few divisors; each sequence is a product of its own to compute.
_MOST_INNER = 24
_RESULTS = {"forward": "y", "grad_input": "x", "grad_weight": "w"}


def list_product_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Hypotheses on the product that was stated in place of `problem`, misread operands first."""
    assert problem.stated is not None
    lowering = lower_problem(problem.stated)
    product = problem.stated.product
    assert product is not None
    for name in (n for n in problem.stated.operand_shapes if n != "bias"):
        labels = product.labels["y" if name == "dy" else name]
        for says, cause, change in _list_changes(name, labels, problem.stated.operand_shapes[name]):
            yield _misread(lowering, says, cause, lambda given, n=name, c=change: {**given, n: c(given[n])})
    if problem.direction == "forward":
        axis, length = product.labels["x"].index("k"), product.length
        for says, cause, change in itertools.islice(_list_inner_changes(axis, length), _MOST_INNER):
            yield _misread(lowering, says, cause, lambda given, c=change: {**given, "x": c(given["x"])})
    yield from _list_exchanges(lowering)
    for says, cause, change in _list_changes("the result", product.labels[_RESULTS[problem.direction]],
                                             problem.stated.out_shape):  # fmt: skip
        yield _misplaced(lowering, says, cause, change)
    yield from _list_tails(lowering, product)
    if problem.bias:
        yield from _list_biases(lowering, product)


def _misread(lowering: Lowering, says: str, cause: CauseCode, change: Callable[[Operands], Operands]) -> Hypothesis:
    def alter(observation: Observation) -> tuple[Problem, dict[str, np.ndarray]]:
        given = lowering.restore_operands(observation.operands)
        return observation.problem, lowering.lower_operands(change(given))

    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.sum_instead(alter(observation)[1], sample)

    return Hypothesis(cause, "wrong", says, predict, alter)


def _misplaced(lowering: Lowering, says: str, cause: CauseCode, change: Change) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        placed = change(lowering.restore_result(observation.truth.astype(np.float64)))
        return sample.pick(lowering.lower_result(np.ascontiguousarray(placed)))

    return Hypothesis(cause, "wrong", says, predict)


def _list_changes(name: str, labels: Labels, shape: tuple[int, ...]) -> Iterator[tuple[str, CauseCode, Change]]:
    """Ways of misreading one array: its memory transposed, batch axes in another sequence, items mixed up."""
    reads = "reads the memory of" if name != "the result" else "returns"
    if len(shape) > 1 and min(shape[-2:]) > 1:
        turned = (*shape[:-2], shape[-1], shape[-2])
        one, two = f"{labels[-2]} x {labels[-1]}", f"{labels[-1]} x {labels[-2]}"
        cause = CauseCode.AXIS_ORDER if name == "w" else CauseCode.STRIDED_VIEW
        yield f"{reads} {name}, laid out as {two}, as {one}", cause, lambda a: a.swapaxes(-1, -2).reshape(shape)
        if shape[-2] != shape[-1]:
            says = f"{reads} {name}, laid out as {one}, as {two}"
            yield says, cause, lambda a: a.reshape(turned).swapaxes(-1, -2)
    outer = [i for i in range(len(shape) - 1) if shape[i] > 1]
    for i, j in itertools.combinations(outer, 2):
        order = list(range(len(shape)))
        order[i], order[j] = order[j], order[i]
        says = f"{reads} {name} with {labels[i]} and {labels[j]} exchanged"
        yield says, CauseCode.AXIS_ORDER, lambda a, o=tuple(order): a.transpose(o).reshape(shape)
        moved = [shape[k] for k in order]
        yield (
            f"{says}, the other way",
            CauseCode.AXIS_ORDER,
            lambda a, o=tuple(order), m=moved: a.reshape(m).transpose(o),
        )
    takes = "takes" if name != "the result" else "returns"
    for i in outer:
        for by in (1, -1):
            says = f"{takes} {name} shifted by {by} along {labels[i]}"
            yield says, CauseCode.SHAPE_SPECIFIC_KERNEL, lambda a, i=i, by=by: np.roll(a, by, axis=i)
        says = f"{takes} {name} in reverse along {labels[i]}"
        yield says, CauseCode.AXIS_ORDER, lambda a, i=i: np.flip(a, i)
        says = f"{takes} the first of {name} for all along {labels[i]}"
        yield says, CauseCode.STRIDED_VIEW, lambda a, i=i: np.repeat(np.take(a, [0], i), a.shape[i], i)


def _list_inner_changes(axis: int, length: int) -> Iterator[tuple[str, CauseCode, Change]]:
    """x with the numbers of every sum in another sequence: turned around, rolled, or flattened from other axes."""
    if length < 2:
        return
    yield "takes x in reverse along k", CauseCode.AXIS_ORDER, lambda a: np.flip(a, axis)
    for by in dict.fromkeys((1, -1, length // 2)):
        says = f"takes x shifted by {by} along k"
        yield says, CauseCode.AXIS_ORDER, lambda a, by=by: np.roll(a, by, axis)
    for outer in range(2, length // 2 + 1):
        if length % outer:
            continue

        def turn(a: np.ndarray, outer: int = outer) -> np.ndarray:
            last = np.moveaxis(a, axis, -1)
            parts = last.reshape(*last.shape[:-1], outer, length // outer)
            return np.moveaxis(parts.swapaxes(-1, -2).reshape(last.shape), -1, axis)

        says = f"takes x flattened as {length // outer} x {outer} where w has {outer} x {length // outer}"
        yield says, CauseCode.AXIS_ORDER, turn


def _list_exchanges(lowering: Lowering) -> Iterator[Hypothesis]:
    """Operands of one shape taken for each other, and the product of their transposes."""
    shapes = lowering.stated.operand_shapes
    if "x" not in shapes or "w" not in shapes or shapes["x"] != shapes["w"] or len(shapes["x"]) < 2:
        return
    if lowering.stated.kind == "matmul":
        yield _misread(lowering, "multiplies w by x in place of x by w", CauseCode.AXIS_ORDER,
                       lambda given: {**given, "x": given["w"], "w": given["x"]})  # fmt: skip


def _list_tails(lowering: Lowering, product: ProductShapes) -> Iterator[Hypothesis]:
    """Sums whose last products are missing, as where a kernel's remainder loop does not run."""
    if lowering.stated.direction != "forward":
        return
    axis = product.labels["x"].index("k")
    for left in dict.fromkeys(product.length % step for step in _STEPS if step < product.length):
        if not left:
            continue

        def cut(given: Operands, left: int = left) -> Operands:
            x = given["x"].copy()
            x[(slice(None),) * axis + (slice(-left, None),)] = 0
            return {**given, "x": x}

        says = f"leaves out the last {left} of the {product.length:,} products of every sum"
        yield _misread(lowering, says, CauseCode.SHAPE_SPECIFIC_KERNEL, cut)


def _list_biases(lowering: Lowering, product: ProductShapes) -> Iterator[Hypothesis]:
    """The bias counted along the rows of the result in place of its columns."""
    rows, columns = math.prod(lowering.stated.y_shape[:-1]), product.count(("n",))
    if rows < 2:
        return

    def predict(observation: Observation, sample: Sample) -> Floats:
        bias = observation.operands["bias"].astype(np.float64)
        sums = sample.pick(observation.bare_sums().reshape(observation.problem.out_shape))
        return observation.apply_epilogue(sums + bias[sample.positions % columns][None])

    yield Hypothesis(CauseCode.AXIS_ORDER, "wrong", "adds the bias to rows in place of columns", predict)
