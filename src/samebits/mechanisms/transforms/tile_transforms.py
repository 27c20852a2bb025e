"""Winograd's transforms predicted as exact sums of rounded transforms: what was kept in which format on the way.

An engine transforms tiles of the input and the kernel, multiplies, adds up channels and transforms back. What it
keeps in float16, bfloat16 or TF32 in between makes errors far larger than any order of addition does, so that the
order need not be known. Where the odd factors of the matrices stand (in the transform of the weights, of the data or
of the sums) changes what is rounded; powers of two do not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.mechanisms.facts.observation import Floats, Observation, Sample
from samebits.problems import Problem
from samebits.problems.problem import Axis
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.emulators.winograd import MATRICES, TAPS
from samebits.sums.recipes.recipe import Rounding

FACTORS_IN = ("weights", "data", "sums")
_NARROW = ("float16", "bfloat16", "tf32")
_ROWS, _TILES = 8, 40
_SEED = 6


@dataclass(frozen=True)
class Arrangement:
    """One way to compute F(tile, 3): along which axes, where odd factors stand, what is kept in which format.

    Formats are those of transformed data, transformed weights and sums of channels; "" keeps float32.
    """

    tile: int
    along: tuple[bool, ...]
    factors: str
    data: str = ""
    weights: str = ""
    sums: str = ""

    def say(self) -> str:
        """As the end of a sentence: "uses Winograd's F(4,3) with transformed data and weights in float16"."""
        kept: dict[str, list[str]] = {}
        for what, name in (("data", self.data), ("weights", self.weights), ("sums", self.sums)):
            if name:
                kept.setdefault(name, []).append(what)
        parts = [f"{' and '.join(what)} in {name}" for name, what in kept.items()]
        only = "" if all(self.along) else " along one axis"
        inside = f" with transformed {', '.join(parts)}" if parts else " in float32"
        return f"uses Winograd's F({self.tile},3){only}{inside}"


def can_transform(problem: Problem) -> bool:
    """Whether Winograd's F(m, 3) computes it: a forward convolution in two dimensions of 3 taps and stride 1."""
    plain = problem.direction == "forward" and not problem.is_transposed and problem.rank == 2 and not problem.stated
    return plain and all(a.kernel == TAPS and a.stride == 1 and a.dilation == 1 for a in problem.axes)


def list_arrangements(problem: Problem) -> Iterator[Arrangement]:
    """Everything in one narrow format, sums too or not; then one of the transforms only; each in float32 last."""
    if not can_transform(problem):
        return
    kept = [(n, n, "") for n in _NARROW] + [(n, n, n) for n in ("float16", "bfloat16")]
    kept += [pair for n in _NARROW for pair in ((n, "", ""), ("", n, ""))] + [
        ("", "", n) for n in ("float16", "bfloat16")
    ]
    for tile, along in itertools.product((2, 4, 6), ((True, True), (False, True), (True, False))):
        places = FACTORS_IN[:1] if tile == 2 else FACTORS_IN
        for factors, (data, weights, sums) in itertools.product(places, kept):
            yield Arrangement(tile, along, factors, data, weights, sums)


@dataclass(frozen=True)
class Tiles:
    """Some output rows and some tiles of a result, for one tile size.

    `patches` [rows, tiles, depth, h, w] are what the rows' groups meet, `kernel` [rows, depth, 3, 3] their weights,
    `index` [tiles, 3] the batch item, the first row and the first column of each tile.
    """

    observation: Observation
    rows: npt.NDArray[np.int64]
    size: tuple[int, int]
    patches: Floats
    kernel: Floats
    index: npt.NDArray[np.int64]

    def pick(self, array: np.ndarray) -> Floats:
        """An array over the result at these rows and tiles; NaN beyond its edge."""
        problem = self.observation.problem
        batch, top, left = self.index.T
        h = top[:, None] + np.arange(self.size[0])
        w = left[:, None] + np.arange(self.size[1])
        shape = problem.out_shape
        inside = (h < shape[2])[:, :, None] & (w < shape[3])[:, None, :]
        values = np.broadcast_to(array, shape)[
            batch[None, :, None, None], self.rows[:, None, None, None],
            np.minimum(h, shape[2] - 1)[None, :, :, None], np.minimum(w, shape[3] - 1)[None, :, None, :],
        ].astype(np.float64)  # fmt: skip
        return np.where(inside[None], values, np.nan)


