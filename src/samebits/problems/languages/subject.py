"""What a person asks about: a problem, its text in any language, or a case file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from samebits.errors import ArgumentError
from samebits.problems.case_file import Case, load_case
from samebits.problems.languages.any_language import read_problem
from samebits.problems.problem import Problem


def read_subject(subject: str | Path | Problem | Case) -> Problem | Case:
    """What a person asks about: a problem, its text, a case or its path.

    Raises ArgumentError for anything else, and what `read_problem` and `load_case` raise.
    """
    if isinstance(subject, (Problem, Case)):
        return subject
    if not isinstance(subject, (str, Path)):
        raise ArgumentError(f"a problem, its text, a case or its path is needed, not {type(subject).__name__}")
    if isinstance(subject, Path) or _is_case_path(subject):
        return load_any_case(subject)
    return read_problem(subject)


def load_any_case(path: str | Path) -> Case:
    """A case file whose problem stands in any language; raises CaseFileError."""
    return load_case(path, read_problem)


def _is_case_path(text: str) -> bool:
    if text.endswith(".npz"):
        return True
    # A text too long or too odd for a path is none.
    with contextlib.suppress(OSError, ValueError):
        return Path(text).is_file()
    return False
