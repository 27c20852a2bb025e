"""How large the errors of a transform are in each output, up to a factor: Winograd's with any tile, Fourier's.

Whatever is rounded inside a transform is as large as the products of the transformed operands there, and comes back
through the transform of the sums. How the matrices are scaled does not matter for those products.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.sums.emulators.as_forward import Forward, as_forward, pad_or_crop

Along = tuple[bool, ...]
_TILES, _FOURIER_TILES = (2, 4, 6), (8, 16, 32)
# The interpolation points that are used first (Lavin and Gray 2016; Barabasz et al. 2020).
_POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4", "3", "-3"))
_MOST_ALONG, _MOST_PRODUCTS = 48, 3e8


@dataclass(frozen=True)
class Plane:
    """Some rows of a result and the first outputs along each axis: what a transform's errors are modelled in."""

    forward: Forward
    rows: npt.NDArray[np.int64]
    outputs: tuple[int, ...]


def find_plane(observation: Observation, rows: npt.NDArray[np.int64]) -> Plane | None:
    """The plane of some rows; None where no transform computes the problem."""
    forward = as_forward(observation.problem, observation.operands)
    if any(s != 1 for s in (*forward.stride, *forward.dilation)) or all(n == 1 for n in forward.w.shape[3:]):
        return None
    return Plane(forward, rows, tuple(min(n, _MOST_ALONG) for n in forward.outputs))


def list_winograd_sizes(plane: Plane) -> Iterator[tuple[str, Floats]]:
    """In words, and the expected squares of errors [rows, batch, *outputs], of all tiles along all or single axes."""
    taps = plane.forward.w.shape[3:]
    wide = [n > 1 for n in taps]
    ways: list[Along] = [tuple(wide)]
    if sum(wide) > 1:
        ways += [tuple(i == axis for i in range(len(taps))) for axis in range(len(taps))]
    for along, tile in itertools.product(ways, _TILES):
        sizes = tuple(tile if a else 1 for a in along)
        longest = max(m + r - 1 for m, r in zip(sizes, taps, strict=True))
        if longest <= len(_POINTS) + 1 and _count_products(plane, sizes) <= _MOST_PRODUCTS:
            only = "" if along == tuple(wide) else " along one axis"
            for model in _model_winograd(plane, sizes):
                yield f"on tiles of {tile} outputs{only}", model


def list_fourier_sizes(plane: Plane) -> Iterator[tuple[str, Floats]]:
    """In words, and the expected squares of errors, of Fourier transforms of whole planes and of tiles."""
    taps = plane.forward.w.shape[3:]
    for size in (0, *_FOURIER_TILES):
        if size == 0 or max(taps) < size <= 2 * max(plane.forward.outputs):
            where = f" on tiles of {size}" if size else ""
            sizes = tuple(size - n + 1 if size else o for n, o in zip(taps, plane.outputs, strict=True))
            yield where, _model_fourier(plane, sizes)