def choose_tiles(observation: Observation, tile: int, along: tuple[bool, ...], *, rows: int = _ROWS) -> Tiles:
    """Random tiles of random rows, at most so many."""
    problem, random = observation.problem, np.random.default_rng(_SEED)
    size = tuple(tile if a else 1 for a in along)
    counts = [-(-problem.out_shape[2 + i] // size[i]) for i in range(2)]
    total = problem.x[0] * counts[0] * counts[1]
    chosen = np.sort(random.permutation(total)[:_TILES])
    batch, at = np.divmod(chosen, counts[0] * counts[1])
    top, left = np.divmod(at, counts[1])
    index = np.stack([batch, top * size[0], left * size[1]], axis=1)
    chosen_rows = np.sort(random.permutation(problem.c_out)[:rows])
    group = chosen_rows // (problem.c_out // problem.groups)
    depth = problem.w[1]
    channels = group[:, None] * depth + np.arange(depth)
    h = _find_reach(problem.axes[0], index[:, 1], size[0])
    w = _find_reach(problem.axes[1], index[:, 2], size[1])
    x = observation.operands["x"].astype(np.float64)
    inside = ((h >= 0) & (h < x.shape[2]))[:, :, None] & ((w >= 0) & (w < x.shape[3]))[:, None, :]
    met = x[
        index[None, :, 0, None, None, None], channels[:, None, :, None, None],
        h.clip(0, x.shape[2] - 1)[None, :, None, :, None], w.clip(0, x.shape[3] - 1)[None, :, None, None, :],
    ]  # fmt: skip
    patches = np.where(inside[None, :, None], met, 0.0)
    kernel = observation.operands["w"].astype(np.float64)[chosen_rows]
    return Tiles(observation, chosen_rows, (size[0], size[1]), patches, kernel, index)


def _find_reach(axis: Axis, first: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    return first[:, None] - axis.pad_begin + np.arange(size + TAPS - 1)


def predict_tiles(tiles: Tiles, arrangement: Arrangement) -> Floats:
    """What an arrangement returns for some tiles, [rows, tiles, h, w]: bias and epilogue included."""
    observation = tiles.observation
    output, weight, data = _arrange(arrangement.tile, arrangement.factors)
    v, u = tiles.patches, tiles.kernel
    for axis, is_along in zip((-2, -1), arrangement.along, strict=True):
        if is_along:
            v, u = _apply(data, v, axis), _apply(weight, u, axis)
    v, u = _keep(v, arrangement.data), _keep(u, arrangement.weights)
    sums = np.einsum("rtdab,rdab->rtab", v, u, optimize=True)
    if not all(arrangement.along):
        # Taps of the axis that is not transformed are added up as channels are.
        axis = -2 if not arrangement.along[0] else -1
        sums = sums.sum(axis=axis, keepdims=True)
    sums = _keep(sums, arrangement.sums)
    for axis, is_along in zip((-2, -1), arrangement.along, strict=True):
        if is_along:
            sums = _apply(output, sums, axis)
    some = Sample(observation.terms, tiles.rows, np.arange(0))
    finished = observation.finish(sums.reshape(len(tiles.rows), -1), some)
    return _keep(finished, observation.problem.out).reshape(sums.shape)


def _keep(values: Floats, name: str) -> Floats:
    return round_wide(values, Rounding(name)) if name else values


def _apply(matrix: Floats, values: Floats, axis: int) -> Floats:
    return np.moveaxis(np.moveaxis(values, axis, -1) @ matrix.T, -1, axis)


@functools.cache
def _arrange(tile: int, factors: str) -> tuple[Floats, Floats, Floats]:
    """A^T, G and B^T with the odd factor of each point in one of them, powers of two as they are."""
    output, weight, data = (np.array([[float(v) for v in row] for row in m]) for m in MATRICES[tile])
    odd = np.array([_find_odd_factor(row) for row in MATRICES[tile][1]])
    if factors == "weights":
        return output, weight, data
    weight = weight / odd[:, None]
    if factors == "data":
        data = data * odd[:, None]
    else:
        output = output * odd[None, :]
    return output, weight, data


def _find_odd_factor(row: tuple[Fraction, ...]) -> float:
    """The part of a row's factor that is no power of two: 1/3 of (1/6, 1/6, 1/6)."""
    least = min((abs(v) for v in row if v), key=lambda v: v)
    numerator, denominator = least.numerator, least.denominator
    while numerator % 2 == 0:
        numerator //= 2
    while denominator % 2 == 0:
        denominator //= 2
    return numerator / denominator
