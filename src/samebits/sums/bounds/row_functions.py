"""How far from the truth the result of a row function may be: worst case, likely, and beyond any arithmetic.

With u the unit roundoff of float32 (of float64 for float64 operands), n numbers in a row, and sums in any order:

    softmax    each exponential is off by u (40 + 3.4 t) of itself at a distance t from the largest, as in `attention`,
               42 u for each 16 numbers whose sums are rescaled, their sum by (n + 4) u
    norms      a mean is off by (n + 6) u times the mean of |x|, of two passes or of running means (Welford), a variance
               by (n + 8) (1 + 2 k) u of itself, k = sqrt(1 + mean^2 / variance) (running means: Chan and Lewis 1979),
               a reciprocal root by 4 u; scaling x and moving it by a folded mean adds 4 u of both
    gelu       erf and tanh are off by 24 u, as 7.1.28 of Abramowitz and Stegun is: 5 u itself, and a sixteenth power
    rope       2 u of |a cos| + |b sin|

In float16 and bfloat16 a normalised number, and each product of a rotation, may be kept in the operands' format
before weight, bias or sum: ONNX's LayerNormalization says so. The likely bound has the root of n in place of n and
usual errors of functions; it proves nothing. Beyond `farthest` is what no arithmetic gives that keeps every value in
bfloat16 or better and adds in float16 or better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import BFLOAT16, FLOAT16, FLOAT32, Format, find_format
from samebits.problems.row_functions import NORMS, RowFunction, find_distances, join_pairs, take_pairs
from samebits.sums.bounds.formula_bounds import FormulaBounds
from samebits.sums.bounds.probabilistic import ERROR_PROBABILITY

Floats = npt.NDArray[np.float64]
_EXP_UNITS, _EXP_PER_DISTANCE, _USUAL_EXP_UNITS = 40.0, 3.4, 4.0
_RESCALED, _RESCALING_UNITS = 16, 42.0
_FUNCTION_UNITS, _USUAL_FUNCTION_UNITS = 24.0, 3.0
_ROOT_UNITS = 4.0
# At larger distances an exponential may be lost whole, as in `attention`.
_LOST_DISTANCE, _USUAL_LOST_DISTANCE = {"float64": 700.0}, 80.0
_LARGEST_SHARE = 300.0


@dataclass(frozen=True)
class _Errors:
    """What a way of computing may be off by: units of each operation and of sums, how many steps a sum counts as."""

    unit: float
    adding: float
    steps: float
    narrow: float
    is_usual: bool = False


@default_float_environment()
def bound_row_function(
    asked: RowFunction, operands: Mapping[str, np.ndarray], truth: np.ndarray, *, rounds_result: bool = True
) -> FormulaBounds:
    """The bounds of a row function's result, float64 arrays of its shape; infinite where nothing can be said.

    `truth` is the correctly rounded result. With `rounds_result=False` roundings to the result's format are left out:
    for data whose exact result needs none.
    """
    format_ = find_format(asked.dtype)
    wide = format_ if format_.precision > FLOAT32.precision else FLOAT32
    unit, narrow = float(wide.unit_roundoff), float(format_.unit_roundoff) if format_ is not wide else 0.0
    count = asked.row_length
    factor = math.sqrt(2 * math.log(2 * math.prod(asked.x) / ERROR_PROBABILITY))
    rows, y = asked.to_rows(operands["x"]).astype(np.float64), asked.to_rows(truth).astype(np.float64)
    given = {name: array.astype(np.float64) for name, array in operands.items() if name != "x"}
    moved = _MOVED[asked.kind]
    with np.errstate(all="ignore"):
        worst, magnitudes = moved(asked, rows, given, y, _Errors(unit, unit, count, narrow))
        likely, _ = moved(asked, rows, given, y, _Errors(unit, unit, factor * math.sqrt(count), narrow, is_usual=True))
        # Every value stored in bfloat16, sums in float32 or in float16.
        stored = _Errors(2 * float(BFLOAT16.unit_roundoff), unit, count, float(BFLOAT16.unit_roundoff))
        halves = _Errors(float(FLOAT16.unit_roundoff), float(FLOAT16.unit_roundoff), count, narrow)
        farthest = np.maximum(*(moved(asked, rows, given, y, one)[0] for one in (stored, halves)))
        worst, likely = (_round(part, y, format_, rounds_result=rounds_result) for part in (worst, likely))
        least = 2.0**wide.smallest_normal_exponent if rounds_result else 0.0
        found = [np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in (worst + least, likely + least, farthest)]
    worst, likely, farthest = found
    arrays = [asked.from_rows(a) for a in (worst, np.minimum(likely, worst), np.maximum(farthest, worst), magnitudes)]
    with np.errstate(all="ignore"):
        lost = _find_reach(asked, rows) >= float(wide.largest)
        if asked.kind in NORMS:
            # Squares that vanish leave 0 to divide by.
            least = 2.0**wide.smallest_normal_exponent
            lost = lost | (((rows**2).mean(axis=1, keepdims=True) < least) & (asked.eps < least))
    may_overflow = asked.from_rows(np.broadcast_to(lost, rows.shape))
    return FormulaBounds(arrays[0], arrays[1], arrays[2], arrays[3], may_overflow)


def _find_reach(asked: RowFunction, rows: Floats) -> Floats:
    """The largest value on the way to each row's outputs: sums of squares, cubes."""
    if asked.kind in NORMS:
        return (rows**2).sum(axis=1, keepdims=True)
    power = 3 if asked.kind == "gelu" and asked.approximate == "tanh" else 1
    return np.abs(rows).max(axis=1, keepdims=True) ** power


