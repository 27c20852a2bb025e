"""Case files: a problem, its operands and recorded results in one `.npz`, read without ever unpickling."""

from __future__ import annotations

import itertools
import math
import string
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samebits.errors import CaseFileError, OperandError, ProblemShapeError, ProblemTextError
from samebits.numbers.format import code_dtype, find_format, numpy_dtype
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.lowering import lower_problem
from samebits.problems.network_files import explain_other_network, hint_file, is_other_network
from samebits.problems.npy_files import list_members, make_printable, read_member
from samebits.problems.operands import check_operands, check_results
from samebits.problems.other_shapes import explain_shape
from samebits.problems.problem import Problem
from samebits.problems.problem_text import format_problem, parse_problem_text
from samebits.regular_files import check_target, open_regular

OPERANDS = ("x", "w", "bias", "dy")
_NATIVE = ("float64", "float32", "float16")
LARGEST_TEXT_BYTES = 2**20


@dataclass(frozen=True)
class Case:
    """A problem with its operands and the results somebody recorded, by name.

    Raises OperandError for a result that is none of this problem's; operands are checked where they are used.

    >>> import numpy as np, samebits
    >>> problem = samebits.parse_problem_text("linear x=2x3 w=4x3")
    >>> x, w = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    >>> case = samebits.Case(problem, {"x": x, "w": w}, {"mine": x @ w.T})
    >>> samebits.explain(case).verdict
    'identical'
    """

    problem: Problem
    operands: dict[str, np.ndarray]
    results: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", check_results(self.problem, self.results))


def lower_case(case: Case) -> Case:
    """The case of the convolution that is computed in place of a product; any other case as it is."""
    lowering = lower_problem(case.problem)
    if not lowering.is_product:
        return case
    results = {name: lowering.lower_result(result) for name, result in case.results.items()}
    return Case(lowering.convolution, lowering.lower_operands(case.operands), results)


Read = Callable[[str], Problem]


def load_case(path: str | Path, read: Read = parse_problem_text) -> Case:
    """Reads a case file; raises CaseFileError, in one line, for whatever is wrong with it.

    `read` makes a problem of its text (`languages.subject` knows more languages than ours). Formats that NumPy lacks
    travel as unsigned integers of their width (bfloat16 as uint16). Two results of one name are kept apart by their
    letters.

    >>> import numpy as np, samebits
    >>> np.savez("own.npz", problem="matmul x=2x2 w=2x2", x=np.eye(2), w=np.eye(2), a=np.eye(2))
    >>> try:
    ...     samebits.load_case("own.npz")
    ... except samebits.SamebitsError as error:
    ...     print(error)
    case file own.npz: x has dtype float64, but the problem's float32 needs float32
    """
    path = Path(path)
    entries = _read_entries(path, read)
    problem = _read_problem(path, entries, read)
    try:
        arrays = {n: _decode(path, n, a, problem.dtype) for n, a in entries.items() if n in OPERANDS}
        operands = check_operands(problem, arrays)
    except OperandError as error:
        raise CaseFileError(f"case file {path}: {error}") from None
    results: dict[str, np.ndarray] = {}
    for key in _list_results(entries):
        name = make_printable(_read_text(path, entries, f"name_{key}")) if f"name_{key}" in entries else key
        result = _decode(path, key, entries[key], problem.out)
        if result.shape != problem.out_shape:
            shapes = "x".join(map(str, result.shape)), "x".join(map(str, problem.out_shape))
            raise CaseFileError(
                f"case file {path}: result {key} has shape {shapes[0]}, the problem says {shapes[1]}"
                + explain_shape(problem, result.shape)
            )
        results[_distinguish(name, key, results)] = result
    return Case(problem, operands, results)


