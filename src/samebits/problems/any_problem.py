"""Whatever is computed once from operands: a convolution, a product, an attention; and the texts of them all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.problems.attention import (
    Attention,
    check_attention_operands,
    format_attention,
    is_attention,
    parse_attention,
)
from samebits.problems.operands import check_operands
from samebits.problems.problem import Problem
from samebits.problems.problem_text import format_problem, parse_problem_text

AnyProblem = Problem | Attention


def format_any_problem(problem: AnyProblem) -> str:
    """The canonical text.

    >>> format_any_problem(parse_any_problem("attention q=1x1x2x4 k=1x1x3x4"))
    'attention q=1x1x2x4 k=1x1x3x4 dtype=float32'
    """
    return format_attention(problem) if isinstance(problem, Attention) else format_problem(problem)


def parse_any_problem(text: str) -> AnyProblem:
    """The problem of a text of ours; raises ProblemTextError and ProblemShapeError."""
    return parse_attention(text) if is_attention(text) else parse_problem_text(text)


def check_any_operands(problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands that a problem reads, in order; raises OperandError where one is missing or does not fit."""
    if isinstance(problem, Attention):
        return check_attention_operands(problem, operands)
    return check_operands(problem, operands)
