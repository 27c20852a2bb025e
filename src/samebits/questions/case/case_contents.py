"""Case files read and made: the arrays by name, and the problem that they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from samebits.errors import CaseFileError, OperandError
from samebits.numbers.format import name_dtype
from samebits.problems import format_problem
from samebits.problems.array_files import Given
from samebits.problems.case_file import OPERANDS, Case, save_case
from samebits.problems.given_arrays import offer_problems
from samebits.problems.languages.any_language import load_any_case
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.questions.case.case_schema import ArrayContents, CaseContents
from samebits.questions.given_operands import has_problem, make_given_case, read_arrays, read_members
from samebits.version import VERSION


def describe_case(path: str | Path) -> CaseContents:
    """What a case file, or any archive of arrays, holds; raises CaseFileError for another file."""
    if has_problem(path):
        case = load_any_case(path)
        named = {**case.operands, **case.results}
        problem, allowed = format_problem(case.problem), list[str]()
    else:
        named = read_members(path)
        problem, allowed = None, _offer(named)
    other = "result" if problem else "array"
    arrays = [_describe_array(name, array, other) for name, array in named.items()]
    return CaseContents(
        path=str(path), problem=problem, allowed_problems=allowed, arrays=arrays, samebits_version=VERSION
    )


def _offer(named: Mapping[str, Given]) -> list[str]:
    try:
        return offer_problems(named)
    except CaseFileError:
        return []


def _describe_array(name: str, array: Given, other: Literal["result", "array"]) -> ArrayContents:
    array = array.values if isinstance(array, PrintedNumbers) else array
    with np.errstate(invalid="ignore"):
        values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return ArrayContents(
        name=name,
        role="operand" if name in OPERANDS else other,
        shape=list(array.shape),
        dtype=name_dtype(array.dtype),
        least=float(finite.min()) if finite.size else None,
        largest=float(finite.max()) if finite.size else None,
        not_finite=values.size - finite.size,
    )


def write_case(path: str | Path, problem: str | None, arrays: Mapping[str, Any]) -> None:
    """Writes a case of arrays by name (arrays, or files of them), or adds them to a case that is there.

    Raises what `samebits.explain` raises for arrays that do not fit, and OSError.
    """
    given = read_arrays(arrays)
    if Path(path).exists():
        known = load_any_case(path) if has_problem(path) else None
        kept: Mapping[str, Given] = {**known.operands, **known.results} if known else read_members(path)
        if twice := sorted(set(kept) & set(given)):
            raise OperandError(f"{path} has {twice[0]} already; another name, or another file, keeps both")
        given = {**kept, **given}
        problem = problem or (format_problem(known.problem) if known else None)
    case: Case = make_given_case(problem, given)
    save_case(path, case.problem, case.operands, case.results)
