"""How a constant of one file of a network differs from the other file's, found by trying."""

from __future__ import annotations

import itertools

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import find_factor
from samebits.networks.folded_weights import FOLDING_ROUNDINGS
from samebits.networks.unit_reference import HALVES
from samebits.numbers.format import numpy_dtype


def show_value(value: object) -> str:
    """A value of an attribute or a constant, shortened; a number as float32 has it."""
    value = np.float32(value) if isinstance(value, float) else value
    return str(list(value))[:60] if isinstance(value, (list, tuple)) else str(value)[:60]


def compare_constants(a: np.ndarray, b: np.ndarray) -> tuple[CauseCode, str] | None:
    """How constants differ, found by trying; None where they are the same."""
    # Axes of length 1 in front are those of broadcasting.
    if _strip(a.shape) == _strip(b.shape) and a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return None
    for format_ in HALVES:
        if a.shape == b.shape and a.dtype == np.float32 and _rounds_to(a, b, format_):
            return CauseCode.REDUCED_PRECISION_OPERANDS, f"holds the first file's values rounded to {format_}"
    if b.dtype.kind == "f" and b.size and not b.any() and a.any():
        return CauseCode.DROPPED_ATTRIBUTE, "holds zeros"
    if turned := _find_turned(a, b):
        return CauseCode.AXIS_ORDER, turned
    if a.shape != b.shape and not a.size == b.size == 1:
        return CauseCode.DROPPED_ATTRIBUTE, f"has shape {b.shape} in place of {a.shape}"
    if a.dtype != b.dtype:
        return CauseCode.DROPPED_ATTRIBUTE, f"is {b.dtype} in place of {a.dtype}"
    if (axis := _find_sequence(a, b)) is not None:
        return CauseCode.AXIS_ORDER, f"holds the first file's values in another sequence along axis {axis}"
    return CauseCode.OTHER_OPERANDS, _say_values(a, b)


def _find_turned(a: np.ndarray, b: np.ndarray) -> str:
    """How the same numbers lie otherwise in whole axes; "" where they do not."""
    if sorted(a.shape) != sorted(b.shape) or a.ndim < 2:
        return ""
    if any(np.array_equal(a.transpose(axes), b) for axes in _permutations(a.ndim)):
        return "holds the first file's values with axes exchanged"
    if a.shape == b.shape and np.array_equal(np.flip(a, tuple(range(2, a.ndim))), b):
        return "holds the first file's kernel flipped"
    return ""


def differ_by_rounding(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether float32 constants are so near as two ways to fold a batch normalisation into them may be."""
    if a.shape != b.shape or a.dtype != np.float32 or b.dtype != np.float32:
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= 2 * FOLDING_ROUNDINGS * 2.0**-24 * np.maximum(np.abs(x), np.abs(y))
    return bool(((near & np.isfinite(x) & np.isfinite(y)) | (x == y)).all())


def _strip(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(itertools.dropwhile(lambda size: size == 1, shape))


def _find_sequence(a: np.ndarray, b: np.ndarray) -> int | None:
    """The axis along which the same slices stand in another sequence; None for none."""
    for axis, size in enumerate(a.shape):
        mine, others = ([np.take(x, i, axis).tobytes() for i in range(size)] for x in (a, b))
        if size > 1 and sorted(mine) == sorted(others):
            return axis
    return None


def _say_values(a: np.ndarray, b: np.ndarray) -> str:
    """How constants of one shape and dtype differ."""
    if a.size == 1:
        return f"is {show_value(b.item())} in place of {show_value(a.item())}"
    differs = a != b
    count = f"{np.count_nonzero(differs):,} of {a.size:,}"
    if factor := _find_factor(a, b):
        return f"holds the first file's values times {factor:.6g}"
    touched = [np.unique(at) for at in np.nonzero(differs)]
    # The axis that says most about where they are.
    axis = min(range(a.ndim), key=lambda i: len(touched[i]) / a.shape[i])
    where, few = touched[axis], len(touched[axis]) < a.shape[axis]
    if not few:
        return f"holds other values ({count}){': constants of another run' if differs.all() else ''}"
    factor = _find_factor(a.take(where, axis), b.take(where, axis))
    what = f"the first file's values times {factor:.6g}" if factor else "other values"
    place = f"at index {where[0]}" if len(where) == 1 else f"at {len(where):,} of {a.shape[axis]:,} indices"
    return f"holds {what} {place} along axis {axis}, and nowhere else ({count})"


def _find_factor(a: np.ndarray, b: np.ndarray) -> float | None:
    if a.dtype.kind != "f":
        return None
    return find_factor(b.astype(np.float64).ravel(), a.astype(np.float64).ravel())


def _rounds_to(a: np.ndarray, b: np.ndarray, format_: str) -> bool:
    with np.errstate(over="ignore"):
        rounded = a.astype(numpy_dtype(format_)).astype(np.float32)
    return bool(np.array_equal(rounded, b.astype(np.float32), equal_nan=True))


def _permutations(rank: int) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(rank)))[1:] if rank <= 5 else []
