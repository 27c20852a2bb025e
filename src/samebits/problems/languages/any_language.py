"""The front door for problem texts in any language: ours, XLA HLO, oneDNN's benchdnn, MIOpenDriver, BLAS."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from samebits.errors import ArgumentError
from samebits.problems.case_file import Case, load_case
from samebits.problems.languages.benchdnn import parse_benchdnn, parse_benchdnn_matmul
from samebits.problems.languages.blas import BENCH, LOG, parse_blas
from samebits.problems.languages.hlo import parse_hlo
from samebits.problems.languages.hlo_dot import parse_dot
from samebits.problems.languages.miopen import parse_miopen
from samebits.problems.network_files import is_other_network
from samebits.problems.problem import KINDS, Problem
from samebits.problems.problem_text import parse_problem_text

_OURS = re.compile(rf"\s*(?:{'|'.join(KINDS)})(?:\.\w*)?(?:\s|$)")
# What only a line of that language has; tried in this order.
_FOREIGN = (
    (re.compile(r"MIOpenDriver"), parse_miopen),
    (BENCH, parse_blas),
    (LOG, parse_blas),
    (re.compile(r"(?<![\w.$/\"-])dot\(|custom_call_target=\"__cublas"), parse_dot),
    (re.compile(r"(?:^|\s)--matmul\b"), parse_benchdnn_matmul),
    (re.compile(r"(?<!\w)(?:convolution|custom-call)\(|dim_labels=|custom_call_target="), parse_hlo),
    (re.compile(r"benchdnn|__REPRO:|^\s*--|^[\s_]*(?:g|mb|[io][cdhw]|[kspd][dhw])[0-9]"), parse_benchdnn),
)


def read_problem(text: str) -> Problem:
    """The problem that `text` names, in whichever language it is written.

    Text in none of them is read as ours, so that the error speaks of the language a person can learn here. Raises
    ProblemTextError and ProblemShapeError.
    """
    if not _OURS.match(text):
        for sign, parse in _FOREIGN:
            if sign.search(text):
                return parse(text)
    return parse_problem_text(text)


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
    if os.path.exists(subject):
        raise ArgumentError(f"{subject} is no file; a problem's text, a case or a network is needed")
    return read_problem(subject)


def load_any_case(path: str | Path) -> Case:
    """A case file whose problem stands in any language; raises CaseFileError."""
    return load_case(path, read_problem)


def _is_case_path(text: str) -> bool:
    if text.endswith(".npz"):
        return True
    # A text too long or too odd for a path is none.
    with contextlib.suppress(OSError, ValueError):
        return Path(text).is_file() or is_other_network(text)
    return False
