"""What the tests of all problem languages do to lines: read them, have them refused, mutate them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems import Problem, format_problem

Parser = Callable[[str], Problem]
JUNK = ["", "-1", "0", "9" * 18, "9" * 30, "_", "'", '"', "-", "--", " ", ":", "\\", "٣", "\0", "x", "{", "[", ")", "="]
JUNK += ["\n", "#"]


def read_with(parse: Parser, line: str) -> str:
    """Our text of what the line says."""
    return format_problem(parse(line))


def refusal_of(parse: Parser, line: str) -> str:
    """The message with which a line is refused; fails if it is not."""
    with pytest.raises((ProblemTextError, ProblemShapeError)) as caught:
        parse(line)
    return str(caught.value)


def try_to_read(parse: Parser, line: str) -> None:
    """Reads or is refused; anything else is raised."""
    with contextlib.suppress(ProblemTextError, ProblemShapeError):
        parse(line)


@st.composite
def mutated_lines(draw: st.DrawFn, lines: tuple[str, ...]) -> str:
    """A valid line with one to four short pieces replaced by junk."""
    line = draw(st.sampled_from(lines))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(line)))
        end = min(len(line), start + draw(st.integers(0, 6)))
        line = line[:start] + draw(st.sampled_from(JUNK)) + line[end:]
    return line
