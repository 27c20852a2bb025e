"""Files of a network's values that were recorded elsewhere, and of the inputs they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from samebits.display.visible_text import show_controls
from samebits.errors import ArgumentError, CaseFileError
from samebits.limits import VALUE_BYTES
from samebits.problems.array_files import read_every_array
from samebits.problems.polygraphy_files import is_polygraphy, list_runs, read_feed
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.questions.given_operands import read_assignments
from samebits.regular_files import read_regular
from samebits.sums.truth.functional import read_array

Recorded = dict[str, dict[str, np.ndarray]]
_JSON = ".json"
_LONGEST_NAME = 80


def read_recorded(given: Mapping[str, Any] | Sequence[str]) -> Recorded:
    """By side, the values that were recorded, by name: from NAME=FILE, FILE alone, or a mapping of files or arrays.

    A file is an .npz, one output's .npy, .pb, .safetensors or .pt, or what Polygraphy saved (`--save-outputs`): then
    each of its runners is a side. Raises SamebitsError in one line for a file that cannot be read.
    """
    named = given.items() if isinstance(given, Mapping) else [_split(word) for word in given]
    found: Recorded = {}
    for name, source in named:
        runs = _read_file(name, str(source)) if isinstance(source, (str, Path)) else _take_mapping(name, source)
        if twice := found.keys() & runs.keys():
            raise ArgumentError(f"two recorded sides are called {sorted(twice)[0]!r}; name them: --recorded NAME=FILE")
        found |= runs
    return found


def _split(word: str) -> tuple[str, str]:
    """The name of a side, empty where none was given, and its file."""
    if Path(word).exists() or "=" not in word:
        return "", word
    ((name, file),) = read_assignments([word]).items()
    return name, file


def _take_mapping(name: object, source: object) -> Recorded:
    """A side given in Python; raises ArgumentError for anything but arrays by name."""
    if not isinstance(name, str) or not isinstance(source, Mapping):
        raise ArgumentError(
            f"recorded is a side's name with a file, or with arrays by name, not {name!r}: {source!r:.80}"
        )
    return {_make_name(name): _take_arrays(name, cast("Mapping[str, Any]", source))}


def _make_name(name: str) -> str:
    """A side's name as it is shown: an engine's settings have colons and commas, a recorded side has none."""
    return re.sub(r"[:,\s]+", "-", show_controls(name)).strip("-")[:_LONGEST_NAME] or "recorded"


def _read_file(name: str, path: str) -> Recorded:
    side = _make_name(name or Path(path).stem)
    if path.endswith(_JSON):
        runs = list_runs(_read_json(path), path)
        if not runs:
            raise CaseFileError(f"{path} holds no results; polygraphy run MODEL --trt --save-outputs FILE writes them")
        read: Recorded = {}
        for runner, outputs in runs:
            own = side if name and len(runs) == 1 else _make_name(runner)
            if own in read:
                raise CaseFileError(f"{path} holds two runners called {own!r}; save each to a file of its own")
            read[own] = {n: a for n, a in outputs.items() if a is not None}
        return read
    return {side: _take_arrays(side, {name or "output": array for name, array in read_every_array(path).items()})}


def _take_arrays(side: str, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if printed := [name for name, array in arrays.items() if isinstance(array, PrintedNumbers)]:
        raise ArgumentError(f"{side}: {printed[0]!r} is printed text, which does not say the bits; save it as .npy")
    return {str(name): read_array(array, f"{side}'s {name}") for name, array in arrays.items()}


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