def _count_products(plane: Plane, sizes: tuple[int, ...]) -> float:
    forward = plane.forward
    tiles = math.prod(-(-o // m) for o, m in zip(plane.outputs, sizes, strict=True)) * len(forward.x)
    each = math.prod(m + r - 1 for m, r in zip(sizes, forward.w.shape[3:], strict=True))
    return float(len(plane.rows)) * tiles * each * forward.w.shape[2]


def _cut(plane: Plane, sizes: tuple[int, ...]) -> Floats:
    """Patches of the padded inputs, [batch, groups, depth, *tiles, *patch]."""
    forward, rank = plane.forward, len(sizes)
    taps = forward.w.shape[3:]
    reads = [-(-o // m) * m + r - 1 for o, m, r in zip(plane.outputs, sizes, taps, strict=True)]
    begins = [b for b, _ in forward.pads]
    pads = tuple((b, n - b - s) for b, n, s in zip(begins, reads, forward.x.shape[3:], strict=True))
    padded = pad_or_crop(forward.x.astype(np.float64), pads)
    patch = tuple(m + r - 1 for m, r in zip(sizes, taps, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, patch, axis=tuple(range(3, 3 + rank)))
    return windows[(slice(None),) * 3 + tuple(slice(None, None, m) for m in sizes)]


def _model_winograd(plane: Plane, sizes: tuple[int, ...]) -> list[Floats]:
    """Where products are rounded, or what they are made of; and where their sums over channels are."""
    forward, rank = plane.forward, len(sizes)
    patches = _cut(plane, sizes)
    weights = forward.w.astype(np.float64).reshape(-1, *forward.w.shape[2:])[plane.rows]
    group = plane.rows // forward.w.shape[1]
    squared = []
    for i, (m, r) in enumerate(zip(sizes, forward.w.shape[3:], strict=True)):
        out, of_weights, of_data = _make_matrices(m, r)
        patches = _apply(of_data, patches, patches.ndim - rank + i)
        weights = _apply(of_weights, weights, weights.ndim - rank + i)
        squared.append(out**2)
    tiles = patches.shape[3 : 3 + rank]
    met = patches.reshape(*patches.shape[:3], math.prod(tiles), -1)
    own = weights.reshape(*weights.shape[:2], -1)
    patch = tuple(m + r - 1 for m, r in zip(sizes, forward.w.shape[3:], strict=True))
    models = []
    for a, b, power in ((own**2, met**2, 1), (own, met, 2)):
        sums = np.stack([np.einsum("dk,bdtk->btk", a[i], b[:, g], optimize=True) for i, g in enumerate(group)])
        sums = (sums**power).reshape(*sums.shape[:2], *tiles, *patch)
        for i, matrix in enumerate(squared):
            sums = _apply(matrix, sums, sums.ndim - rank + i)
        models.append(_join(plane, sums, sizes))
    return models


def _join(plane: Plane, sums: Floats, sizes: tuple[int, ...]) -> Floats:
    """Tiles [rows, batch, *tiles, *sizes] side by side, as many as the plane has outputs."""
    rank = len(sizes)
    tiles = sums.shape[2 : 2 + rank]
    order = [0, 1] + [axis for i in range(rank) for axis in (2 + i, 2 + rank + i)]
    joined = sums.transpose(order).reshape(*sums.shape[:2], *(t * m for t, m in zip(tiles, sizes, strict=True)))
    return joined[(slice(None), slice(None), *(slice(n) for n in plane.outputs))]


def _model_fourier(plane: Plane, sizes: tuple[int, ...]) -> Floats:
    """Squared error sizes that are the same in every output of a tile: as large as its inputs times the weights."""
    forward, rank = plane.forward, len(sizes)
    patches = _cut(plane, sizes)
    energy = (patches**2).sum(axis=tuple(range(patches.ndim - rank, patches.ndim)))
    weights = (forward.w.astype(np.float64) ** 2).sum(axis=tuple(range(3, 3 + rank))).reshape(-1, forward.w.shape[2])
    group = plane.rows // forward.w.shape[1]
    sums = np.stack(
        [np.tensordot(weights[row], energy[:, g], axes=(0, 1)) for row, g in zip(plane.rows, group, strict=True)]
    )
    spread = np.broadcast_to(sums[(..., *[None] * rank)], (*sums.shape, *sizes))
    return _join(plane, spread, sizes)


def _apply(matrix: Floats, values: Floats, axis: int) -> Floats:
    return np.moveaxis(np.moveaxis(values, axis, -1) @ matrix.T, -1, axis)


@functools.cache
def _make_matrices(tile: int, taps: int) -> tuple[Floats, Floats, Floats]:
    """A^T, G and B^T of F(tile, taps) by Cook's and Toom's construction, up to the scale of each point."""
    count = tile + taps - 1
    if tile == 1:
        return np.ones((1, taps)), np.eye(taps), np.eye(taps)
    points = _POINTS[: count - 1]
    out, weights, data = np.zeros((tile, count)), np.zeros((count, taps)), np.zeros((count, count))
    for j, point in enumerate(points):
        out[:, j] = [float(point**i) for i in range(tile)]
        others = [p for p in points if p != point]
        norm = math.prod(point - p for p in others)
        weights[j] = [float(point**k / norm) for k in range(taps)]
        data[j, : count - 1] = _multiply_out(others)
    out[tile - 1, -1] = weights[-1, -1] = 1.0
    data[-1] = _multiply_out(points)
    return out, weights, data


def _multiply_out(roots: tuple[Fraction, ...] | list[Fraction]) -> list[float]:
    """The coefficients of the polynomial with these roots, the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [s - root * c for s, c in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return [float(c) for c in coefficients]
