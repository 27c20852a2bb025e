"""What a person gives to be explained: arrays by name, in files or in memory, with the problem's text or without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from samebits.errors import ArgumentError, CaseFileError, SamebitsError
from samebits.problems.array_files import Given, list_arrays, read_array_file, split_member
from samebits.problems.case_file import OPERANDS, Case
from samebits.problems.given_arrays import make_case, offer_problems
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.languages.any_language import read_problem
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.problems.problem import Problem
from samebits.sums.truth.functional import read_array

_PROBLEM = "problem"
_ASSIGNED = re.compile(r"([A-Za-z_][\w.-]{0,79})=(.+)", re.DOTALL)
_ARRAY_FILES = (".npy", ".pt", ".pth", ".safetensors", ".pb", ".csv", ".tsv")


def sort_subjects(words: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """The one case or log of a command's words, if any, and the files of arrays by name.

    Several files without names, and one of a single array beside named ones, are results, named by their files. Raises
    ArgumentError for a name given twice.
    """
    files = [word for word in words if _split_assignment(word) is None]
    named = read_assignments([word for word in words if word not in files])
    are_results = all(_holds_one_array(file) for file in files) if named else len(files) > 1
    if len(files) == 1 and not are_results:
        return files[0], named
    if files and not are_results:
        raise ArgumentError(f"name each file of an array, as in a={files[0]}")
    results = name_outputs(files) if files else {}
    if twice := [name for name in results if name in named]:
        file = results[twice[0]]
        raise ArgumentError(f"{file} would be {twice[0]}, which is given, too; name it, as in a={file}")
    return None, {**named, **results}


def _holds_one_array(path: str) -> bool:
    """Whether a file holds an array without a name and nothing else."""
    try:
        return is_array_file(path) and list_arrays(path) == [""]
    except SamebitsError:
        return False


def read_assignments(words: Sequence[str]) -> dict[str, str]:
    """The files of NAME=FILE by name; raises ArgumentError for another word, and for a name given twice."""
    named: dict[str, str] = {}
    for word in words:
        found = _split_assignment(word)
        if found is None:
            raise ArgumentError(f"{word[:80]} is no NAME=FILE, as in x=x.npy")
        if found[0] in named:
            raise ArgumentError(f"{found[0]} is given twice")
        named[found[0]] = found[1]
    return named


def _split_assignment(word: str) -> tuple[str, str] | None:
    """The name and the file of NAME=FILE; None for a word that is only a file."""
    found = None if Path(word).exists() else _ASSIGNED.fullmatch(word)
    return (found[1], found[2]) if found else None


def is_array_file(path: str | Path) -> bool:
    """Whether a file is one of arrays by how its name ends."""
    return Path(path).suffix in _ARRAY_FILES


def name_positional(given: Sequence[Any]) -> dict[str, Any]:
    """Names for results that were given without: files by their paths, arrays a, b, c and so on.

    Raises ArgumentError for more arrays than there are letters, and for a name given twice.
    """
    files = [str(g) for g in given if isinstance(g, (str, Path))]
    names = {file: name for name, file in (name_outputs(files) if files else {}).items()}
    letters = iter(ascii_lowercase)
    named: dict[str, Any] = {}
    for one in given:
        name = names[str(one)] if isinstance(one, (str, Path)) else next(letters, "")
        if not name or name in named:
            raise ArgumentError("give so many results by name, as in mine=ARRAY")
        named[name] = one
    return named


def name_outputs(files: Sequence[str]) -> dict[str, str]:
    """Names for files of results: what tells them apart at the end of their paths."""
    for parts in range(1, max(len(Path(f).parts) for f in files) + 1):
        names = ["/".join((*Path(f).parts[-parts:-1], _shorten(f) if parts == 1 else Path(f).name)) for f in files]
        if len(set(names)) == len(names):
            return dict(zip(names, files, strict=True))
    twice = next(f for f in files if files.count(f) > 1)
    raise ArgumentError(f"{twice} is named twice; two different results are needed")


def _shorten(file: str) -> str:
    """What a file of one result is called: its name without the ending, or that of the array in it."""
    path, member = split_member(file)
    return member or path.stem


def read_arrays(given: Mapping[str, Any], *, wide: bool = False) -> dict[str, Given]:
    """Arrays by name: a text or path is read as a file, anything else as any library's array.

    Lists that hold numbers of float32 only are float32, as NumPy and torch print such arrays, unless `wide` is set.
    """
    return {name: _read_any(value, name, wide=wide) for name, value in given.items()}


def _read_any(value: Any, name: str, *, wide: bool) -> Given:
    if isinstance(value, (str, Path)):
        return read_array_file(str(value), name)
    array = read_array(value, name)
    if isinstance(value, (list, tuple)) and array.dtype == np.float64 and not wide:
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        return narrow if np.array_equal(narrow, array, equal_nan=True) else array
    return array


def read_numbers(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What was given, with numbers for those of these names that are written as one and are no file."""
    found = dict(given)
    for name in names:
        text = given.get(name)
        if isinstance(text, str) and not Path(text).exists():
            try:
                found[name] = np.array(float(text))
            except ValueError:
                continue
        elif isinstance(text, (int, float)):
            found[name] = np.array(text)
    return found


def is_code_case(subject: object) -> bool:
    """Whether a subject is an archive of codes and of the problem on integers that they belong to."""
    if not isinstance(subject, (str, Path)) or Path(subject).suffix != ".npz" or not Path(subject).is_file():
        return False
    text = read_problem_text(subject)
    return text is not None and is_integer_problem(text)


def read_problem_text(path: str | Path) -> str | None:
    """The text of the problem in an archive; None where it holds none, to be read as any case."""
    try:
        held = read_array_file(f"{path}:{_PROBLEM}")
    except SamebitsError:
        return None
    return str(held) if isinstance(held, np.ndarray) and held.dtype.kind == "U" and not held.ndim else None


def has_problem(path: str | Path) -> bool:
    """Whether an archive of arrays says which problem they are; true of any other file, to be read as a case."""
    try:
        return _PROBLEM in list_arrays(path)
    except CaseFileError:
        return not is_array_file(path)


def read_members(path: str | Path) -> dict[str, Given]:
    """All arrays of a file, by their names in it; raises ArgumentError for one without a name."""
    names = [name for name in list_arrays(path) if name != _PROBLEM]
    if "" in names:
        raise ArgumentError(f"{path} is one array: give another result, or operands as well (x=FILE w=FILE a={path})")
    return {name: read_array_file(f"{path}:{name}") for name in names}


def make_given_case(problem: str | Problem | None, arrays: Mapping[str, Given]) -> Case:
    """The case of operands and results.

    Without a problem that of the only product with these shapes; a CaseFileError that offers the problems they allow,
    where there are several, or convolutions, whose padding and strides shapes do not say.
    """
    if problem is None:
        offered = offer_problems(arrays)
        if len(offered) > 1 or not read_problem(offered[0]).product:
            texts = " or ".join(f'--problem "{text}"' for text in offered)
            raise CaseFileError(f"which problem is it? These shapes allow {texts}")
        problem = offered[0]
    return make_case(read_problem(problem) if isinstance(problem, str) else problem, arrays)


def has_operands(names: Mapping[str, object]) -> bool:
    """Whether any of the names is an operand's."""
    return any(name in OPERANDS for name in names)


def make_plain(given: Mapping[str, Given]) -> dict[str, Given]:
    """Results of no known problem: of numbers printed with enough digits the float32 ones that were printed."""
    return {
        name: array.round_to(name, "float32") if isinstance(array, PrintedNumbers) and array.says("float32") else array
        for name, array in given.items()
    }
