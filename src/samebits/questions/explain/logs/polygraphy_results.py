"""Polygraphy's saved results (`--save-outputs`, `--save-results`): whole outputs of several runners, as JSON.

Arrays are base64 of `.npy` files; nothing in them is unpickled.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from samebits.errors import LogError
from samebits.questions.explain.logs.entry import LONGEST_NAME, Metrics, Mismatch, name_sides

_MARK = b'"polygraphy_class"'
_MOST_OUTPUTS = 4096

# The outputs of one runner by name, iterations after the first with their number; None for what cannot be read.
Outputs = dict[str, np.ndarray | None]


def is_results(data: bytes) -> bool:
    """Whether a file is one of Polygraphy's, by its first letter and the word it puts into every object."""
    return data.lstrip()[:1] == b"{" and _MARK in data


def read_results(data: bytes, name: str) -> list[Mismatch]:
    """Every output in which two runners differ, or that cannot be compared: the first runner against each other.

    Raises LogError in one line for a file without two runners' outputs, and where all values are the same.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise LogError(f"{name}: no JSON, or a damaged one ({error})") from None
    runners = [(runner, outputs) for runner, outputs in _list_runners(document) if outputs]
    if len(runners) < 2:
        raise LogError(
            f"{name} holds {'no results' if not runners else 'the results of one runner only'}; save those of two:"
            " polygraphy run MODEL --onnxrt --trt --save-outputs FILE"
        )
    (first, ours), *others = runners
    found: list[Mismatch] = []
    for other, theirs in others:
        names = name_sides(first, other)
        every = list(dict.fromkeys([*ours, *theirs]))
        for output in every[:_MOST_OUTPUTS]:
            found += _compare(output, names, ours.get(output), theirs.get(output))
        if len(every) > _MOST_OUTPUTS:
            found.append(_refuse(names, f"outputs beyond the first {_MOST_OUTPUTS:,} are not compared"))
    if found and not _share_any(ours, [theirs for _, theirs in others]):
        raise LogError(f"{name}: none of its outputs can be compared: {found[0].trouble}")
    if not found:
        raise LogError(f"{name}: all {len(runners)} runners have the same values in all {len(ours):,} outputs")
    return found


def _share_any(ours: Outputs, others: Sequence[Outputs]) -> bool:
    """Whether any output was read on both sides."""
    return any(ours.get(output) is not None for theirs in others for output, a in theirs.items() if a is not None)


def _list_runners(document: Any) -> Iterator[tuple[str, Outputs]]:
    entries: Any = document.get("lst") if isinstance(document, dict) else None
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        match entry:
            case [str() as runner, [*iterations]]:
                yield runner, dict(_list_outputs(cast("list[Any]", iterations)))
            case _:
                continue


def _list_outputs(iterations: list[Any]) -> Iterator[tuple[str, np.ndarray | None]]:
    for number, iteration in enumerate(iterations, 1):
        match iteration:
            case {"outputs": dict() as outputs}:
                for output, holder in cast("dict[str, Any]", outputs).items():
                    name = output[:LONGEST_NAME]
                    yield name if number == 1 else f"{name} (iteration {number})", _read_array(holder)
            case _:
                continue


def _read_array(holder: Any) -> np.ndarray | None:
    """The array of an output; None for texts, objects, complex numbers and what is damaged."""
    match holder:
        case {"values": dict() as inner}:
            return _read_array(inner)
        case {"array": str() as text}:
            try:
                array = np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)
            except Exception:
                # Readers of npy raise whatever hostile bytes make them raise.
                return None
            return array if isinstance(array, np.ndarray) and array.dtype.kind in "fiub" else None
        case _:
            return None


def _refuse(names: tuple[str, str], why: str) -> Mismatch:
    return Mismatch("polygraphy", 1, names=names, trouble=why)


def _compare(
    output: str, names: tuple[str, str], first: np.ndarray | None, second: np.ndarray | None
) -> Iterator[Mismatch]:
    """The output's mismatch, unless both have the same values."""
    if first is None or second is None:
        why = "is not there on both sides, or holds nothing that can be read as real numbers"
        yield _refuse(names, f"output {output} {why}")
        return
    if first.shape != second.shape:
        shapes = f"has shape {list(first.shape)} on one side and {list(second.shape)} on the other"
        yield _refuse(names, f"output {output} {shapes}")
        return
    a, b = first.ravel(), second.ravel()
    # Integers of 64 bits are compared as what they are, next to floats too.
    wide = a.dtype if a.dtype == b.dtype else np.dtype(np.longdouble)
    differing = (a.astype(wide) != b.astype(wide)) & ~(np.isnan(a) & np.isnan(b))
    if not differing.any():
        return
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        away = np.abs(a - b)
    known = np.isfinite(away)
    metrics = Metrics(
        mismatched=int(differing.sum()),
        elements=a.size,
        max_abs=float(away.max(initial=0.0)) if known.all() else math.nan,
        mean_abs=float(away[known].mean()) if known.any() else None,
        largest_value=float(np.abs(np.concatenate([a[known], b[known]])).max(initial=0.0)) or None,
    )
    yield Mismatch("polygraphy", 1, names=names, facts={"output": output}, metrics=metrics, outputs=(a, b))
