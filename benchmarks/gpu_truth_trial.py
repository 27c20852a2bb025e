"""The truth on a GPU, on trial: float64 sums with a bound of their error; what that leaves open is left to the CPU.

Neither compared nor timed on a GPU yet. In Triton's interpreter (TRITON_INTERPRET=1) it gives the CPU's bits.

Products of float32 (or narrower) numbers are exact in float64. A sum of n of them, added in any order and rounded to
nearest or truncated, is wrong by at most 2 n 2^-53 times the sum of their sizes (Higham, Accuracy and Stability, 3.1),
and that sum is at most the product of the norms of the two vectors (Cauchy and Schwarz). Where both ends of that
interval round to the same number, so does the exact sum. So every bit is that of `samebits.compute_truth`.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samebits.numbers.float_environment import default_float_environment
from samebits.problems.problem import Problem
from samebits.problems.terms import Terms, find_terms
from samebits.sums.truth import compute_truth

_KINDS = {"float32": 0, "bfloat16": 1, "float16": 2}
_BLOCK, _STEP = 256, 128
# Twice the unit roundoff, so that truncated sums are covered too, and norms that were themselves rounded.
_UNIT = 2.0**-52 * (1 + 2.0**-20)
_MOST_BYTES = 2**32
# A kernel's grid has at most so many rows of programs.
_MOST_ROWS = 2**16
_MOST_OPEN_SHARE, _FEWEST_MOST = 64, 4096
# In longer sums too many outputs would stay open: they are added in blocks of so many terms.
_LONGEST = 4096


def can_compute(problem: Problem, operands: Mapping[str, Tensor]) -> bool:
    """Whether the truth of a problem is computed on the GPU that holds all its operands."""
    on_gpu = all(t.is_cuda for t in operands.values()) or _interprets()
    known = problem.dtype in _KINDS and problem.out in _KINDS and not problem.then and _has_triton()
    plain = problem.product is None or problem.kind == "linear" or (len(problem.x) == 2 and len(problem.w) == 2)
    return on_gpu and known and plain and find_terms(problem).rows < _MOST_ROWS


@default_float_environment()
def compute_on_gpu(problem: Problem, operands: Mapping[str, Tensor]) -> Tensor:
    """The correctly rounded result, of shape `problem.out_shape`, on the operands' device; see `can_compute`.

    Every bit is that of `compute_truth`. Emulated float64 is not used: cuBLAS takes it only if asked to.
    """
    if problem.product is None:
        result = _convolve(problem, {name: t.detach().contiguous() for name, t in operands.items()})
    else:
        result = _multiply(problem, {name: t.detach() for name, t in operands.items()})
    return result if result is not None else _compute_on_cpu(problem, operands)


@dataclass
class _Sums:
    """The sums of one group: [rows, places] in float64 with both norms, and how places lie in the result."""

    values: Tensor
    row_norms: Tensor
    column_norms: Tensor
    terms: int
    outputs: int


def _convolve(problem: Problem, operands: Mapping[str, Tensor]) -> Tensor | None:
    terms = find_terms(problem)
    rows = _view(terms.view_rows, operands[terms.rows_operand])
    source = _view(terms.view_source, operands[terms.source_operand])
    result = torch.empty(problem.out_shape, dtype=getattr(torch, problem.out), device=source.device)
    view = _view(terms.view_result, result)
    bias = _read_bias(operands, terms.groups * terms.rows, source.device)
    table = _make_table(problem, str(source.device))
    count = math.prod(terms.outputs)
    if source.numel() >= 2**31 or count * terms.volume >= 2**31:
        return None
    for g in range(terms.groups):
        own = rows[g].reshape(terms.rows, -1).double()
        norms = _norm(own, 1)
        # So many items at a time that what they multiply fits.
        items = max(min(_MOST_BYTES // (8 * terms.count * count), terms.batch), 1)
        for first in range(0, terms.batch, items):
            part = source[g, first : first + items]
            columns, column_norms = _gather(part, table, terms, count)
            sums = _Sums(_add_products(own, columns), norms, column_norms, terms.count, count)
            target = view[g, :, first : first + items]
            if not _settle(sums, bias[g * terms.rows : (g + 1) * terms.rows], target, own, columns, problem.out):
                return None
    return result


def _multiply(problem: Problem, operands: Mapping[str, Tensor]) -> Tensor | None:
    x, w = operands["x"], operands["w"]
    columns = x.reshape(-1, x.shape[-1]).double().t()
    rows = (w if problem.kind == "linear" else w.t()).double()
    bias = _read_bias(operands, len(rows), x.device)
    flat = torch.empty((columns.shape[1], len(rows)), dtype=getattr(torch, problem.out), device=x.device)
    sums = _Sums(_add_products(rows, columns), _norm(rows, 1), _norm(columns, 0), columns.shape[0], 1)
    # As [rows, batch, 1]: each place is an item of its own.
    if not _settle(sums, bias, flat.t()[:, :, None], rows, columns, problem.out):
        return None
    return flat.reshape(problem.out_shape)


def _gather(source: Tensor, table: Tensor, terms: Terms, count: int) -> tuple[Tensor, Tensor]:
    """[terms, batch * outputs] in float64, and the norm of each column."""
    places = len(source) * count
    columns = torch.empty((terms.count, places), dtype=torch.float64, device=source.device)
    parts = -(-terms.count // _STEP)
    squares = torch.empty((parts, places), dtype=torch.float64, device=source.device)
    _kernels().gather_kernel[(-(-places // _BLOCK), parts)](
        source, table, columns, squares, places, count, terms.volume, terms.count, _STEP,
        source.stride(0), source.stride(1), BLOCK=_BLOCK,
    )  # fmt: skip
    return columns, squares.sum(0).sqrt_()


def _add_products(rows: Tensor, columns: Tensor) -> Tensor:
    length = rows.shape[1]
    if length <= 2 * _LONGEST:
        return rows @ columns
    blocks = range(0, length, _LONGEST)
    total = rows[:, :_LONGEST] @ columns[:_LONGEST]
    for first in blocks[1:]:
        total += rows[:, first : first + _LONGEST] @ columns[first : first + _LONGEST]
    return total


def _settle(sums: _Sums, bias: Tensor, target: Tensor, rows: Tensor, columns: Tensor, out: str) -> bool:
    """Writes the rounded sums to `target` [rows, batch, outputs]; False where too many would have to be exact."""
    count, places = sums.values.shape
    most = max(count * places // _MOST_OPEN_SHARE, _FEWEST_MOST)
    listed = torch.empty(most, dtype=torch.int64, device=target.device)
    counter = torch.zeros(1, dtype=torch.int32, device=target.device)
    added = min(sums.terms, 2 * _LONGEST) + sums.terms // _LONGEST + 2
    _kernels().settle_kernel[(-(-places // _BLOCK), count)](
        sums.values, bias, sums.row_norms, sums.column_norms, _as_codes(target), listed, counter, most,
        places, sums.outputs, sums.values.stride(0), target.stride(1), target.stride(0), added * _UNIT, 2.0**-51,
        KIND=_KINDS[out], BLOCK=_BLOCK,
    )  # fmt: skip
    left = int(counter.item())
    if left > most:
        return False
    if left:
        chosen = listed[:left]
        m, p = chosen // places, chosen % places
        exact = _compute_exactly(rows[m], columns[:, p].t(), bias[m], out).to(target.device)
        target[m, p // sums.outputs, p % sums.outputs] = exact
    return True


def _compute_exactly(rows: Tensor, columns: Tensor, bias: Tensor, out: str) -> Tensor:
    """Sums of products [n, terms], each with a bias, by the CPU's truth; all values are float32's or narrower."""
    one = torch.ones((len(bias), 1), dtype=torch.float64, device=bias.device)
    x = torch.cat([rows, bias[:, None]], 1).float().cpu().numpy()[:, None, :]
    w = torch.cat([columns, one], 1).float().cpu().numpy()[:, :, None]
    problem = Problem(kind="matmul", x=x.shape, w=w.shape, dtype="float32", out=out)  # type: ignore[arg-type]  (three numbers each)
    made = compute_truth(problem, {"x": x, "w": w}).values.reshape(-1)
    return torch.from_numpy(made.view(np.int16)).view(torch.bfloat16) if out == "bfloat16" else torch.from_numpy(made)


def _compute_on_cpu(problem: Problem, operands: Mapping[str, Tensor]) -> Tensor:
    arrays = importlib.import_module("samebits.torch.plain_arrays")
    made = compute_truth(problem, {name: arrays.to_numpy(t) for name, t in operands.items()}).values
    like = next(iter(operands.values()))
    if problem.out == "bfloat16":
        return torch.from_numpy(made.view(np.int16)).view(torch.bfloat16).to(like.device)
    return torch.from_numpy(made).to(like.device)


def _read_bias(operands: Mapping[str, Tensor], rows: int, device: torch.device) -> Tensor:
    bias = operands.get("bias")
    return torch.zeros(rows, dtype=torch.float64, device=device) if bias is None else bias.detach().double() + 0.0


def _as_codes(tensor: Tensor) -> Tensor:
    """A bfloat16 tensor by its bits; others as they are."""
    return tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor


def _norm(values: Tensor, axis: int) -> Tensor:
    return values.square().sum(axis).sqrt_()


def _view(make: Any, tensor: Tensor) -> Tensor:
    """The view of a contiguous tensor that `make` gives of an array of its shape; nothing is read or copied."""
    shown = (
        make(np.broadcast_to(np.uint8(0), tensor.shape))
        if tensor.numel() == 0
        else make(np.empty(tensor.shape, np.uint8))
    )
    return tensor.as_strided(shown.shape, shown.strides)


@functools.lru_cache(maxsize=64)
def _make_table(problem: Problem, device: str) -> Tensor:
    """[volume, outputs]: the flat source index of each term's factor at each place, -1 where there is none."""
    terms = find_terms(problem)
    places = np.arange(math.prod(terms.outputs))
    return torch.from_numpy(np.ascontiguousarray(terms.locate_sources(places).T.astype(np.int32))).to(device)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _interprets() -> bool:
    """Whether Triton runs its kernels in Python, on the CPU, as tests do."""
    return _has_triton() and bool(importlib.import_module("triton").knobs.runtime.interpret)


@functools.cache
def _kernels() -> Any:
    return importlib.import_module("gpu_truth_kernels")
