"""Where two runs part, as a document."""

from __future__ import annotations

import shlex

from samebits.display.document import Cell, Code, Document, Prose, Section, Table
from samebits.questions.runs.diff_schema import RunDiff
from samebits.questions.runs.run_sentences import say_next


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
        Section("How this is known", [Prose("", tuple(e.says for e in found.evidence))] if found.evidence else []),
        Section("What next", [Prose("", tuple(say_next(found.first, found.settings, found.captured)))]),
        Section("Do it again", [Code("", f"samebits diff {shlex.quote(found.a)} {shlex.quote(found.b)}")]),
    ]
    alone = found.only_a + found.only_b
    facts = f"{found.compared:,} operations in both, {found.differing:,} differ, {alone:,} in one only"
    word, tone = ("same", "good") if found.same else ("differ", "bad")
    title = f"{found.a} and {found.b}"
    return Document(title, word, tone, found.summary, facts, sections, found.samebits_version).without_empty()