def save_case(
    path: str | Path,
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes a case file that `load_case` reads back bit for bit, with all results and their names.

    Raises OperandError for operands or results that are not the problem's.

    >>> import numpy as np, samebits
    >>> problem = samebits.parse_problem_text("linear x=2x3 w=4x3")
    >>> x, w = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    >>> samebits.save_case("made.npz", problem, {"x": x, "w": w}, {"mine": x @ w.T})
    >>> list(samebits.load_case("made.npz").results)
    ['mine']
    """
    checked = check_operands(problem, operands)
    entries: dict[str, np.ndarray] = {"problem": np.array(format_problem(problem))}
    entries |= {name: _encode(array) for name, array in checked.items()}
    recorded = check_results(problem, results or {})
    for key, (name, array) in zip(_name_results(), recorded.items(), strict=False):
        entries |= {key: _encode(array), f"name_{key}": np.array(str(name))}
    check_target(path)
    with Path(path).open("wb") as file:
        # NumPy's stubs take the keyword arrays for its own flag.
        np.savez_compressed(file, allow_pickle=False, **entries)  # type: ignore[arg-type]


def _name_results() -> Iterator[str]:
    """What results are called in a file: a, b, ... z, aa, ab, ...; operands keep their names."""
    for length in itertools.count(1):
        yield from ("".join(n) for n in itertools.product(string.ascii_lowercase, repeat=length) if n not in _TAKEN)


_TAKEN = frozenset(tuple(name) for name in OPERANDS)
_LETTERS = tuple(itertools.takewhile(lambda name: len(name) == 1, _name_results()))


def _list_results(names: Mapping[str, object]) -> list[str]:
    """The results among a file's entries: every single letter, and longer names as far as they follow on z."""
    longer = itertools.islice(_name_results(), len(_LETTERS), None)
    return [n for n in _LETTERS if n in names] + list(itertools.takewhile(names.__contains__, longer))


def _distinguish(name: str, key: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({key}{n})" for n in itertools.chain([""], itertools.count(2)))
    return next(n for n in itertools.chain([name], numbered) if n not in taken)


def _read_entries(path: Path, read: Read) -> dict[str, np.ndarray]:
    """The entries a case may have; the problem is read first, and no entry that is larger than it allows."""
    if is_other_network(path):
        raise CaseFileError(f"{path} {explain_other_network(path)}")
    _check_is_file(path)
    try:
        with open_regular(path) as file:
            begin = file.read(4)
            if begin == b"PK\x05\x06":
                raise CaseFileError(f"case file {path} is an empty archive")
            if begin != b"PK\x03\x04":
                raise CaseFileError(f"case file {path} is no .npz archive{hint_file(path)}")
            with zipfile.ZipFile(file) as archive, warnings.catch_warnings():
                # NumPy warns of headers that Python 2 wrote.
                warnings.simplefilter("ignore")
                return _read_arrays(path, archive, list_members(f"case file {path}", archive), read)
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
    path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], read: Read
) -> dict[str, np.ndarray]:
    if "problem" not in members:
        raise CaseFileError(f"case file {path} has no entry 'problem' with the problem's text")
    entries = {"problem": read_member(f"case file {path}", archive, members["problem"], LARGEST_TEXT_BYTES)}
    problem = _read_problem(path, entries, read)
    results = _list_results(members)
    shapes = dict.fromkeys(results, problem.out_shape) | problem.operand_shapes
    names = ((result, f"name_{result}") for result in results)
    for name in (*OPERANDS, *itertools.chain.from_iterable(names)):
        if name in members:
            # An array's shape in the widest dtype, and a header.
            limit = (math.prod(shapes[name]) * 16 if name in shapes else 0) + LARGEST_TEXT_BYTES
            entries[name] = read_member(f"case file {path}", archive, members[name], limit)
    return entries


def _explain_unreadable(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"is no readable .npz: {_first_line(error)}"


def _read_problem(path: Path, entries: Mapping[str, np.ndarray], read: Read) -> Problem:
    try:
        return read(_read_text(path, entries, "problem"))
    except (ProblemTextError, ProblemShapeError) as error:
        text = _read_text(path, entries, "problem")
        if is_integer_problem(text):
            says = f"samebits explain {path} judges them, and samebits compare {path} --on ENGINE runs engines on them"
            raise CaseFileError(f"case file {path} holds codes that were recorded: {says}") from None
        raise CaseFileError(f"case file {path}: {error}") from None


def _read_text(path: Path, entries: Mapping[str, np.ndarray], name: str) -> str:
    array = entries[name]
    if array.ndim == 0 and array.dtype.kind in "US":
        value = array.item()
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    raise CaseFileError(f"case file {path}: entry {name!r} must be one text, not {array.dtype} of shape {array.shape}")


def _decode(path: Path, name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The stored array in the dtype the problem says, or CaseFileError if the file says otherwise.

    Formats that NumPy has not are stored as bit patterns, or in float32 where all values are numbers of the format.
    """
    if dtype not in _NATIVE and array.dtype.newbyteorder("=") == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = array.astype(numpy_dtype(dtype))
        if np.array_equal(narrow.astype(np.float32), array, equal_nan=True):
            return narrow
    stored = code_dtype(find_format(dtype)) if dtype not in _NATIVE else numpy_dtype(dtype)
    if array.dtype.newbyteorder("=") != stored:
        says = str(stored)
        if dtype not in _NATIVE:
            says += f" (bit patterns of {dtype}, or float32 with values that {dtype} has)"
        raise CaseFileError(f"case file {path}: {name} has dtype {array.dtype}, but the problem's {dtype} needs {says}")
    return array.astype(stored).view(numpy_dtype(dtype))


def _encode(array: np.ndarray) -> np.ndarray:
    if array.dtype.name in _NATIVE:
        return array
    return np.asarray(array, order="C").view(f"uint{8 * array.dtype.itemsize}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