def _round(moved: Floats, y: Floats, format_: Format, *, rounds_result: bool) -> Floats:
    """With the rounding of the result, and that of the truth."""
    if not rounds_result:
        return moved
    unit, least = float(format_.unit_roundoff), float(format_.smallest_subnormal)
    return moved + unit * (np.abs(y) + moved) + unit * np.abs(y) + 2 * least


def _move_softmax(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], y: Floats, errors: _Errors
) -> tuple[Floats, Floats]:
    distances = find_distances(rows)
    weights = np.exp(-distances)
    weights /= weights.sum(axis=1, keepdims=True)
    if errors.is_usual:
        shares = errors.unit * (_USUAL_EXP_UNITS + distances)
    else:
        shares = errors.unit * (_EXP_UNITS + _EXP_PER_DISTANCE * distances)
        shares = shares + errors.unit * _RESCALING_UNITS * math.ceil(rows.shape[1] / _RESCALED)
    shared = (weights * shares).sum(axis=1, keepdims=True) + errors.adding * (errors.steps + 4)
    lost = distances > _LOST_DISTANCE.get(asked.dtype, _USUAL_LOST_DISTANCE)
    moved = np.expm1(np.minimum(shares + shared + 4 * errors.unit, _LARGEST_SHARE))
    return np.where(lost, 1.0, moved) * weights, weights


def _move_norm(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], y: Floats, errors: _Errors
) -> tuple[Floats, Floats]:
    weight = np.abs(given["weight"].ravel()) if asked.has_weight else np.ones(rows.shape[1])
    bias = np.abs(given["bias"].ravel()) if asked.has_bias else np.zeros(rows.shape[1])
    sizes = np.abs(rows)
    mean, off, running = np.zeros((len(rows), 1)), np.zeros((len(rows), 1)), np.zeros((len(rows), 1))
    scattered = rows
    if asked.kind == "layernorm":
        mean = rows.mean(axis=1, keepdims=True)
        off = errors.adding * (errors.steps + 6) * sizes.mean(axis=1, keepdims=True)
        scattered = rows - mean
        running = 2 * np.sqrt(1 + mean**2 / np.maximum((scattered**2).mean(axis=1, keepdims=True), 2.0**-1000))
    variance = (scattered**2).mean(axis=1, keepdims=True)
    steps = errors.adding * errors.steps + 8 * errors.unit
    missed = off**2 + (variance + off**2) * steps * (1 + running)
    # A mean of squares is not negative, however far off it is.
    root, least = np.sqrt(variance + asked.eps), np.sqrt(np.maximum(variance - missed, 0) + asked.eps)
    share = np.maximum(root / least - 1, 1 - root / np.sqrt(variance + missed + asked.eps))
    share = share + _ROOT_UNITS * errors.unit * root / least
    per_unit = weight / least
    # Numbers before they are scaled, and both parts where the mean is folded into what is added.
    folded = errors.unit * (4 * sizes + 4 * np.abs(mean) + 3 * np.abs(scattered))
    normalized = per_unit * np.abs(scattered)
    moved = per_unit * (off + folded) + share * weight / root * np.abs(scattered)
    moved = moved + 2 * errors.unit * (normalized + bias)
    moved = moved + errors.narrow * (2 * normalized + bias)
    # 0 / 0 where all numbers are equal and eps is 0.
    return np.where(root > 0, moved, np.inf), normalized + bias


def _move_gelu(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], y: Floats, errors: _Errors
) -> tuple[Floats, Floats]:
    units = _USUAL_FUNCTION_UNITS if errors.is_usual else _FUNCTION_UNITS
    sizes = np.abs(rows)
    # By how much the bend at a number moves for a share by which its argument is off.
    steep = sizes * np.exp(-(rows**2) / 2) * (1 + sizes**2)
    moved = 0.5 * sizes * errors.unit * (units + 8 * steep) + 4 * errors.unit * np.abs(y)
    return moved, sizes


def _move_rope(
    asked: RowFunction, rows: Floats, given: Mapping[str, Floats], y: Floats, errors: _Errors
) -> tuple[Floats, Floats]:
    a, b, cos, sin = (np.abs(part) for part in take_pairs(asked, rows, given))
    magnitudes = join_pairs(asked, a * cos + b * sin, b * cos + a * sin)
    return (2 * errors.unit + errors.narrow) * magnitudes, magnitudes


_MOVED: dict[str, Callable[[RowFunction, Floats, Mapping[str, Floats], Floats, _Errors], tuple[Floats, Floats]]] = {
    "softmax": _move_softmax,
    "layernorm": _move_norm,
    "rmsnorm": _move_norm,
    "gelu": _move_gelu,
    "rope": _move_rope,
}
