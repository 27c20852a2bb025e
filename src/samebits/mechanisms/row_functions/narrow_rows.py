"""Hypotheses: fewer digits than declared. Operands or values on the way kept in a narrower format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.row_functions.plain_rows import (
    AlteredRows,
    Floats,
    Operands,
    PlainNorm,
    compute_altered,
)
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import FLOAT32, Format, find_format
from samebits.problems.row_functions import NORMS, RowFunction

_FORMATS = ("bfloat16", "float16", "tf32", "float32")
# In which formats sums are tried that are added from the first number to the last.
_ADDED = {"float16": np.float16, "float32": np.float32}
_ADDS = CauseCode.LOW_PRECISION_ACCUMULATOR


def list_narrow_rows(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    """Formats narrower than the declared one; for operands in 16 bits, values on the way that are kept in them too."""
    declared, whole = find_format(asked.dtype), compute_altered(asked, operands)
    for name in _FORMATS:
        format_ = find_format(name)
        if format_.precision < declared.precision:
            yield from _list_operands(asked, operands, format_)
            rounded = round_array_to_format(whole, format_)
            yield AlteredRows(f"rounds the result to {name}", CauseCode.RESULT_ROUNDING, rounded, "downgrade")
        if format_.precision < max(declared.precision, FLOAT32.precision) and name != "tf32":
            yield from _list_values(asked, operands, format_)


def _list_operands(asked: RowFunction, operands: Operands, format_: Format) -> Iterator[AlteredRows]:
    names = tuple(operands)
    for chosen in dict.fromkeys([names, ("x",), names[1:], *((name,) for name in names[1:])]):
        if chosen:
            rounded = {n: round_array_to_format(operands[n].astype(np.float64), format_) for n in chosen}
            says = f"rounds {' and '.join(chosen)} to {format_.name}"
            yield AlteredRows(says, CauseCode.REDUCED_PRECISION_OPERANDS,
                              compute_altered(asked, {**operands, **rounded}), "downgrade")  # fmt: skip


def _list_values(asked: RowFunction, operands: Operands, format_: Format) -> Iterator[AlteredRows]:
    own, name = CauseCode.NARROW_INTERMEDIATE, format_.name
    if asked.kind == "softmax":
        rows = asked.to_rows(operands["x"]).astype(np.float64)
        distances = rows - rows.max(axis=1, keepdims=True)
        kept = round_array_to_format(np.exp(distances), format_)
        near = np.exp(round_array_to_format(distances, format_))
        for says, weights in ((f"keeps exponentials in {name}", kept), (f"keeps distances in {name}", near)):
            values = asked.from_rows(weights / weights.sum(axis=1, keepdims=True))
            yield AlteredRows(says, own, values, "downgrade")
        if (dtype := _ADDED.get(name)) is not None:
            values = asked.from_rows(np.exp(distances) / _add_in_turn(np.exp(distances), dtype))
            yield AlteredRows(f"adds in {name}, one after the other", _ADDS, values, "downgrade")
    elif asked.kind in NORMS:
        norm = PlainNorm(asked, operands)
        inverse = round_array_to_format(1 / norm.root, format_)
        centred = norm.rows - round_array_to_format(norm.mean, format_)
        root = np.sqrt((round_array_to_format(norm.scattered, format_) ** 2).mean(axis=1, keepdims=True) + asked.eps)
        for says, normalized in (
            (f"keeps the reciprocal root in {name}", norm.scattered * inverse),
            (f"keeps the root in {name}", norm.scattered / round_array_to_format(norm.root, format_)),
            (f"keeps what is normalised in {name}", round_array_to_format(norm.scattered / norm.root, format_)),
            (f"keeps the mean in {name}", centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + asked.eps)),
            (f"keeps distances from the mean in {name}", round_array_to_format(norm.scattered, format_) / root),
        ):
            yield AlteredRows(says, own, norm.finish(normalized), "downgrade")
        if (dtype := _ADDED.get(name)) is not None:
            count = norm.rows.shape[1]
            mean = _add_in_turn(norm.rows, dtype) / count if asked.kind == "layernorm" else 0.0
            squares = _add_in_turn((norm.rows - mean) ** 2, dtype) / count
            values = norm.finish((norm.rows - mean) / np.sqrt(squares + asked.eps))
            yield AlteredRows(f"adds in {name}, one after the other", _ADDS, values, "downgrade")
    elif asked.kind == "gelu":
        x = operands["x"].astype(np.float64)
        with np.errstate(all="ignore"):
            bend = np.where(x == 0, 1.0, 2 * compute_altered(asked, operands) / x)
        says = f"keeps {'tanh' if asked.approximate == 'tanh' else 'erf'} in {name}"
        yield AlteredRows(says, own, 0.5 * x * (1 + round_array_to_format(bend - 1, format_)), "downgrade")


def _add_in_turn(rows: Floats, dtype: type) -> Floats:
    with np.errstate(all="ignore"):
        return rows.astype(dtype).cumsum(axis=1, dtype=dtype)[:, -1:].astype(np.float64)
