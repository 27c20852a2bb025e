"""Sums, means, norms and products over axes, and what normalises by them.

Bounds are those of sums in any order (Higham, chapter 4): n terms lose at most (n + 2) u of the sum of their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node
from samebits.networks.pooling import NoReferenceError, evaluate_plainly
from samebits.networks.values import Rule, Value, as_value, list_floats, make_plain, read_whole

Axes = tuple[int, ...]
_MOST_WHOLE = 2.0**62
# Marks a reduction of whole numbers that keeps what it adds in their own format.
WRAPS = "samebits.wraps"
_OPSET_OF_BLOCKS = 18


def _find_axes(node: Node, inputs: Sequence[Value | None], rank: int) -> Axes:
    """The axes of a reduction; none where nothing is reduced: what is done to each element is done all the same."""
    axes = read_whole(inputs[1] if len(inputs) > 1 else None) or tuple(node.attributes.get("axes", ()))
    if not axes and node.attributes.get("noop_with_empty_axes"):
        return ()
    return tuple(sorted({i % rank for i in axes})) or tuple(range(rank))


def _reduce(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, name = list_floats(inputs[:1])[0], node.operator
    rank = x.value.ndim
    if name.startswith("Global"):
        axes, keeps = tuple(range(2, rank)), True
    else:
        axes, keeps = _find_axes(node, inputs, rank), bool(node.attributes.get("keepdims", 1))
    if not x.value.size:
        raise NoReferenceError("nothing is reduced")
    found = _REDUCTIONS[name](a, x, axes)
    return [found if keeps else bounded.move(lambda v: np.squeeze(v, axes), found)]


def reduce_whole(node: Node, inputs: Sequence[Value | None], opset: int) -> Value:
    """A reduction of whole numbers in 64 bits; raises NoReferenceError where these, or its own, do not hold them."""
    x, *others = [make_plain(v) for v in inputs]
    if x is None or x.dtype.kind not in "iu":
        return as_value(evaluate_plainly(node, [x, *others], opset)[0])
    if node.attributes.get(WRAPS):
        return as_value(_wrap(node, x, inputs))
    sizes, axes = np.abs(x.astype(np.float64)), _find_axes(node, inputs, x.ndim)
    if node.operator in ("ReduceMax", "ReduceMin"):
        sizes = np.zeros_like(sizes)
    elif node.operator in ("ReduceL2", "ReduceSumSquare"):
        sizes **= 2
    largest = sizes.prod(axes) if node.operator == "ReduceProd" else sizes.sum(axes)
    if not np.max(largest, initial=0.0) < _MOST_WHOLE:
        raise NoReferenceError("sums of these whole numbers leave 64 bits")
    found = evaluate_plainly(node, [x.astype(np.int64), *others], opset)[0]
    holds = np.iinfo(x.dtype)
    if found.size and not (holds.min <= found.min() and found.max() <= holds.max):
        raise NoReferenceError("the result is none of its own numbers")
    return as_value(found.astype(x.dtype))


def _wrap(node: Node, x: np.ndarray, inputs: Sequence[Value | None]) -> np.ndarray:
    """A reduction whose products and sums keep the format of its whole numbers; raises NoReferenceError for others."""
    axes, keeps = _find_axes(node, inputs, x.ndim), bool(node.attributes.get("keepdims", 1))
    if node.operator not in ("ReduceL2", "ReduceSumSquare", "ReduceSum", "ReduceProd"):
        raise NoReferenceError("nothing is added up")
    with np.errstate(all="ignore"):
        terms = x if node.operator in ("ReduceSum", "ReduceProd") else x * x
        add = np.multiply if node.operator == "ReduceProd" else np.add
        found = add.reduce(terms, axes, dtype=x.dtype, keepdims=keeps)
        return np.sqrt(found.astype(np.float64)).astype(x.dtype) if node.operator == "ReduceL2" else found


def _take_extreme(x: Bounded, axes: Axes, *, smallest: bool) -> Bounded:
    value = (np.min if smallest else np.max)(x.value, axis=axes, keepdims=True)
    return Bounded(value, x.error.max(axes, keepdims=True), np.abs(value))


def _take_product(a: Arithmetic, x: Bounded, axes: Axes) -> Bounded:
    count = int(np.prod([x.value.shape[i] for i in axes], dtype=np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        value = x.value.prod(axes, keepdims=True)
        most = (np.abs(x.value) + x.error).prod(axes, keepdims=True)
        return bounded.rounded(a, value, most - np.abs(value), count)


def take_magnitudes(x: Bounded) -> Bounded:
    """|x|, exact."""
    return Bounded(np.abs(x.value), x.error, np.abs(x.value))


def take_norm(a: Arithmetic, x: Bounded, axes: Axes, p: float) -> Bounded:
    """(sum |x|^p)^(1/p) over axes that are kept, for p = 1, 2 and others."""
    sizes = take_magnitudes(x)
    if p == 1:
        return bounded.take_mean(a, sizes, axes, divides=False)
    if p == 2:
        return bounded.take_root(a, bounded.take_mean(a, bounded.multiply(a, x, x), axes, divides=False))
    powers = bounded.raise_power(a, sizes, bounded.exactly(np.array(float(p))))
    return bounded.raise_power(a, bounded.take_mean(a, powers, axes, divides=False), bounded.exactly(np.array(1.0 / p)))


def take_logarithm(a: Arithmetic, x: Bounded) -> Bounded:
    """log(x): a relative error becomes an absolute one."""
    with np.errstate(all="ignore"):
        value = np.log(np.where((x.value <= 0) & (x.value + x.error > 0), x.error, x.value))
        share = np.where(x.error > 0, x.error / np.abs(x.value), 0.0)
        return bounded.rounded(a, value, -np.log1p(-np.minimum(share, 1.0)), 6.0)


def _take_log_of_powers(a: Arithmetic, x: Bounded, axes: Axes) -> Bounded:
    """log(sum exp(x)), which no element's error moves by more than itself."""
    count = int(np.prod([x.value.shape[i] for i in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        largest = x.value.max(axes, keepdims=True)
        sums = np.exp(x.value - largest).sum(axes, keepdims=True)
        value = largest + np.log(sums)
        # Differences are rounded, exp is within 6 units, the sum and its logarithm as usual.
        spread = np.abs(x.value - largest).max(axes, keepdims=True)
        own = a.unit * (np.minimum(spread, 1 / a.unit) * np.exp(-np.minimum(spread, 700)) + count + 10)
        return bounded.rounded(a, value, x.error.max(axes, keepdims=True) + own + 3 * a.unit * np.log(sums), 2.0)


def _square(a: Arithmetic, x: Bounded) -> Bounded:
    return bounded.multiply(a, x, x)


_REDUCTIONS = {
    "ReduceSum": lambda a, x, axes: bounded.take_mean(a, x, axes, divides=False),
    "ReduceMean": bounded.take_mean,
    "GlobalAveragePool": bounded.take_mean,
    "ReduceMax": lambda _, x, axes: _take_extreme(x, axes, smallest=False),
    "GlobalMaxPool": lambda _, x, axes: _take_extreme(x, axes, smallest=False),
    "ReduceMin": lambda _, x, axes: _take_extreme(x, axes, smallest=True),
    "ReduceProd": _take_product,
    "ReduceL1": lambda a, x, axes: take_norm(a, x, axes, 1),
    "ReduceL2": lambda a, x, axes: take_norm(a, x, axes, 2),
    "ReduceSumSquare": lambda a, x, axes: bounded.take_mean(a, _square(a, x), axes, divides=False),
    "ReduceLogSum": lambda a, x, axes: take_logarithm(a, bounded.take_mean(a, x, axes, divides=False)),
    "ReduceLogSumExp": _take_log_of_powers,
}


def _mean_of_all(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value]:
    given = list_floats(inputs)
    shape = np.broadcast_shapes(*(v.value.shape for v in given))
    stacked = [bounded.move(lambda v: np.broadcast_to(v, shape), v) for v in given]
    value, error, sizes = (np.stack([getattr(v, name) for v in stacked]) for name in ("value", "error", "magnitude"))
    return [bounded.move(lambda v: v[0], bounded.take_mean(a, Bounded(value, error, sizes), (0,)))]


def _read_running(
    node: Node, inputs: Sequence[Value | None], function: Callable[[Floats, int], Floats], nothing: float
) -> tuple[Bounded, int, Callable[[Floats], Floats]]:
    """What a running sum or product runs over, its axis, and how it runs; `nothing` is what it begins with."""
    x = list_floats(inputs[:1])[0]
    axis = (read_whole(inputs[1]) or (0,))[0] % x.value.ndim
    turned, leaves_out = bool(node.attributes.get("reverse")), bool(node.attributes.get("exclusive"))

    def run(array: Floats) -> Floats:
        found = function(np.flip(array, axis) if turned else array, axis)
        if leaves_out:
            found = np.roll(found, 1, axis)
            found[tuple(slice(0, 1) if i == axis else slice(None) for i in range(found.ndim))] = nothing
        return np.flip(found, axis) if turned else found

    return x, x.value.shape[axis], run


def _cumulate(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Running sums: each may be made in any order of what it holds."""
    x, count, run = _read_running(node, inputs, np.cumsum, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        value, error, sizes = run(x.value), run(x.error), run(np.abs(x.value))
        return [Bounded(value, error + (count + 2) * a.unit * (sizes + error), sizes)]


def _multiply_up(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Running products: each may be made in any order of what it holds."""
    x, count, run = _read_running(node, inputs, np.cumprod, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        value, most, sizes = run(x.value), run(np.abs(x.value) + x.error), run(np.abs(x.value))
        return [bounded.rounded(a, value, most - sizes, count)]


def _take_norm_of_all(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """GlobalLpPool: the norm over all places."""
    x = list_floats(inputs)[0]
    return [take_norm(a, x, tuple(range(2, x.value.ndim)), float(node.attributes.get("p", 2)))]


def _normalize_by_norm(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x = list_floats(inputs)[0]
    axis, p = int(node.attributes.get("axis", -1)) % x.value.ndim, int(node.attributes.get("p", 2))
    found = bounded.divide(a, x, take_norm(a, x, (axis,), p))
    # Of zeros alone ONNX makes zeros.
    nought = ((x.value == 0) & (x.error == 0)).all(axis, keepdims=True)
    value, error = (np.where(nought, 0.0, part) for part in (found.value, found.error))
    return [Bounded(value, error, np.abs(value))]


def _normalize_by_mean_square(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """x / sqrt(mean(x^2) + epsilon) * scale."""
    x, scale = list_floats(inputs)
    axis = int(node.attributes.get("axis", -1)) % x.value.ndim
    epsilon = bounded.exactly(np.array(float(np.float32(node.attributes.get("epsilon", 1e-5)))))
    squares = bounded.take_mean(a, _square(a, x), tuple(range(axis, x.value.ndim)))
    found = bounded.divide(a, x, bounded.take_root(a, bounded.add(a, squares, epsilon)))
    return [bounded.multiply(a, found, scale)]


def _normalize_by_variance(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x = list_floats(inputs)[0]
    axes = tuple(i % x.value.ndim for i in node.attributes.get("axes", (0, 2, 3)))
    return [bounded.standardize(a, x, axes, 0.0)]


def _normalize_locally(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """x / (bias + alpha / size * sum of squares of the nearest channels)^beta."""
    x, given = list_floats(inputs)[0], node.attributes
    size = int(given["size"])
    usual = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    alpha, beta, bias = (float(np.float32(given.get(name, value))) for name, value in usual.items())
    before = (size - 1) // 2
    pads = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.value.ndim - 2)]
    squares = bounded.move(lambda v: np.lib.stride_tricks.sliding_window_view(np.pad(v, pads), size, 1), _square(a, x))
    sums = bounded.move(lambda v: v[..., 0], bounded.take_mean(a, squares, (x.value.ndim,), divides=False))
    scaled = bounded.multiply(a, sums, bounded.exactly(np.array(alpha / size)))
    base = bounded.add(a, scaled, bounded.exactly(np.array(bias)))
    return [bounded.divide(a, x, bounded.raise_power(a, base, bounded.exactly(np.array(beta))))]


def _add_blocks(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Col2Im: each element is the sum of those blocks' elements that lie on it."""
    x = list_floats(inputs[:1])[0]

    def run(part: Floats) -> Floats:
        return evaluate_plainly(node, [part, *(make_plain(v) for v in inputs[1:])], _OPSET_OF_BLOCKS)[0]

    value, error, sizes, terms = (run(part) for part in (x.value, x.error, np.abs(x.value), np.ones_like(x.value)))
    growth = float(terms.max(initial=0.0)) * a.unit
    return [Bounded(value, error + growth * (sizes + error), np.abs(value))]


def _take_determinant(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Det, by elimination with pivots or by products of elements.

    Elimination is exact for elements that are off by n (n + 1) u 2^(n - 1) times the largest (Higham, chapter 9); a
    determinant is linear in each row, and no larger than the product of their sums of magnitudes, which also bounds
    the sum of all products of elements.
    """
    x = list_floats(inputs)[0]
    n = x.value.shape[-1]
    if not n:
        return [bounded.exactly(np.ones(x.value.shape[:-2]))]
    sizes = np.abs(x.value) + x.error
    with np.errstate(over="ignore", invalid="ignore"):
        off = x.error + n * (n + 1) * a.unit * 2.0 ** min(n - 1, 1000) * sizes.max((-2, -1), keepdims=True)
        most = (np.abs(x.value) + off).sum(-1).prod(-1)
        error = most - np.abs(x.value).sum(-1).prod(-1) + 2 * n * a.unit * most
    value = np.linalg.det(x.value)
    return [Bounded(value, error, np.abs(value))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "GlobalLpPool": _take_norm_of_all,
    "Mean": _mean_of_all,
    "CumSum": _cumulate,
    "CumProd": _multiply_up,
    "LpNormalization": _normalize_by_norm,
    "RMSNormalization": _normalize_by_mean_square,
    "MeanVarianceNormalization": _normalize_by_variance,
    "LRN": _normalize_locally,
    "Col2Im": _add_blocks,
    "Det": _take_determinant,
}
