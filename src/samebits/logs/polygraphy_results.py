"""Polygraphy's saved results (`--save-outputs`, `--save-results`): whole outputs of several runners, as JSON.

Arrays are base64 of `.npy` files; nothing in them is unpickled.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import numpy as np

from samebits.errors import LogError
from samebits.logs.entry import Metrics, Mismatch, name_sides

_MARK = b'"polygraphy_class"'
_MOST_OUTPUTS = 4096


def is_results(data: bytes) -> bool:
    """Whether a file is one of Polygraphy's, by its first letter and the word it puts into every object."""
    return data.lstrip()[:1] == b"{" and _MARK in data


def read_results(data: bytes, name: str) -> list[Mismatch]:
    """Every output in which two runners differ: the first one against each other. Raises LogError in one line."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise LogError(f"{name}: no JSON, or a damaged one ({error})") from None
    runners = [(runner, dict(_list_outputs(found))) for runner, found in _list_runners(document)]
    if len(runners) < 2:
        raise LogError(
            f"{name} holds {'no results' if not runners else 'the results of one runner only'}; save those of two:"
            " polygraphy run MODEL --onnxrt --trt --save-outputs FILE"
        )
    (first, ours), *others = runners
    found = [
        mismatch
        for other, theirs in others
        for output in list(ours)[:_MOST_OUTPUTS]
        if output in theirs
        for mismatch in _compare(output, name_sides(first, other), ours[output], theirs[output])
    ]
    if not found:
        raise LogError(f"{name}: {' and '.join(runner for runner, _ in runners)} have the same bits in every output")
    return found


def _list_runners(document: Any) -> Iterator[tuple[str, Any]]:
    """Names of runners, and what each gave in its first iteration."""
    entries: Any = document.get("lst") if isinstance(document, dict) else None
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        match entry:
            case [str() as runner, [dict() as first, *_]]:
                yield runner, first
            case _:
                continue


def _list_outputs(iteration: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    outputs: Any = iteration.get("outputs")
    for output, holder in cast("dict[str, Any]", outputs).items() if isinstance(outputs, dict) else []:
        array = _read_array(holder)
        if array is not None:
            yield output, array


def _read_array(holder: Any) -> np.ndarray | None:
    """The array of an output; None for texts, objects and what is damaged."""
    match holder:
        case {"values": dict() as inner}:
            return _read_array(inner)
        case {"array": str() as text}:
            try:
                array = np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)
            except (ValueError, OSError, EOFError, binascii.Error, MemoryError):
                return None
            return array if isinstance(array, np.ndarray) and array.dtype.kind in "fiub" else None
        case _:
            return None


def _compare(output: str, names: tuple[str, str], first: np.ndarray, second: np.ndarray) -> Iterator[Mismatch]:
    """The output's mismatch, unless both have the same bits."""
    facts = {"output": output}
    if first.shape != second.shape:
        trouble = f"output {output} has shape {list(first.shape)} on one side and {list(second.shape)} on the other"
        yield Mismatch("polygraphy", 1, names=names, facts=facts, metrics=Metrics(), trouble=trouble)
        return
    a, b = first.astype(np.float64).ravel(), second.astype(np.float64).ravel()
    differing = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differing.any():
        return
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(a - b)
    known = np.isfinite(away)
    metrics = Metrics(
        mismatched=int(differing.sum()),
        elements=a.size,
        max_abs=float(away[known].max(initial=0.0)) if known.all() else math.nan,
        mean_abs=float(away[known].mean()) if known.any() else None,
        largest_value=float(np.abs(np.concatenate([a[known], b[known]])).max(initial=0.0)) or None,
    )
    yield Mismatch("polygraphy", 1, names=names, facts=facts, metrics=metrics, outputs=(a, b))
