"""Which of three forms of sums a problem is, and which operand plays which part: the one derivation of it.

With S the tensor on the side that the stride divides, L the one on the other side and W the weights
[S channels, L channels per group, taps]:

    gather   S = sum W L   fprop: convolution forward, transposed convolution's grad_input
    scatter  L = sum W S   dgrad: convolution's grad_input, transposed convolution forward
    filter   W = sum S L   wgrad: grad_weight of both
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samebits.problems.problem import Problem

Form = Literal["gather", "scatter", "filter"]


@dataclass(frozen=True)
class Parts:
    """The form of a problem's sums; the operand whose rows hold a sum's factors, and the one that is read at places."""

    form: Form
    rows_operand: str
    source_operand: str


def find_parts(problem: Problem) -> Parts:
    """The form of a problem and the parts its operands play in it."""
    small, large = ("x", "dy") if problem.is_transposed else ("dy", "x")
    if problem.direction == "grad_weight":
        return Parts("filter", small, large)
    source = "x" if problem.direction == "forward" else "dy"
    gathers = (problem.direction == "forward") != problem.is_transposed
    return Parts("gather" if gathers else "scatter", "w", source)
