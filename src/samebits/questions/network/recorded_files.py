"""Files of a network's values that were recorded elsewhere, and of the inputs they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ArgumentError, CaseFileError
from samebits.limits import VALUE_BYTES
from samebits.problems.array_files import read_every_array
from samebits.problems.polygraphy_files import is_polygraphy, list_runs, read_feed
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.questions.given_operands import read_assignments
from samebits.regular_files import read_regular

Recorded = dict[str, dict[str, np.ndarray]]
_JSON = ".json"


def read_recorded(given: Mapping[str, Any] | Sequence[str]) -> Recorded:
    """By side, the values that were recorded, by name: from NAME=FILE, FILE alone, or a mapping of files or arrays.

    A file is an .npz, one output's .npy, .pb, .safetensors or .pt, or what Polygraphy saved (`--save-outputs`): then
    each of its runners is a side. Raises SamebitsError in one line for a file that cannot be read.
    """
    named = given.items() if isinstance(given, Mapping) else [_split(word) for word in given]
    found: Recorded = {}
    for side, source in named:
        runs = _read_file(side, str(source)) if isinstance(source, (str, Path)) else {side: _take_arrays(side, source)}
        if twice := found.keys() & runs.keys():
            raise ArgumentError(f"two recorded sides are called {sorted(twice)[0]!r}; name them: --recorded NAME=FILE")
        found |= runs
    return found


def _split(word: str) -> tuple[str, str]:
    if Path(word).exists() or "=" not in word:
        return Path(word).stem, word
    ((name, file),) = read_assignments([word]).items()
    return name, file


def _read_file(side: str, path: str) -> Recorded:
    if path.endswith(_JSON):
        runs = list_runs(_read_json(path), path)
        if not runs:
            raise CaseFileError(f"{path} holds no results; polygraphy run MODEL --trt --save-outputs FILE writes them")
        read = {runner: {n: a for n, a in outputs.items() if a is not None} for runner, outputs in runs}
        return {side: next(iter(read.values()))} if len(read) == 1 else read
    return {side: _take_arrays(side, {name or "output": array for name, array in read_every_array(path).items()})}


def _take_arrays(side: str, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if printed := [name for name, array in arrays.items() if isinstance(array, PrintedNumbers)]:
        raise ArgumentError(f"{side}: {printed[0]!r} is printed text, which does not say the bits; save it as .npy")
    return {name: np.asarray(array) for name, array in arrays.items()}


def read_inputs(path: str) -> str | dict[str, np.ndarray]:
    """A network's inputs: those that Polygraphy saved are read; any other file is left as it is."""
    return read_feed(_read_json(path), path) if path.endswith(_JSON) else path


def _read_json(path: str) -> bytes:
    try:
        data = read_regular(path, VALUE_BYTES.read())
    except OSError as error:
        raise ArgumentError(f"{path} could not be read: {error.strerror}") from None
    if not is_polygraphy(data):
        raise CaseFileError(f"{path} is not what Polygraphy saves (--save-outputs, --save-inputs); arrays go as .npz")
    return data
