"""The front door of explaining: a case file with results, or the log of another tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, TypeGuard

import msgspec
from numpy.typing import ArrayLike

from samebits.errors import ArgumentError, LogError
from samebits.findings import Comparison
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem
from samebits.problems.any_problem import FORMULAS, Formula, is_formula, parse_formula
from samebits.problems.case_file import Case
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.languages.any_language import load_any_case, read_problem
from samebits.problems.network_files import explain_other_network, is_other_network
from samebits.problems.problem import KINDS
from samebits.progress import Progress, ignore_progress
from samebits.questions.explain.integer_results import explain_integers
from samebits.questions.explain.logged.logged_mismatch import explain_log
from samebits.questions.explain.logs import STANDARD_INPUT, read_log, read_log_text
from samebits.questions.explain.two_outputs import explain_two_outputs
from samebits.questions.formula_comparing import compare_formula
from samebits.questions.given_formula import FormulaCase, take_formula
from samebits.questions.given_integers import NUMBERS
from samebits.questions.given_operands import (
    has_operands,
    has_problem,
    is_array_file,
    make_given_case,
    make_plain,
    name_positional,
    read_arrays,
    read_members,
    read_numbers,
    read_problem_text,
)
from samebits.regular_files import open_regular

_ZIP = b"PK\x03\x04"
_FEWEST = 2


@default_float_environment()
def explain(
    subject: str | Path | Case | FormulaCase | Problem | Formula | ArrayLike | None = None,
    *others: str | Path | ArrayLike,
    problem: str | Problem | Formula | None = None,
    like: Sequence[str] = (),
    progress: Progress = ignore_progress,
    **arrays: Any,
) -> Comparison:
    """Says which recorded result is right, what made the other, and how that is known; no engine is needed.

    `subject` is a case (file) with one result or more, or the path of a log (or its text, or of a web page that shows
    one; `-` is standard input): XLA's autotuner, assert_close, Polygraphy, failures of verifiers (MIOpenDriver,
    benchdnn, Optimum, googletest, assertAllClose, NumPy's ulp asserts), oneDNN verbose lines. Of a log with several
    mismatches the first is returned, with the others in its `more`; equal ones are explained once, and of very many the
    first ones only, which the finding says.

    In place of a subject, or beside a case, `arrays` are operands (x, w, bias, dy) and results of any other name:
    arrays of any library, or files of them (.npy, .npz, .pt, .safetensors, .pb, text; FILE:NAME for one of several).
    `problem`, or what stands first, is then the text of what they are; without it the error offers what their shapes
    allow. Two results without operands, or two arrays or files of them in place of a subject, are compared with each
    other, and which is right stays open.

    Of an attention ("attention q=1x8x128x64 k=1x8x128x64 causal") the operands are q, k, v and mask, of a function of
    rows ("layernorm x=8x768 weight bias") x, weight and bias, of "rope" x, cos and sin.

    Of a problem on integers ("linear x=8x64 w=16x64 bias dtype=int8 out=int8") scales and zero points are operands
    too: x_scale, w_scale, y_scale, x_zero, w_zero, y_zero, each an array, a file or a number.

    `like` names engines at hand: each is asked how it computes the problem of a case, and its recipe is tried on every
    result first. Raises CaseFileError, LogError or OperandError, in one line, for what cannot be read, does not fit or
    has nothing to explain.

    >>> import numpy as np, samebits
    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((16, 64)), rng.standard_normal((8, 64))
    >>> x, w = x.astype(np.float32), w.astype(np.float32)
    >>> narrow = x.astype(np.float16).astype(np.float32) @ w.T
    >>> found = samebits.explain(problem="linear x=16x64 w=8x64", x=x, w=w, mine=narrow)
    >>> found.sides[0].verdict, str(found.sides[0].cause)
    ('downgrade', 'reduced-precision-operands')
    """
    if problem is None and _states_problem(subject):
        subject, problem = None, subject
    _check_problem(problem)
    if others or not isinstance(subject, (str, Path, Case, FormulaCase, NoneType)):
        arrays = {**name_positional([one for one in (subject, *others) if one is not None]), **arrays}
        subject = None
    if is_formula(problem) or isinstance(problem, FORMULAS) or isinstance(subject, FormulaCase):
        return _explain_formula(subject, problem, arrays, like, progress)
    if is_integer_problem(problem):
        return _explain_codes(subject, str(problem), arrays, like, progress)
    if arrays or problem is not None:
        return _explain_arrays(subject, problem, arrays, like, progress)
    if isinstance(subject, Case):
        return explain_case(subject, like=like, progress=progress)
    if not isinstance(subject, (str, Path)):
        raise ArgumentError(f"a case, the path of one or of a log, or arrays are needed, not {type(subject).__name__}")
    return _explain_file(subject, like, progress)


def _explain_file(subject: str | Path, like: Sequence[str], progress: Progress) -> Comparison:
    """A case, an archive of arrays, or a log."""
    if isinstance(subject, str) and "\n" in subject:
        first, *rest = explain_log(read_log_text(subject), progress)
        return msgspec.structs.replace(first, more=rest)
    if is_other_network(subject) and not is_array_file(str(subject)):
        raise LogError(f"{subject} {explain_other_network(subject)}")
    if str(subject) != STANDARD_INPUT and (_is_case_file(Path(subject)) or is_array_file(str(subject))):
        if has_problem(subject):
            text = read_problem_text(subject)
            if is_integer_problem(text):
                return _explain_codes(subject, str(text), {}, like, progress)
            if is_formula(text):
                return _explain_formula(subject, text, {}, like, progress)
            return explain_case(load_any_case(subject), like=like, progress=progress)
        return _explain_arrays(subject, None, {}, like, progress)
    if like:
        raise ArgumentError("--like needs a case file: a log has no operands for an engine's recipe to be tried on")
    first, *rest = explain_log(read_log(subject), progress)
    return msgspec.structs.replace(first, more=rest)


def _states_problem(subject: object) -> TypeGuard[str | Problem | Formula]:
    """Whether what stands first is a problem, or its text, and no file."""
    if isinstance(subject, str):
        kind, _, rest = subject.strip().partition(" ")
        known = kind.partition(".")[0] in KINDS or is_formula(subject)
        return known and "=" in rest and not Path(subject).exists()
    return isinstance(subject, (Problem, *FORMULAS))


def _check_problem(problem: object) -> None:
    if problem is not None and not isinstance(problem, (str, Problem, *FORMULAS)):
        raise ArgumentError(f"problem is a text or a Problem, not {type(problem).__name__}")


def _explain_codes(
    subject: str | Path | Case | None,
    problem: str,
    arrays: Mapping[str, Any],
    like: Sequence[str],
    progress: Progress,
) -> Comparison:
    """Recorded codes of a problem on integers, whose scales and zero points may be numbers in place of files."""
    if like:
        raise ArgumentError("--like is of problems on floating-point numbers")
    members = {} if subject is None or isinstance(subject, Case) else read_members(subject)
    return explain_integers(problem, {**members, **read_arrays(read_numbers(arrays, NUMBERS))}, progress)


def _explain_formula(
    subject: str | Path | Case | FormulaCase | None,
    problem: str | Problem | Formula | None,
    arrays: Mapping[str, Any],
    like: Sequence[str],
    progress: Progress,
) -> Comparison:
    """Recorded results of a formula: a case, its file, or arrays by name, those of a file first."""
    if like:
        raise ArgumentError("--like is of convolutions and products: attention and functions of rows have no recipes")
    if isinstance(subject, FormulaCase) and not arrays:
        return compare_formula(subject, progress=progress)
    asked = problem if isinstance(problem, FORMULAS) else parse_formula(str(problem))
    members = read_members(subject) if isinstance(subject, (str, Path)) else {}
    given = {**members, **read_arrays(arrays, wide=asked.dtype == "float64")}
    return compare_formula(take_formula(asked, given, needs_result=True), progress=progress)


def _explain_arrays(
    subject: str | Path | Case | None,
    problem: str | Problem | None,
    arrays: Mapping[str, Any],
    like: Sequence[str],
    progress: Progress,
) -> Comparison:
    """Arrays by name, those of a file or a case first; two results alone where there are no operands."""
    given = read_arrays(arrays, wide=_is_wide(problem))
    if isinstance(subject, (str, Path)) and has_problem(subject):
        subject = load_any_case(subject)
    if isinstance(subject, Case):
        problem = problem or subject.problem
        given = {**subject.operands, **subject.results, **given}
    elif subject is not None:
        given = {**read_members(subject), **given}
    if problem is not None and not given:
        raise ArgumentError(
            f"a problem alone has no result to explain: give its operands and results by name (x=FILE w=FILE"
            f" mine=FILE); to run engines on it: samebits compare {str(problem)[:80]!r}"
        )
    if has_operands(given) or problem is not None:
        return explain_case(make_given_case(problem, given), like=like, progress=progress)
    if like:
        raise ArgumentError("--like needs operands for an engine's recipe to be tried on")
    results = make_plain(given)
    if len(results) < _FEWEST:
        raise ArgumentError("one result alone says nothing: give another one, or operands (x=FILE w=FILE)")
    (first, *others) = results.items()
    found, *more = [explain_two_outputs(dict([first, other])) for other in others]
    return msgspec.structs.replace(found, more=more)


def _is_wide(problem: str | Problem | None) -> bool:
    """Whether the problem is one of float64, whose numbers may happen to be those of float32."""
    asked = read_problem(problem) if isinstance(problem, str) else problem
    return asked is not None and asked.dtype == "float64"


def _is_case_file(path: Path) -> bool:
    if path.exists() and not path.is_file():
        raise LogError(f"{path} is no regular file; save the log, or the case, to a file and name that")
    if path.suffix == ".npz":
        return True
    try:
        with open_regular(path) as file:
            return file.read(len(_ZIP)) == _ZIP
    except (OSError, ValueError):
        # Reading it as a log says what is wrong.
        return False
