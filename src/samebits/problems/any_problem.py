"""Whatever is computed once from operands: a convolution or product, or a formula; and the texts of them all.

A formula is an attention or a function of rows: what is no plain sum of products, and has no recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from samebits.problems.attention import (
    Attention,
    check_attention_operands,
    format_attention,
    is_attention,
    make_exact_attention,
    make_normal_attention,
    make_uniform_attention,
    parse_attention,
)
from samebits.problems.operands import check_operands
from samebits.problems.problem import Problem
from samebits.problems.problem_text import format_problem, parse_problem_text
from samebits.problems.row_functions import (
    RowFunction,
    check_row_operands,
    format_row_function,
    is_row_function,
    make_exact_rows,
    make_normal_rows,
    make_uniform_rows,
    parse_row_function,
)

Formula = Attention | RowFunction
FORMULAS = (Attention, RowFunction)
Drawn = Literal["normal", "uniform", "exact"]
AnyProblem = Problem | Formula


def format_any_problem(problem: AnyProblem) -> str:
    """The canonical text.

    >>> format_any_problem(parse_any_problem("attention q=1x1x2x4 k=1x1x3x4"))
    'attention q=1x1x2x4 k=1x1x3x4 dtype=float32'
    """
    return format_problem(problem) if isinstance(problem, Problem) else format_formula(problem)


def parse_any_problem(text: str) -> AnyProblem:
    """The problem of a text of ours; raises ProblemTextError and ProblemShapeError."""
    return parse_formula(text) if is_formula(text) else parse_problem_text(text)


def check_any_operands(problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands that a problem reads, in order; raises OperandError where one is missing or does not fit."""
    if isinstance(problem, Problem):
        return check_operands(problem, operands)
    return check_formula_operands(problem, operands)


def is_formula(text: object) -> bool:
    """Whether a text is that of an attention or a function of rows, by its first word."""
    return is_attention(text) or is_row_function(text)


def format_formula(problem: Formula) -> str:
    """The canonical text of an attention or a function of rows."""
    return format_attention(problem) if isinstance(problem, Attention) else format_row_function(problem)


def parse_formula(text: str) -> Formula:
    """The attention or function of rows that a text names; raises ProblemTextError and ProblemShapeError."""
    return parse_attention(text) if is_attention(text) else parse_row_function(text)


def check_formula_operands(problem: Formula, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands that a formula reads, in order; raises OperandError where one is missing or does not fit."""
    if isinstance(problem, Attention):
        return check_attention_operands(problem, operands)
    return check_row_operands(problem, operands)


def make_formula_operands(problem: Formula, drawn: Drawn, seed: int = 0) -> dict[str, np.ndarray] | None:
    """Operands of a formula: random ones, or integers on which it rounds nothing; None where there are none."""
    if isinstance(problem, Attention):
        if drawn == "exact":
            return make_exact_attention(problem, seed)
        return (make_normal_attention if drawn == "normal" else make_uniform_attention)(problem, seed)
    if drawn == "exact":
        return make_exact_rows(problem, seed)
    return (make_normal_rows if drawn == "normal" else make_uniform_rows)(problem, seed)
