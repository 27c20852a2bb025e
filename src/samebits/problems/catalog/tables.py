"""Reading a family's table: one row per layer, its name and then its problem text; `#` begins a remark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from samebits.problems.problem import Problem
from samebits.problems.problem_text import parse_problem_text


def problems_from_table(family: str, table: str) -> dict[str, Problem]:
    """The problems of one table, named `family/row`; raises ProblemTextError or ProblemShapeError for a wrong row."""
    return {f"{family}/{name}": parse_problem_text(text) for name, text in _split_rows(table)}


def table_from_rows(*parts: str | Iterable[str]) -> str:
    """One table from rows written out (a string) and rows made by a rule (any other iterable of strings)."""
    return "\n".join(part if isinstance(part, str) else "\n".join(part) for part in parts)


def _split_rows(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        row = line.partition("#")[0].strip()
        if row:
            name, _, text = row.partition(" ")
            yield name, text
