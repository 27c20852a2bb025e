"""Arrays that Polygraphy saves as JSON: results of runners (`--save-outputs`), inputs (`--save-inputs`).

Each is base64 of a `.npy` file; nothing in them is unpickled. Source: Polygraphy 0.49 to 0.53, `polygraphy/json`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import numpy as np

from samebits.errors import CaseFileError

_MARK = b'"polygraphy_class"'
# A file's own names may be of any length; values in between are named by path, e.g. /model/layers.11/attn/MatMul.
_LONGEST_NAME = 500

# The arrays of one runner by name, iterations after the first with their number; None for what cannot be read.
Outputs = dict[str, np.ndarray | None]


def is_results(data: bytes) -> bool:
    """Whether a file is one of Polygraphy's results, by its first letter and the word it puts into every object."""
    return data.lstrip()[:1] == b"{" and _MARK in data


def is_polygraphy(data: bytes) -> bool:
    """Whether a file is one of Polygraphy's, results or inputs."""
    return data.lstrip()[:1] in (b"{", b"[") and _MARK in data


def list_runs(data: bytes, name: str) -> list[tuple[str, Outputs]]:
    """Every runner with what it returned; raises CaseFileError, in a line, for what is no JSON."""
    return [(runner, outputs) for runner, outputs in _list_runners(_decode(data, name)) if outputs]


def read_feed(data: bytes, name: str) -> dict[str, np.ndarray]:
    """The inputs of the first iteration, by name; raises CaseFileError for a file without any."""
    document = _decode(data, name)
    feeds: Any = document.get("lst") if isinstance(document, dict) else document
    feed: Any = feeds[0] if isinstance(feeds, list) and feeds else None
    read = {k: _read_array(v) for k, v in cast("dict[str, Any]", feed).items()} if isinstance(feed, dict) else {}
    found = {name: array for name, array in read.items() if array is not None}
    if not found:
        raise CaseFileError(f"{name} holds no inputs; polygraphy run MODEL --save-inputs FILE writes them")
    return found


def _decode(data: bytes, name: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{name}: no JSON, or a damaged one ({error})") from None


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
                    name = output[:_LONGEST_NAME]
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
