"""A saved operation of torch as a problem with its operands and its result, where it is a convolution or a product."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import SamebitsError, TraceError
from samebits.numbers.format import FORMATS, numpy_dtype
from samebits.problems import Problem

_Made = tuple[Problem, dict[str, Any]]
_KINDS = {3: "1d", 4: "2d", 5: "3d"}


@dataclass(frozen=True)
class SavedProduct:
    """A problem, its operands, and the result that one run had."""

    problem: Problem
    operands: dict[str, np.ndarray]
    result: np.ndarray


def read_saved(path: Path, output: int) -> SavedProduct:
    """The operation in a file that the run wrote; `output` says which of its results is meant. Raises TraceError."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        said = json.loads(str(arrays.pop("said")))
        name = str(said["name"])
        check_is_product(name)
        make = _MAKERS[name]
        args = [_restore(a, arrays) for a in said["args"]]
        if said["kwargs"]:
            raise TraceError(f"{name} with {', '.join(said['kwargs'])} is no product alone: no case is written of it")
        results = _restore(said["result"], arrays)
        results = results if isinstance(results, list) else [results]
        # A trace counts tensors alone; a gradient that nobody wants is none.
        place = [i for i, made in enumerate(results) if made is not None][output]
        problem, operands = make(args, place)
        result = results[place]
        return SavedProduct(problem, {n: np.ascontiguousarray(a) for n, a in operands.items()}, result)
    except (OSError, ValueError, KeyError, IndexError, TypeError, zipfile.BadZipFile) as error:
        raise TraceError(f"what the run saved cannot be read: {str(error)[:100]}") from None
    except SamebitsError as error:
        raise TraceError(str(error)) from None


def check_is_product(name: str) -> None:
    """Raises TraceError for an operation that no case is written of."""
    if name not in _MAKERS:
        known = ", ".join(text.removeprefix("aten.").removesuffix(".default") for text in _MAKERS)
        raise TraceError(f"no case is written of {name}; cases are made of: {known}")


def _restore(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        array, dtype = arrays[value["tensor"]], value["dtype"]
        return array.view(numpy_dtype(dtype)) if dtype in FORMATS and array.dtype.name != dtype else array
    return [_restore(v, arrays) for v in value] if isinstance(value, list) else value


def _make_convolution(args: Sequence[Any], output: int) -> _Made:
    x, w, bias = args[0], args[1], args[2]
    problem = _describe_convolution(x, w, args[3:], bias=bias is not None)
    return problem, {"x": x, "w": w, **({} if bias is None else {"bias": bias})}


def _make_gradient(args: Sequence[Any], output: int) -> _Made:
    if output > 1:
        raise TraceError("the gradient of a bias is a sum, no product: there is no case to write of it")
    dy, x, w = args[0], args[1], args[2]
    problem = _describe_convolution(x, w, args[4:], direction="grad_weight" if output else "grad_input")
    return problem, {"dy": dy, **({"x": x} if output else {"w": w})}


def _describe_convolution(x: Any, w: Any, settings: Sequence[Any], **more: Any) -> Problem:
    stride, padding, dilation, transposed, output_padding, groups = settings[:6]
    rank = x.ndim - 2
    return Problem(
        kind=f"conv{'_transpose' if transposed else ''}{_KINDS[x.ndim]}",  # type: ignore[arg-type]  (one of the kinds)
        x=x.shape,
        w=w.shape,
        stride=_spread(stride, rank),
        padding=tuple((p, p) for p in _spread(padding, rank)),
        dilation=_spread(dilation, rank),
        output_padding=_spread(output_padding, rank) if transposed else (),
        groups=groups,
        dtype=x.dtype.name,
        **more,
    )


def _spread(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """A setting an axis; torch takes one for all."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _make_matmul(args: Sequence[Any], output: int) -> _Made:
    x, w = args
    return Problem(kind="matmul", x=x.shape, w=w.shape, dtype=x.dtype.name), {"x": x, "w": w}


def _make_addmm(args: Sequence[Any], output: int) -> _Made:
    bias, x, w = args
    if bias.ndim != 1 or bias.size != w.shape[1]:
        raise TraceError("aten.addmm adds a matrix to a product: there is no case to write of it")
    return _make_linear([x, w.T, bias], output)


def _make_linear(args: Sequence[Any], output: int) -> _Made:
    x, w = args[0], args[1]
    bias = args[2] if len(args) > 2 else None
    problem = Problem(kind="linear", x=x.shape, w=w.shape, bias=bias is not None, dtype=x.dtype.name)
    return problem, {"x": x, "w": w, **({} if bias is None else {"bias": bias})}


_MAKERS: dict[str, Callable[[Sequence[Any], int], _Made]] = {
    "aten.convolution.default": _make_convolution,
    "aten.convolution_backward.default": _make_gradient,
    "aten.mm.default": _make_matmul,
    "aten.bmm.default": _make_matmul,
    "aten.mv.default": _make_matmul,
    "aten.addmm.default": _make_addmm,
    "aten.linear.default": _make_linear,
}
