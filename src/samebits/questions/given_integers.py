"""The operands of an integer problem as a person gives them: codes, scales and zero points, in arrays or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.errors import ArgumentError, OperandError
from samebits.mechanisms.quantised.integer_sums import IntegerCase, Whole
from samebits.problems.array_files import Given
from samebits.problems.integer_problem import CODES, IntegerProblem, format_integer_problem
from samebits.problems.printed_numbers import PrintedNumbers

_SCALES, _ZEROS = ("x_scale", "w_scale", "y_scale"), ("x_zero", "w_zero", "y_zero")
NUMBERS = (*_SCALES, *_ZEROS)
_ARRAYS = ("x", "w", "bias")
_LARGEST_SUM = 2**53
_LABEL = "name_"


@dataclass(frozen=True)
class Recorded:
    """The operands, and the results that somebody recorded, as whole numbers by name."""

    case: IntegerCase
    results: Mapping[str, Whole]


def take_recorded(problem: IntegerProblem, given: Mapping[str, Given], *, needs_result: bool = True) -> Recorded:
    """The case of these arrays; raises OperandError for what is missing or does not fit."""
    if problem.x not in CODES or problem.out not in (*CODES, "int32"):
        raise ArgumentError(
            f"{format_integer_problem(problem)!r}: recorded codes are judged with out=int8, uint8 or int32"
        )
    arrays = {n: a.values if isinstance(a, PrintedNumbers) else np.asarray(a) for n, a in given.items()}
    is_rescaled = problem.out != "int32"
    needed = ["x", "w", *(["bias"] if problem.plain.bias else []), *(_SCALES if is_rescaled else ())]
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise OperandError(
            f"{', '.join(missing)} missing: {format_integer_problem(problem)!r} reads {', '.join(needed)}"
        )
    if "bias" in arrays and not problem.plain.bias:
        raise OperandError("bias is given, and the problem has none: write 'bias' into its text")
    zeros = {name: _take_zero(problem, name, arrays) for name in _ZEROS}
    scales = {name: _take_scale(problem, name, arrays) if is_rescaled else np.ones(1) for name in _SCALES}
    channels = problem.channels
    bias = _take_whole("bias", arrays["bias"], "int32", (channels,)) if problem.plain.bias else np.zeros(1, np.int64)
    case = IntegerCase(
        problem,
        x=_take_whole("x", arrays["x"], problem.x, problem.plain.x),
        w=_take_whole("w", arrays["w"], problem.w, problem.plain.w),
        x_zero=int(zeros["x_zero"][0]),
        w_zero=zeros["w_zero"],
        bias=bias,
        x_scale=float(scales["x_scale"][0]),
        w_scale=scales["w_scale"],
        y_scale=float(scales["y_scale"][0]),
        y_zero=int(zeros["y_zero"][0]) if is_rescaled else 0,
        pad=int(zeros["x_zero"][0]),
    )
    if problem.plain.reduction_length * 2**18 >= _LARGEST_SUM:
        raise OperandError("so many products of a sum are not added exactly")
    shape = problem.plain.out_shape
    labels = _take_labels(arrays)
    names = [n for n, a in arrays.items() if n not in (*NUMBERS, *_ARRAYS) and not _is_label(n, a)]
    if not names and needs_result:
        raise ArgumentError("a result is needed, by any other name than an operand's: mine=FILE")
    taken = {name: _take_whole(name, arrays[name], problem.out, shape) for name in names}
    called = [labels.get(name, name) for name in names]
    # Two of one name keep the names of their entries.
    return Recorded(
        case, {one if called.count(one) == 1 else name: taken[name] for one, name in zip(called, names, strict=True)}
    )


def _take_labels(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """What results are called, as case files have it: `name_a` is a text, and `a` the result."""
    texts = {n.removeprefix(_LABEL): str(a) for n, a in arrays.items() if _is_label(n, a)}
    return {name: text for name, text in texts.items() if name in arrays and text.strip()}


def _is_label(name: str, array: np.ndarray) -> bool:
    return name.startswith(_LABEL) and array.dtype.kind == "U" and array.ndim == 0


def _take_whole(name: str, array: np.ndarray, dtype: str, shape: tuple[int, ...]) -> Whole:
    """Whole numbers of a dtype, of this shape; a wider array is taken where its numbers fit."""
    if array.dtype.kind not in "fiu":
        raise OperandError(f"{name} holds {array.dtype}, and {dtype} is needed")
    if array.shape != shape:
        wanted, is_ = ("x".join(map(str, s)) or "one number" for s in (shape, array.shape))
        raise OperandError(f"{name} has the shape {is_}, and {wanted} is needed")
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        fits = np.isfinite(array.astype(np.float64)) & (array == np.rint(array.astype(np.float64)))
        fits &= (array >= limits.min) & (array <= limits.max)
    if not fits.all():
        odd = array[~fits].reshape(-1)[0]
        raise OperandError(f"{name} holds {odd}, and {dtype} has no such number")
    return array.astype(np.int64)


def _count(problem: IntegerProblem, name: str, array: np.ndarray) -> np.ndarray:
    """The number of a tensor, or one for each channel of w."""
    allowed = (1, problem.channels) if name.startswith("w_") else (1,)
    if array.size not in allowed:
        raise OperandError(f"{name} has {array.size} numbers, and {' or '.join(map(str, dict.fromkeys(allowed)))} fit")
    return array.reshape(-1)


def _take_zero(problem: IntegerProblem, name: str, arrays: Mapping[str, np.ndarray]) -> Whole:
    if name not in arrays:
        return np.zeros(1, np.int64)
    dtype = {"x_zero": problem.x, "w_zero": problem.w, "y_zero": problem.out}[name]
    array = _count(problem, name, arrays[name])
    return _take_whole(name, array, dtype, array.shape)


def _take_scale(problem: IntegerProblem, name: str, arrays: Mapping[str, np.ndarray]) -> npt.NDArray[np.float64]:
    """Scales as float32 has them, as all kernels read them."""
    array = _count(problem, name, arrays[name])
    if array.dtype.kind not in "fiuV":
        raise OperandError(f"{name} holds {array.dtype}, and numbers are needed")
    try:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            held = array.astype(np.float32).astype(np.float64)
    except (TypeError, ValueError):
        raise OperandError(f"{name} holds {array.dtype}, and numbers are needed") from None
    if not np.isfinite(held).all() or (held <= 0).any():
        raise OperandError(f"{name} must be finite numbers above 0 that float32 has")
    return held
