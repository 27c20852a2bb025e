"""Winograd and Fourier convolutions in plain NumPy, SciPy and NNPACK, from interpolation points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.fft

import plain_sums as plain
from samebits.problems import Problem
from variant_making import Making, needs

Change = Callable[[np.ndarray], np.ndarray]
_POINTS = {2: (0, 1, -1), 4: (0, 1, -1, 2, -2), 6: (0, 1, -1, 2, -2, 0.5, -0.5)}


def _matrices(tile: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A^T [tile, n], G [n, 3] and B^T [n, n], n = tile + 2, from the points: a product of polynomials, transposed."""
    points = np.array(_POINTS[tile], float)
    n = tile + 2
    output = np.zeros((tile, n))
    output[:, :-1] = points[None] ** np.arange(tile)[:, None]
    output[-1, -1] = 1
    weight = np.zeros((n, 3))
    weight[:-1] = points[:, None] ** np.arange(3)[None]
    weight[-1, -1] = 1
    # What B^T must be so that A^T ((G g) * (B^T d)) is the correlation, for every d and g: linear equations.
    whole = np.zeros((tile * 3, n))
    wanted = np.zeros((tile * 3, n))
    for i in range(tile):
        for k in range(3):
            whole[i * 3 + k] = output[i] * weight[:, k]
            wanted[i * 3 + k, i + k] = 1
    data = np.linalg.lstsq(whole, wanted, rcond=None)[0]
    return output, weight, data


def _check(m: Making) -> None:
    p = m.problem
    needs(m.is_conv and p.rank == 2 and set(p.w[2:]) == {3} and {*p.stride, *p.dilation} == {1})


def winograd(
    tile: int,
    data: Change = plain.f32,
    *,
    weights: Change | None = None,
    sums: Change = plain.f32,
    store: Change | None = None,
) -> Callable[[Making], np.ndarray]:
    """F(tile, 3) in two dimensions; transformed data, weights and sums of channels kept as told."""

    def make(m: Making) -> np.ndarray:
        _check(m)
        kept = weights or data
        at, g, bt = _matrices(tile)
        patches, tiles = _find_tiles(m.problem, m.operands["x"].astype(np.float64), (tile, tile), (tile + 2, tile + 2))
        v = data(np.einsum("ia,ngctab,jb->ngctij", bt, patches, bt, optimize=True))
        w = m.operands["w"].astype(np.float64)
        w = w.reshape(m.problem.groups, -1, *w.shape[1:])
        u = kept(np.einsum("ia,gocab,jb->gocij", g, w, g, optimize=True))
        met = np.einsum("ngctij,gocij->ngotij", v.astype(np.float32), u.astype(np.float32), optimize=True)
        y = np.einsum("ia,ngotab,jb->ngotij", at, sums(met.astype(np.float64)), at, optimize=True)
        return _finish(m, _join(m.problem, y, tiles, (tile, tile)), store)

    return make


def winograd_1d(tile: int, data: Change) -> Callable[[Making], np.ndarray]:
    """F(tile, 3) along rows, the kernel's rows added as channels are."""

    def make(m: Making) -> np.ndarray:
        _check(m)
        at, g, bt = _matrices(tile)
        patches, tiles = _find_tiles(m.problem, m.operands["x"].astype(np.float64), (1, tile), (3, tile + 2))
        v = data(np.einsum("ngctab,jb->ngctaj", patches, bt))
        w = m.operands["w"].astype(np.float64)
        u = data(np.einsum("gocab,jb->gocaj", w.reshape(m.problem.groups, -1, *w.shape[1:]), g))
        met = np.einsum("ngctaj,gocaj->ngotj", v.astype(np.float32), u.astype(np.float32), optimize=True)
        y = np.einsum("ngotb,jb->ngotj", met.astype(np.float64), at)[..., None, :]
        return _finish(m, _join(m.problem, y, tiles, (1, tile)), None)

    return make


