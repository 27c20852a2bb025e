"""Case files: a problem, its operands and recorded results in one `.npz`, read without ever unpickling."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samebits.errors import CaseFileError, OperandError, ProblemShapeError, ProblemTextError
from samebits.formats.format import code_dtype, find_format, numpy_dtype
from samebits.problems.operands import check_operands
from samebits.problems.other_shapes import explain_shape
from samebits.problems.problem import Problem
from samebits.problems.problem_text import format_problem, parse_problem_text

RESULTS = ("a", "b")
_KNOWN = ("problem", "x", "w", "bias", "dy", "a", "b", "name_a", "name_b")
_NATIVE = ("float64", "float32", "float16")
LARGEST_TEXT_BYTES = 2**20
LONGEST_NAME = 80


@dataclass(frozen=True)
class Case:
    """A problem with its operands and the results somebody recorded, by name."""

    problem: Problem
    operands: dict[str, np.ndarray]
    results: dict[str, np.ndarray] = field(default_factory=dict)


Read = Callable[[str], Problem]


def load_case(path: str | Path, read: Read = parse_problem_text) -> Case:
    """Reads a case file; raises CaseFileError, in one line, for whatever is wrong with it.

    `read` makes a problem of its text (`languages.subject` knows more languages than ours). Formats that NumPy lacks
    travel as unsigned integers of their width (bfloat16 as uint16).
    """
    path = Path(path)
    entries = _read_entries(path, read)
    problem = _read_problem(path, entries, read)
    try:
        arrays = {n: _decode(path, n, a, problem.dtype) for n, a in entries.items() if n in ("x", "w", "bias", "dy")}
        operands = check_operands(problem, arrays)
    except OperandError as error:
        raise CaseFileError(f"case file {path}: {error}") from None
    results: dict[str, np.ndarray] = {}
    for key in RESULTS:
        if key in entries:
            name = _printable(_read_text(path, entries, f"name_{key}")) if f"name_{key}" in entries else key
            result = _decode(path, key, entries[key], problem.out)
            if result.shape != problem.out_shape:
                shapes = "x".join(map(str, result.shape)), "x".join(map(str, problem.out_shape))
                raise CaseFileError(
                    f"case file {path}: result {key} has shape {shapes[0]}, the problem says {shapes[1]}"
                    + explain_shape(problem, result.shape)
                )
            results[name if name not in results else f"{name} ({key})"] = result
    return Case(problem, operands, results)


def save_case(
    path: str | Path,
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes a case file that `load_case` reads back bit for bit; at most two results, with their names.

    Raises OperandError for operands or results that are not the problem's.
    """
    checked = check_operands(problem, operands)
    entries: dict[str, np.ndarray] = {"problem": np.array(format_problem(problem))}
    entries |= {name: _encode(array) for name, array in checked.items()}
    for key, (name, array) in zip(RESULTS, (results or {}).items(), strict=False):
        if array.shape != problem.out_shape or array.dtype != numpy_dtype(problem.out):
            wanted = f"{'x'.join(map(str, problem.out_shape))} {problem.out}"
            raise OperandError(f"result {name!r} is {'x'.join(map(str, array.shape))} {array.dtype}, not {wanted}")
        entries |= {key: _encode(array), f"name_{key}": np.array(name)}
    with Path(path).open("wb") as file:
        # NumPy's stubs take the keyword arrays for its own flag.
        np.savez_compressed(file, allow_pickle=False, **entries)  # type: ignore[arg-type]


def _read_entries(path: Path, read: Read) -> dict[str, np.ndarray]:
    """The entries a case may have; none is read that is larger than the problem, which is read first, lets it be."""
    _check_is_file(path)
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise CaseFileError(f"case file {path} is no .npz archive")
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
        with np.load(path, allow_pickle=False) as arrays:
            return _read_arrays(path, arrays, sizes, read)
    except CaseFileError:
        raise
    except Exception as error:  # Readers of zip and npy raise whatever hostile bytes make them raise.
        raise CaseFileError(f"case file {path} {_explain_unreadable(error)}") from None


def _check_is_file(path: Path) -> None:
    try:
        if not path.exists():
            raise CaseFileError(f"case file {path} does not exist")
        if not path.is_file():
            raise CaseFileError(f"case file {path} cannot be read: it is no regular file")
    except (OSError, ValueError) as error:
        raise CaseFileError(f"case file {str(path)[:100]!r} cannot be read: {_first_line(error)}") from None


def _read_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], read: Read
) -> dict[str, np.ndarray]:
    if "problem" not in sizes:
        raise CaseFileError(f"case file {path} has no entry 'problem' with the problem's text")
    entries: dict[str, np.ndarray] = {}
    limits: dict[str, int] = dict.fromkeys(("problem", "name_a", "name_b"), LARGEST_TEXT_BYTES)
    for name in _KNOWN:
        if name not in sizes:
            continue
        if sizes[name] > limits[name]:
            says = f"{name} has {sizes[name]:,} bytes, at most {limits[name]:,} are needed"
            raise CaseFileError(f"case file {path}: {says}")
        array = arrays[name]
        if not isinstance(array, np.ndarray):
            raise CaseFileError(f"case file {path}: entry {name!r} is no .npy array")
        entries[name] = array
        if name == "problem":
            limits |= _limit_sizes(_read_problem(path, entries, read))
    return entries


def _limit_sizes(problem: Problem) -> dict[str, int]:
    """The most bytes each array may have: its shape in the widest dtype, and a header."""
    shapes = {**problem.operand_shapes, "a": problem.out_shape, "b": problem.out_shape}
    return {
        name: math.prod(shapes.get(name, ())) * 16 + LARGEST_TEXT_BYTES for name in ("x", "w", "bias", "dy", "a", "b")
    }


def _explain_unreadable(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, ValueError) and "allow_pickle" in str(error):
        return "holds pickled objects, which samebits never loads"
    return f"is no readable .npz: {_first_line(error)}"


def _read_problem(path: Path, entries: Mapping[str, np.ndarray], read: Read) -> Problem:
    try:
        return read(_read_text(path, entries, "problem"))
    except (ProblemTextError, ProblemShapeError) as error:
        raise CaseFileError(f"case file {path}: {error}") from None


def _read_text(path: Path, entries: Mapping[str, np.ndarray], name: str) -> str:
    array = entries[name]
    if array.ndim == 0 and array.dtype.kind in "US":
        value = array.item()
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    raise CaseFileError(f"case file {path}: entry {name!r} must be one text, not {array.dtype} of shape {array.shape}")


def _printable(name: str) -> str:
    """A recorded result's name without what a terminal would obey or cannot show, and not too long."""
    return "".join(c if c.isprintable() else "?" for c in name)[:LONGEST_NAME] or "unnamed"


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
