"""The operands and results of an attention or a row function as a person gives them: a case file, arrays or files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samebits.errors import ArgumentError, OperandError
from samebits.numbers.format import code_dtype, find_format, numpy_dtype
from samebits.problems.any_problem import (
    FORMULAS,
    Formula,
    check_formula_operands,
    format_formula,
    is_formula,
    parse_formula,
)
from samebits.problems.array_files import Given
from samebits.problems.attention import Attention
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.problems.problem import DTYPES
from samebits.questions.given_operands import read_members, read_problem_text

_LABEL = "name_"
_NATIVE = ("float64", "float32", "float16")


@dataclass(frozen=True)
class FormulaCase:
    """An attention or row function with its operands and the results that somebody recorded, by name."""

    problem: Formula
    operands: dict[str, np.ndarray]
    results: dict[str, np.ndarray] = field(default_factory=dict)


def is_formula_case(subject: object) -> bool:
    """Whether a subject is an archive whose problem is an attention or a row function."""
    if not isinstance(subject, (str, Path)) or Path(subject).suffix != ".npz" or not Path(subject).is_file():
        return False
    return is_formula(read_problem_text(subject))


def read_formula(subject: object) -> Formula | FormulaCase | None:
    """The attention or row function that a subject is, its text names or its file holds; None of anything else."""
    if isinstance(subject, (*FORMULAS, FormulaCase)):
        return subject
    if is_formula(subject):
        return parse_formula(str(subject))
    return load_formula_case(str(subject)) if is_formula_case(subject) else None


def load_formula_case(path: str | Path) -> FormulaCase:
    """A case file with `problem`, its operands and results; raises SamebitsError for what does not fit."""
    return take_formula(parse_formula(str(read_problem_text(path))), read_members(path))


def take_formula(problem: Formula, given: Mapping[str, Given], *, needs_result: bool = False) -> FormulaCase:
    """The case of these arrays; raises OperandError for what is missing or does not fit."""
    arrays = {n: a.values if isinstance(a, PrintedNumbers) else np.asarray(a) for n, a in given.items()}
    known = ("q", "k", "v", "mask") if isinstance(problem, Attention) else tuple(problem.operand_shapes)
    operands = {n: _take_numbers(problem, n, arrays[n]) for n in known if n in arrays and n != "mask"}
    if isinstance(problem, Attention) and "mask" in arrays:
        if problem.mask is None:
            raise OperandError("mask is given, and the problem has none: write mask=bool or mask=add into its text")
        is_added = problem.mask == "add"
        operands["mask"] = _take_numbers(problem, "mask", arrays["mask"]) if is_added else _take_marks(arrays["mask"])
    checked = check_formula_operands(problem, operands)
    labels = {n.removeprefix(_LABEL): str(a) for n, a in arrays.items() if _is_label(n, a)}
    names = [n for n, a in arrays.items() if n not in (*known, "problem") and not _is_label(n, a)]
    if not names and needs_result:
        raise ArgumentError("a result is needed, by any other name than an operand's: mine=FILE")
    called = [labels.get(name, name).strip() or name for name in names]
    results: dict[str, np.ndarray] = {}
    for name, label in zip(names, called, strict=True):
        result = _take_numbers(problem, name, arrays[name])
        if result.shape != problem.out_shape:
            shapes = " and ".join("x".join(map(str, shape)) for shape in (result.shape, problem.out_shape))
            raise OperandError(f"result {name} and the result of {format_formula(problem)!r} have shapes {shapes}")
        results[label if called.count(label) == 1 else name] = result
    return FormulaCase(problem, checked, results)


def _is_label(name: str, array: np.ndarray) -> bool:
    return name.startswith(_LABEL) and array.dtype.kind == "U" and array.ndim == 0


def _take_marks(array: np.ndarray) -> np.ndarray:
    """A boolean mask, or one of 0 and 1."""
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise OperandError(
            f"mask holds {array.dtype} other than 0 and 1; write mask=add where it is added to the scores"
        )
    return array.astype(bool)


def _take_numbers(problem: Formula, name: str, array: np.ndarray) -> np.ndarray:
    """The array in the problem's dtype: as it is, bit patterns of it, or another dtype that holds the same numbers."""
    wanted = numpy_dtype(problem.dtype)
    if array.dtype == wanted:
        return array
    if problem.dtype not in _NATIVE and array.dtype == code_dtype(find_format(problem.dtype)):
        return array.view(wanted)
    if array.dtype.kind in "biuf" or array.dtype.name in DTYPES:
        with np.errstate(all="ignore"):
            cast = array.astype(wanted)
            if np.array_equal(cast.astype(np.float64), array.astype(np.float64), equal_nan=True):
                return cast
    raise OperandError(f"{name} has dtype {array.dtype}, and the problem needs {problem.dtype} numbers")
