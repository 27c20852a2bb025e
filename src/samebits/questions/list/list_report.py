"""Tables for people: what a list came to, and what changed between two."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.list.list_schema import ChangedRow, ChangesFinding, ListFinding, ListRow, SideCount

_MOST_ROWS = 8


def show_list(found: ListFinding, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what a list came to (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    kept = f", where {found.where}" if found.where else ""
    page.add(
        Text(found.table, style="bold"), Text(f"{found.subjects:,} subjects, {found.rows:,} rows{kept}", style="dim")
    )
    page.add(make_answer(*name_list(found), found.summary))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def name_list(found: ListFinding) -> tuple[str, str]:
    """The answer in a word, and its style."""
    return ("deviates", "bold red") if found.deviating else ("as known", "bold green")


def _list_remarks(found: ListFinding) -> Iterator[Remark]:
    for side in dict.fromkeys(count.side for count in found.counts):
        yield Remark(side, say_counts([c for c in found.counts if c.side == side]))
    for i, row in enumerate(found.first_deviating[:_MOST_ROWS]):
        yield Remark("look at", say_row(row), rank=1 if i < 3 else 3)
    for known in found.unmatched:
        yield Remark("not seen", f"{known}: remove the entry, if the list asks for it", rank=2)
    yield Remark("took", f"{found.time_s:.1f} s", rank=5)
    if found.deviating:
        again = f"samebits sweep {shlex.quote(found.table)} --where \"verdict = 'wrong'\""
        yield Remark("next", again, verbatim=True)


def say_counts(counts: list[SideCount]) -> str:
    """Verdicts of one side, counted."""
    version = next((c.version for c in counts if c.version), None)
    said = ", ".join(f"{c.count:,} {c.outcome}{f' ({c.known:,} known)' if c.known else ''}" for c in counts)
    return f"{version}: {said}" if version else said


def say_row(row: ListRow) -> str:
    """One row in a line."""
    unit = f" {row.unit}" if row.unit else ""
    cause = f", {row.cause}" if row.cause else ""
    says = f": {row.says}" if row.says else ""
    return f"{row.subject}{unit} on {row.side or 'nothing'}: {row.outcome}{cause}{says}"


def show_changes(found: ChangesFinding, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what changed between two tables."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(
        Text(f"{found.a} -> {found.b}", style="bold"), Text(f"{found.rows_a:,} and {found.rows_b:,} rows", style="dim")
    )
    page.add(make_answer(*name_changes(found), found.summary))
    rows = [Remark("changed", say_change(r), rank=1 if i < 4 else 3) for i, r in enumerate(found.first[:_MOST_ROWS])]
    page.add([*rows, Remark("took", f"{found.time_s:.2f} s", rank=5)])
    page.print_to(console, verbose=verbose)


def name_changes(found: ChangesFinding) -> tuple[str, str]:
    """The answer in a word, and its style."""
    return ("as before", "bold green") if found.same else ("changed", "bold yellow")


def say_change(row: ChangedRow) -> str:
    """One changed row in a line."""
    unit = f" {row.unit}" if row.unit else ""
    changes = [
        f"{name} {before or 'none'} -> {after or 'none'}"
        for name, before, after in zip(row.what, row.before, row.after, strict=True)
    ]
    return f"{row.subject}{unit} on {row.side or 'nothing'}: {'; '.join(changes)}"
