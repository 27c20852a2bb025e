"""Convolutions and products in plain NumPy, for results made by other means than the code that is to explain them.

Every problem becomes two arrays: what an output row multiplies, and what a position meets. Nothing here knows recipes,
emulators, hypotheses or the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from samebits.problems import Problem


@dataclass(frozen=True)
class Laid:
    """Operands laid out: `rows` [groups, rows, products], `columns` [groups, positions, products], in float64."""

    rows: np.ndarray
    columns: np.ndarray

    @property
    def length(self) -> int:
        return self.rows.shape[2]


def lay_out(problem: Problem, operands: Mapping[str, np.ndarray]) -> Laid:
    """The operands of a problem as rows and columns of products."""
    wide = {n: a.astype(np.float64) for n, a in operands.items()}
    if problem.kind == "linear":
        return Laid(wide["w"][None], wide["x"].reshape(-1, wide["x"].shape[-1])[None])
    if problem.kind == "matmul":
        return Laid(wide["w"].T[None], wide["x"][None])
    g, kernel = problem.groups, problem.w[2:]
    if problem.direction == "grad_weight":
        dy = wide["dy"]
        rows = dy.reshape(dy.shape[0], g, dy.shape[1] // g, -1).transpose(1, 2, 0, 3)
        met = find_patches(problem, wide["x"])  # [n, g, c, taps, places]
        columns = met.transpose(1, 2, 3, 0, 4).reshape(g, met.shape[2] * met.shape[3], -1)
        return Laid(rows.reshape(g, rows.shape[1], -1), columns)
    if problem.direction == "grad_input" or problem.is_transposed:
        source, w = wide["dy" if problem.direction == "grad_input" else "x"], wide["w"]
        rows = w.reshape(g, w.shape[0] // g, w.shape[1], -1)[..., ::-1].transpose(0, 2, 1, 3)
        met = _find_scattered(problem, source)
    else:
        rows, met = wide["w"].reshape(g, -1, problem.w[1], int(np.prod(kernel))), find_patches(problem, wide["x"])
    columns = met.transpose(1, 0, 4, 2, 3)
    return Laid(rows.reshape(g, rows.shape[1], -1), columns.reshape(g, -1, rows.shape[2] * rows.shape[3]))


def find_patches(problem: Problem, x: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """What every tap meets at every place, [n, groups, channels, taps, places]; `fill` stands in the padding."""
    pads = [(a.pad_begin, a.pad_end) for a in problem.axes]
    wide = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    steps = [(a.stride, a.dilation, a.kernel, a.size_small) for a in problem.axes]
    return _slide(wide, steps, problem.groups)


def _find_scattered(problem: Problem, source: np.ndarray) -> np.ndarray:
    """The same of a transposed convolution: zeros between its inputs, and a convolution with the kernel reversed."""
    spread, steps = source, []
    for i, a in enumerate(problem.axes):
        shape = list(spread.shape)
        shape[2 + i] = (shape[2 + i] - 1) * a.stride + 1
        wide = np.zeros(shape)
        wide[(slice(None),) * (2 + i) + (slice(None, None, a.stride),)] = spread
        begin = (a.kernel - 1) * a.dilation - a.pad_begin
        end = a.size_large + (a.kernel - 1) * a.dilation - shape[2 + i] - begin
        spread = np.pad(wide, [(begin, end) if n == 2 + i else (0, 0) for n in range(wide.ndim)])
        steps.append((1, a.dilation, a.kernel, a.size_large))
    return _slide(spread, steps, problem.groups)


def _slide(x: np.ndarray, steps: list[tuple[int, int, int, int]], groups: int) -> np.ndarray:
    rank = len(steps)
    reach = tuple((kernel - 1) * dilation + 1 for _, dilation, kernel, _ in steps)
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    for i, (stride, dilation, _, count) in enumerate(steps):
        seen = seen[(slice(None),) * (2 + i) + (slice(0, stride * (count - 1) + 1, stride),)]
        seen = seen[(slice(None),) * (2 + rank + i) + (slice(None, None, dilation),)]
    n, c, *sizes = seen.shape
    places, taps = int(np.prod(sizes[:rank])), int(np.prod(sizes[rank:]))
    return seen.reshape(n, groups, c // groups, places, taps).transpose(0, 1, 2, 4, 3)


def put_back(problem: Problem, sums: np.ndarray) -> np.ndarray:
    """Sums [groups, rows, positions] as a result of the problem's shape."""
    if problem.product:
        return sums[0].T.reshape(problem.out_shape)
    if problem.direction == "grad_weight":
        return sums.reshape(problem.out_shape)
    batch = problem.x[0]
    return sums.reshape(*sums.shape[:2], batch, -1).transpose(2, 0, 1, 3).reshape(problem.out_shape)


