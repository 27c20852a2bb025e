"""Elementary functions as libraries compute them: near the true ones, and added in the stated order."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from samebits.sums.functions import mlas
from samebits.sums.functions.fused import evaluate, multiply_add
from samebits.sums.functions.lane_sums import add_aligned, add_in_lanes, add_packets


def random(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _are_within(found: np.ndarray, wanted: np.ndarray, units: int) -> bool:
    """Whether two are so many float32 roundings apart, of what is wanted or of 1: about as many as were made."""
    return bool((np.abs(found - wanted) <= units * 2.0**-24 * np.maximum(np.abs(wanted), 1)).all())


def test_multiply_add_rounds_once() -> None:
    a, b, c = (random((400,), seed) for seed in range(3))
    # Sums that lie halfway, or all but, between two numbers.
    a[:3], b[:3], c[:3] = [1 + 2**-12, 1 - 2**-12, 3], [1 + 2**-12, 1 + 2**-12, 2**-25], [2**-40, 2**-49, 1]
    found = multiply_add(a, b, c)
    with mpmath.workprec(200):
        exact = [mpmath.mpf(float(x)) * float(y) + float(z) for x, y, z in zip(a, b, c, strict=True)]
    with mpmath.workprec(24):
        wanted = [float(+value) for value in exact]
    assert found.dtype == np.float32
    assert found.tolist() == wanted
    plain = (a * b + c).astype(np.float32)
    assert (plain != found).sum() > 50, "rounded twice it is another number: the test sees the difference"


def test_multiply_add_keeps_what_is_not_finite() -> None:
    ends = np.array([np.inf, np.nan, 3e38, 0], np.float32)
    found = multiply_add(ends, np.float32(2), np.float32(1))
    assert found[0] == np.inf
    assert np.isnan(found[1])
    assert found[2] == np.inf
    assert found[3] == 1


def test_polynomials_by_horner() -> None:
    assert evaluate((1.0, 2.0, 3.0), np.array([2.0, -1.0], np.float32)).tolist() == [11.0, 2.0]


FUNCTIONS: tuple[tuple[Callable[[np.ndarray], np.ndarray], Callable[[float], float]], ...] = (
    (mlas.compute_logistic, lambda x: 1 / (1 + math.exp(-x))),
    (mlas.compute_tanh, math.tanh),
    (mlas.compute_exp, math.exp),
    (mlas.compute_erf, math.erf),
    (mlas.compute_gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
)


@pytest.mark.parametrize(("function", "true"), FUNCTIONS, ids=lambda f: getattr(f, "__name__", "true"))
def test_functions_are_near_the_true_ones(
    function: Callable[[np.ndarray], np.ndarray], true: Callable[[float], float]
) -> None:
    x = np.concatenate([np.linspace(-20, 20, 2001), [0.0, -0.0, 1e-30, -1e-30]]).astype(np.float32)
    found = function(x).astype(np.float64)
    wanted = np.array([true(float(v)) for v in x])
    assert _are_within(found, wanted, 8)


def test_rows_are_normed() -> None:
    x, scale, shift = random((5, 37), 1), random((37,), 2), random((37,), 3)
    wide = x.astype(np.float64)
    raised = np.exp(wide - wide.max(-1, keepdims=True))
    assert _are_within(mlas.compute_softmax(x), raised / raised.sum(-1, keepdims=True), 200)
    apart = wide - wide.mean(-1, keepdims=True)
    normed = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-3)
    square = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-3)
    for norm in (
        mlas.compute_layer_norm, mlas.compute_layer_norm_in_sequence, mlas.compute_layer_norm_in_one_pass
    ):  # fmt: skip
        assert _are_within(norm(x, scale, shift, 1e-3), normed * scale + shift, 200)
        assert _are_within(norm(x, scale, None, 1e-3, centred=False), square * scale, 200)
    images, channels = x.reshape(1, 5, 37), np.arange(1, 6, dtype=np.float32)
    wanted = normed.reshape(1, 5, 37) * channels[:, None] + 2 * channels[:, None]
    assert _are_within(mlas.compute_instance_norm(images, channels, 2 * channels, 1e-3), wanted, 200)


def _sum_one_by_one(row: np.ndarray, lanes: int, join: str, start: int = 0) -> np.float32:
    """The same sums, one number at a time."""
    sums = [np.float32(0)] * lanes
    whole = len(row) // lanes * lanes
    for i in range(whole):
        sums[i % lanes] += row[i]
    while len(sums) > 1 and join != "chain":
        half = len(sums) // 2
        pairs = [(i, i + half) if join == "halves" else (2 * i, 2 * i + 1) for i in range(half)]
        sums = [sums[i] + sums[j] for i, j in pairs]
    total = sums[0]
    for one in (*sums[1:], *row[whole:]):
        total = total + one
    return total


@pytest.mark.parametrize("count", [1, 4, 7, 16, 37])
@pytest.mark.parametrize("join", ["halves", "neighbours", "chain"])
@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_lanes_add_in_the_stated_order(count: int, join: str, lanes: int) -> None:
    rows = random((6, count), count)
    wanted = [_sum_one_by_one(row, lanes, join) for row in rows]
    assert add_in_lanes(rows, lanes, join).tolist() == [float(w) for w in wanted]


def test_packets_begin_where_memory_does() -> None:
    rows = random((4, 9), 7)
    # Packets of two of 9 elements: even rows begin at a whole packet, odd ones one element later.
    wanted: list[float] = []
    for i, row in enumerate(rows):
        start = i % 2
        p = [row[j : j + 2] for j in range(start, 9 - 1, 2)]
        one, two = p[0] + p[2], p[1] + p[3]
        pair = one + two
        total = pair[0] + pair[1]
        for k in (*range(start), *range(start + 8, 9)):
            total = total + row[k]
        wanted.append(float(total))
    assert add_aligned(rows, 2).tolist() == wanted
    assert add_packets(rows[:1], 2).tolist() == wanted[:1]
    assert add_packets(rows[:, :1], 2).tolist() == rows[:, 0].tolist()
