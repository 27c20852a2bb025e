"""Two runs compared, for people: where they part, why, which settings differ, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.document import Cell, Document, Prose, Section, Table, tell_evidence
from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.runs.diff_schema import RunDiff
from samebits.questions.runs.run_sentences import say_next
from samebits.questions.runs.setting_differences import SETS

_MOST_SETTINGS = 12


def show_diff(found: RunDiff, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was found of two runs to the console (standard output by default), whole or what fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(f"{found.a}  {found.b}", style="bold"))
    word, style = ("SAME", "bold green") if found.same else ("DIFFER", "bold red")
    page.add(make_answer(word, style, found.summary))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def _list_remarks(found: RunDiff) -> Iterator[Remark]:
    yield from (Remark("what", e.says) for e in found.evidence)
    # That sets of texts have an order of their own in each run says nothing yet: it stands with what to do.
    settings = [s for s in found.settings if s.name != SETS]
    for setting in settings[:_MOST_SETTINGS]:
        how = f"; {setting.set}" if setting.set else ""
        yield Remark("settings", f"{setting.name}: {setting.a} and {setting.b}{how}", rank=1)
    if len(settings) > _MOST_SETTINGS:
        yield Remark("settings", f"{len(settings) - _MOST_SETTINGS} more differ: --json lists them")
    yield from (Remark("next", line) for line in say_next(found.first, found.settings, found.captured, found.drawn))


def lay_out_diff(found: RunDiff) -> Document:
    """Where two runs part, which settings differed, what to do next."""
    first = found.first
    rows: list[tuple[Cell, ...]] = []
    if first is not None:
        said = {
            "operation": first.what,
            "in the second run": first.other,
            "step": str(first.step),
            "direction": first.direction,
            "module": first.module,
            "line": first.line,
            "process": first.process,
            "what differs": first.kind,
            "because of": first.reason,
        }
        rows = [(Cell(k), Cell(v, code=k in ("operation", "line"))) for k, v in said.items() if v]
    settings = [(Cell(s.name, code=True), Cell(s.a), Cell(s.b), Cell(s.set or "", code=True)) for s in found.settings]
    sections = [
        Section("Where they part", [Table(("what", "first difference"), rows)] if rows else []),
        Section(
            "Settings that differ",
            [Table(("setting", "first", "second", "to make equal"), settings)] if settings else [],
        ),
        tell_evidence(found.evidence),
        Section("What next", [Prose("", tuple(say_next(found.first, found.settings, found.captured, found.drawn)))]),
    ]
    alone = found.only_a + found.only_b
    facts = f"{found.compared:,} operations in both, {found.differing:,} differ, {alone:,} in one only"
    word, tone = ("same", "good") if found.same else ("differ", "bad")
    title = f"{found.a} and {found.b}"
    return (
        Document(
            title,
            word,
            tone,
            found.summary,
            facts,
            sections,
            found.samebits_version,
            again=f"samebits diff {shlex.quote(found.a)} {shlex.quote(found.b)}",
        )
        .stamped(found.made)
        .without_empty()
    )
