"""Case files: a problem, its operands and recorded results in one `.npz`, read without ever unpickling."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samebits.errors import CaseFileError, OperandError, ProblemShapeError, ProblemTextError
from samebits.formats.format import code_dtype, find_format, numpy_dtype
from samebits.problems.operands import check_operands
from samebits.problems.problem import Problem
from samebits.problems.reading import read_problem
from samebits.problems.text import format_problem

RESULTS = ("a", "b")
_KNOWN = ("problem", "x", "w", "bias", "dy", "a", "b", "name_a", "name_b")
_NATIVE = ("float64", "float32", "float16")
# A case that would not fit in memory is refused before anything is read.
LARGEST_BYTES = 2**34


@dataclass(frozen=True)
class Case:
    """A problem with its operands and the results somebody recorded, by name."""

    problem: Problem
    operands: dict[str, np.ndarray]
    results: dict[str, np.ndarray] = field(default_factory=dict)


def load_case(path: str | Path) -> Case:
    """Reads a case file; raises CaseFileError, in one line, for whatever is wrong with it.

    Formats that NumPy lacks travel as unsigned integers of their width (bfloat16 as uint16).
    """
    path = Path(path)
    entries = _read_entries(path)
    problem = _read_problem(path, entries)
    try:
        arrays = {n: _decode(path, n, a, problem.dtype) for n, a in entries.items() if n in ("x", "w", "bias", "dy")}
        operands = check_operands(problem, arrays)
    except OperandError as error:
        raise CaseFileError(f"case file {path}: {error}") from None
    results: dict[str, np.ndarray] = {}
    for key in RESULTS:
        if key in entries:
            name = _read_text(path, entries, f"name_{key}") if f"name_{key}" in entries else key
            result = _decode(path, key, entries[key], problem.out)
            if result.shape != problem.out_shape:
                shapes = "x".join(map(str, result.shape)), "x".join(map(str, problem.out_shape))
                raise CaseFileError(
                    f"case file {path}: result {key} has shape {shapes[0]}, the problem says {shapes[1]}"
                )
            results[name if name not in results else f"{name} ({key})"] = result
    return Case(problem, operands, results)


def save_case(
    path: str | Path,
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes a case file that `load_case` reads back bit for bit; at most two results, with their names."""
    checked = check_operands(problem, operands)
    entries: dict[str, np.ndarray] = {"problem": np.array(format_problem(problem))}
    entries |= {name: _encode(array) for name, array in checked.items()}
    for key, (name, array) in zip(RESULTS, (results or {}).items(), strict=False):
        entries |= {key: _encode(array), f"name_{key}": np.array(name)}
    with Path(path).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **entries)  # type: ignore[arg-type]


def _read_entries(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise CaseFileError(f"case file {path} is no .npz archive")
        _check_sizes(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name in _KNOWN}
    except FileNotFoundError:
        raise CaseFileError(f"case file {path} does not exist") from None
    except (IsADirectoryError, PermissionError) as error:
        raise CaseFileError(f"case file {path} cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
        if "pickle" in str(error).lower():
            raise CaseFileError(f"case file {path} holds pickled objects, which samebits never loads") from None
        raise CaseFileError(f"case file {path} is no readable .npz: {_first_line(error)}") from None
    except (SyntaxError, TypeError, MemoryError, OverflowError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
        raise CaseFileError(f"case file {path} is no readable .npz: {_first_line(error)}") from None


def _check_sizes(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGEST_BYTES:
        raise CaseFileError(
            f"case file {path} unpacks to {size / 2**30:.0f} GiB; at most {LARGEST_BYTES // 2**30} are read"
        )


def _read_problem(path: Path, entries: Mapping[str, np.ndarray]) -> Problem:
    if "problem" not in entries:
        raise CaseFileError(f"case file {path} has no entry 'problem' with the problem's text")
    try:
        return read_problem(_read_text(path, entries, "problem"))
    except (ProblemTextError, ProblemShapeError) as error:
        raise CaseFileError(f"case file {path}: {error}") from None


def _read_text(path: Path, entries: Mapping[str, np.ndarray], name: str) -> str:
    array = entries[name]
    if array.ndim == 0 and array.dtype.kind in "US":
        value = array.item()
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    raise CaseFileError(f"case file {path}: entry {name!r} must be one text, not {array.dtype} of shape {array.shape}")


def _decode(path: Path, name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The stored array in the dtype the problem says, or CaseFileError if the file says otherwise."""
    stored = code_dtype(find_format(dtype)) if dtype not in _NATIVE else numpy_dtype(dtype)
    if array.dtype.newbyteorder("=") != stored:
        says = f"{stored} (bit patterns of {dtype})" if dtype not in _NATIVE else str(stored)
        raise CaseFileError(f"case file {path}: {name} has dtype {array.dtype}, but the problem's {dtype} needs {says}")
    return array.astype(stored).view(numpy_dtype(dtype)) if array.ndim else array.astype(stored)


def _encode(array: np.ndarray) -> np.ndarray:
    if array.dtype.name in _NATIVE:
        return array
    return np.ascontiguousarray(array).view(f"uint{8 * array.dtype.itemsize}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