def _find_tiles(
    problem: Problem, x: np.ndarray, tile: tuple[int, int], size: tuple[int, int]
) -> tuple[np.ndarray, tuple[int, int]]:
    """Overlapping input patches, [n, groups, channels, tiles, size, size], and how many tiles each way."""
    outputs = problem.out_shape[2:]
    tiles = (-(-outputs[0] // tile[0]), -(-outputs[1] // tile[1]))
    ends = [
        (a.pad_begin, max((t - 1) * step + s - a.size_large - a.pad_begin, 0))
        for a, t, step, s in zip(problem.axes, tiles, tile, size, strict=True)
    ]
    wide = np.pad(x, [(0, 0), (0, 0), *ends])
    seen = np.lib.stride_tricks.sliding_window_view(wide, size, (2, 3))[:, :, :: tile[0], :: tile[1]]
    seen = seen[:, :, : tiles[0], : tiles[1]]
    n, c = x.shape[:2]
    return seen.reshape(n, problem.groups, c // problem.groups, tiles[0] * tiles[1], *size), tiles


def _join(problem: Problem, y: np.ndarray, tiles: tuple[int, int], tile: tuple[int, int]) -> np.ndarray:
    n, g, o = y.shape[:3]
    whole = y.reshape(n, g * o, *tiles, *tile).transpose(0, 1, 2, 4, 3, 5)
    whole = whole.reshape(n, g * o, tiles[0] * tile[0], tiles[1] * tile[1])
    return whole[:, :, : problem.out_shape[2], : problem.out_shape[3]]


def _finish(m: Making, y: np.ndarray, store: Change | None) -> np.ndarray:
    done = m.store(y)
    return done if store is None else store(done.astype(np.float64)).astype(done.dtype)


def run_nnpack(m: Making) -> np.ndarray:
    """torch's binding of NNPACK, which transforms 8 x 8 patches."""
    torch = pytest.importorskip("torch")
    _check(m)
    p = m.problem
    needs(p.groups == 1 and p.dtype == "float32" and torch.backends.nnpack.is_available())
    needs(all(a.pad_begin == a.pad_end for a in p.axes))
    x, w = (torch.from_numpy(np.ascontiguousarray(m.operands[n])) for n in ("x", "w"))
    pads = [a.pad_begin for a in p.axes]
    return m.store(torch._nnpack_spatial_convolution(x, w, None, pads).numpy())


def run_fft(m: Making) -> np.ndarray:
    """SciPy's float32 transforms of whole planes."""
    p = m.problem
    needs(m.is_conv and p.rank > 0 and p.dtype == "float32" and {*p.stride, *p.dilation} == {1})
    x = np.pad(m.operands["x"], [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in p.axes)])
    return m.store(_correlate(p, x, m.operands["w"]))


def run_tiled_fft(m: Making) -> np.ndarray:
    """Fourier transforms of tiles of 16 by 16, as cuDNN's FFT_TILING has them."""
    p = m.problem
    needs(m.is_conv and p.rank == 2 and p.dtype == "float32" and {*p.stride, *p.dilation} == {1})
    x = np.pad(m.operands["x"], [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in p.axes)])
    done = np.zeros(p.out_shape, np.float32)
    kh, kw = p.w[2:]
    needs(max(kh, kw) < 16)
    sh, sw = 17 - kh, 17 - kw
    for i in range(0, p.out_shape[2], sh):
        for j in range(0, p.out_shape[3], sw):
            part = _correlate(p, x[:, :, i : i + 16, j : j + 16], m.operands["w"])
            done[:, :, i : i + sh, j : j + sw] = part[:, :, :sh, :sw]
    return m.store(done)


def _correlate(p: Problem, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    axes = tuple(range(2, 2 + p.rank))
    shape = [scipy.fft.next_fast_len(s) for s in x.shape[2:]]
    of_x = scipy.fft.rfftn(x.astype(np.float32), shape, axes)
    of_w = np.conj(scipy.fft.rfftn(w.astype(np.float32), shape, axes))
    g = p.groups
    of_x = of_x.reshape(x.shape[0], g, -1, *of_x.shape[2:])
    of_w = of_w.reshape(g, -1, *of_w.shape[1:])
    met = np.einsum("ngc...,goc...->ngo...", of_x, of_w, optimize=True).astype(np.complex64)
    y = scipy.fft.irfftn(met.reshape(x.shape[0], -1, *met.shape[3:]), shape, axes)
    valid = tuple(slice(0, s - k + 1) for s, k in zip(x.shape[2:], p.w[2:], strict=True))
    return y[(slice(None), slice(None), *valid)].astype(np.float32)
