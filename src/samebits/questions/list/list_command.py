"""`samebits sweep` of a list, and of its table: the options, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from samebits.display.printing import AGREE, DIFFER, print_finding
from samebits.errors import ArgumentError
from samebits.questions.question import FindingKind, Question

TABLE = ".parquet"
ListTable = Annotated[str | None, typer.Option("--output", "-o", help="of a list: the table to write (.parquet)")]
ListResume = Annotated[bool, typer.Option("--resume", help="go on with a list that was interrupted")]
ListKnown = Annotated[str | None, typer.Option("--known", help="a file of known deviations (TOML)", metavar="FILE")]
ListRay = Annotated[
    str | None, typer.Option("--ray", help="of a list: ask on the Ray cluster at this address", metavar="ADDRESS")
]
ListWhere = Annotated[
    str | None, typer.Option("--where", help="of a table: the rows that count, as SQL: verdict = 'wrong'")
]


class Doing(StrEnum):
    """What is done with each subject of a list."""

    COMPARE = "compare"
    PROFILE = "profile"
    RECIPE = "recipe"
    EXPLAIN = "explain"


ListDo = Annotated[Doing, typer.Option("--do", help="of a list: what is done with each subject")]


@dataclass(frozen=True)
class ListOptions:
    """What was given for lists and tables."""

    table: str | None
    resume: bool
    known: str | None
    where: str | None
    doing: Doing
    ray: str | None = None

    @property
    def are_given(self) -> bool:
        """Whether any was, so that ranges cannot be meant."""
        return bool(
            self.table
            or self.resume
            or self.known
            or self.where
            or self.ray is not None
            or self.doing is not Doing.COMPARE
        )


def is_list(subject: Sequence[str]) -> bool:
    """Whether a sweep's subject is a list or a table, and no problem with ranges."""
    from samebits.questions.list.list_reading import names_list

    return all(map(names_list, subject))


def run_list_command(
    subject: Sequence[str],
    on: Sequence[str],
    options: ListOptions,
    *,
    recipes: bool,
    time_limit_s: float,
    verbose: bool,
    as_json: bool,
) -> int:
    """Runs the list, or reads its table; prints, and returns the exit status: 1 where something deviates."""
    from samebits.display.narrator import Narrator
    from samebits.networks.model_subject import is_model
    from samebits.questions.list.list_report import show_list
    from samebits.questions.list.list_running import run_list
    from samebits.questions.list.table_changes import read_table

    if len(subject) == 1 and subject[0].endswith(TABLE):
        if on or options.table or options.resume or options.known or options.ray is not None:
            raise ArgumentError("a table is read as it is: --where alone goes with it")
        found = read_table(subject[0], options.where)
    elif options.where:
        raise ArgumentError("--where is for tables: samebits sweep FILE.parquet --where ...")
    elif not options.table and len(subject) == 1 and is_model(subject[0]):
        raise ArgumentError('a network is swept over one of its sizes: --size "batch={1..8}"')
    elif not options.table:
        raise ArgumentError("a list needs a table to write: -o FILE.parquet")
    else:
        with Narrator() as narrator:
            found = run_list(
                subject,
                on,
                table=options.table,
                doing=options.doing.value,
                recipes=recipes,
                known=options.known,
                time_limit_s=time_limit_s,
                resume=options.resume,
                ray=options.ray,
                progress=narrator.hear,
            )
    print_finding(found, show_list, verbose=verbose, as_json=as_json)
    return DIFFER if found.deviating else AGREE


def compare_table_files(a: str, b: str, *, verbose: bool, as_json: bool) -> int:
    """Compares two tables, prints, and returns the exit status: 1 where something changed."""
    from samebits.questions.list.list_report import show_changes
    from samebits.questions.list.table_changes import compare_tables

    found = compare_tables(a, b)
    print_finding(found, show_changes, verbose=verbose, as_json=as_json)
    return AGREE if found.same else DIFFER


def _load_list():
    from samebits.questions.list.list_document import lay_out_list
    from samebits.questions.list.list_report import show_list
    from samebits.questions.list.list_schema import ListFinding

    return ListFinding, lay_out_list, show_list


def _load_changes():
    from samebits.questions.list.list_document import lay_out_changes
    from samebits.questions.list.list_report import show_changes
    from samebits.questions.list.list_schema import ChangesFinding

    return ChangesFinding, lay_out_changes, show_changes


# Its commands are sweep's and diff's.
LIST = Question(findings=(FindingKind("samebits.list/1", _load_list), FindingKind("samebits.changes/1", _load_changes)))