def finish(problem: Problem, result: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Bias and epilogue of finished sums, in the dtype they come in."""
    if problem.bias and bias is not None:
        shape = (-1,) if problem.product else (1, -1, *(1,) * problem.rank)
        result = result + bias.astype(result.dtype).reshape(shape)
    if problem.then:
        result = np.minimum(np.maximum(result, result.dtype.type(problem.then.low)), problem.then.high)
    return result.astype(result.dtype)


# -- number formats -------------------------------------------------------------------------------------------------


def keep_bits(values: np.ndarray, bits: int, *, cut: bool = False) -> np.ndarray:
    """Values with so many significant bits, to nearest even or cut; no limit of the exponent."""
    m, e = np.frexp(values.astype(np.float64))
    scaled = np.ldexp(m, bits)
    return np.ldexp(np.trunc(scaled) if cut else np.rint(scaled), e - bits)


def f16(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def bf16(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def tf32(values: np.ndarray) -> np.ndarray:
    return keep_bits(values, 11)


def f32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def e4m3(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


def e5m2(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.float8_e5m2).astype(np.float64)


def steps(values: np.ndarray, largest: float, most: int, least: int | None = None) -> np.ndarray:
    """Values in whole steps of largest / most."""
    step = np.maximum(largest, 1e-30) / most
    return np.clip(np.rint(values / step), -most if least is None else least, most) * step


# -- sums -----------------------------------------------------------------------------------------------------------


def sum_exactly(laid: Laid) -> np.ndarray:
    """Sums in float64: exact beside anything that float32 does."""
    return np.matmul(laid.rows, laid.columns.transpose(0, 2, 1))


def sum_in_float32(laid: Laid) -> np.ndarray:
    """float32 sums as NumPy's BLAS adds them."""
    return np.matmul(laid.rows.astype(np.float32), laid.columns.astype(np.float32).transpose(0, 2, 1))


def sum_by(laid: Laid, keep: object, product: object = None, start: np.ndarray | None = None) -> np.ndarray:
    """One product after the other, the running sum kept by `keep`, products by `product`."""
    total = np.zeros((*laid.rows.shape[:2], laid.columns.shape[1])) if start is None else start
    for k in range(laid.length):
        term = laid.rows[:, :, None, k] * laid.columns[:, None, :, k]
        term = product(term) if callable(product) else term
        total = keep(total + term)  # type: ignore[operator]  (a function of arrays)
    return total


def parts(laid: Laid, count: int) -> list[Laid]:
    """So many parts of the products, of one length but the last."""
    return blocks(laid, -(-laid.length // count))


def blocks(laid: Laid, size: int) -> list[Laid]:
    """Parts of so many products."""
    return [Laid(laid.rows[:, :, i : i + size], laid.columns[:, :, i : i + size]) for i in range(0, laid.length, size)]


def channels_first(problem: Problem, laid: Laid, block: int) -> list[Laid]:
    """Parts of so many channels, all their taps with them, for sums over channels and taps."""
    return blocks(laid, block * (1 if problem.product else int(np.prod(problem.w[2:]))))
