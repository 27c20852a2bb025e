"""An engine's releases, for people: where the answer changes, what each says, the comparison of the two."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import (
    VERDICT_STYLES,
    Page,
    Remark,
    add_row,
    indent,
    make_answer,
    make_table,
    open_console,
)
from samebits.display.visible_text import make_visible
from samebits.questions.compare.versions_schema import VersionRow, Versions


def show_versions(found: Versions, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints a finding to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(found.subject, style="bold"), Text(say_asked(found), style="dim"))
    page.add(make_answer(*name_answer(found), found.summary))
    table = make_table("release", "verdict", "bits", "cause")
    for row in found.rows:
        verdict = Text(name_verdict(row), style=VERDICT_STYLES[row.verdict] if row.verdict else "magenta")
        add_row(table, Text(row.version), verdict, say_bits(row), str(row.cause or ""))
    page.add(indent(table))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def name_answer(found: Versions) -> tuple[str, str]:
    """The answer in a word, and its style."""
    if found.changes:
        return "changes", "bold yellow"
    if sum(row.verdict is not None for row in found.rows) < 2:
        return "unknown", "bold magenta"
    return "same bits", "bold green"


def say_asked(found: Versions) -> str:
    """Which releases the range holds, and how many of them were tried."""
    return (
        f"{found.engine}, {len(found.asked)} releases from {found.asked[0]} to {found.asked[-1]};"
        f" {len(found.rows)} tried"
    )


def name_verdict(row: VersionRow) -> str:
    """A release's verdict, or how it failed."""
    if not row.runs:
        return "not here"
    return row.failure.kind if row.failure else str(row.verdict)


def say_bits(row: VersionRow) -> str:
    """Whether a release's bits are those of the oldest."""
    return {True: "the same", False: "others", None: ""}[row.same_bits]


def type_pair(found: Versions) -> str:
    """The command that compares the two between which the answer changes."""
    texts = " ".join(f"--on {shlex.quote(one)}" for one in found.engines)
    return f"samebits compare {shlex.quote(found.subject)} {texts}"


def _list_remarks(found: Versions) -> Iterator[Remark]:
    for row in found.rows:
        if row.failure:
            yield Remark(row.version, row.failure.says, rank=1)
    if found.notes:
        yield Remark("notes", found.notes, verbatim=True)
    if found.changes:
        yield Remark("more", "the two compared with each other, with cause and settings:")
        yield Remark("", type_pair(found), verbatim=True)
    if found.changes and len(found.rows) < len(found.asked):
        yield Remark("", "a change that was taken back between two releases tried here is not seen", rank=2)
