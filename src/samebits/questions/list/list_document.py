"""Tables as documents: counts of verdicts, rows to look at; what changed."""

from __future__ import annotations

import shlex
from dataclasses import replace

from samebits.display.document import TONES, Cell, Document, Grid, Prose, Section, Table, Tone
from samebits.display.visible_text import make_visible
from samebits.questions.list.list_report import name_changes, name_list
from samebits.questions.list.list_schema import ChangedRow, ChangesFinding, ListFinding, ListRow
from samebits.questions.list.table_changes import SHOWN_COLUMNS, list_texts, read_table

LOOK_AT = "Rows to look at"


def lay_out_list(found: ListFinding) -> Document:
    """Counts by side and verdict, rows that deviate, entries of known deviations that nothing matched."""
    counts = [
        (Cell(c.side, code=True), Cell(c.version or "-"), Cell(c.outcome, TONES.get(c.outcome, "open")),
         Cell(f"{c.count:,}"), Cell(f"{c.known:,}"))
        for c in found.counts
    ]  # fmt: skip
    rows = [
        (*_name_row(r), Cell(r.outcome, TONES.get(r.outcome, "open")), Cell(r.cause or "-"), Cell(r.says or "-"))
        for r in found.first_deviating
    ]  # fmt: skip
    sections = [
        Section("Verdicts", [Table(("side", "version", "verdict", "rows", "known"), counts)]),
        Section(
            LOOK_AT,
            [Table(("subject", "unit", "side", "verdict", "cause", "says"), rows)] if rows else [],
        ),
        Section("Known deviations not seen", [Prose("", tuple(found.unmatched))] if found.unmatched else []),
    ]
    tone: Tone = "bad" if found.deviating else "good"
    about = f"{found.subjects:,} subjects, {found.rows:,} rows{f', where {found.where}' if found.where else ''}"
    return (
        Document(
            found.table,
            name_list(found)[0],
            tone,
            found.summary,
            about,
            sections,
            found.samebits_version,
            commands=(
                f"samebits report {shlex.quote(found.table)}",
                f"samebits sweep {shlex.quote(found.table)} --where \"verdict = 'wrong'\"",
            ),
        )
        .stamped(found.made)
        .without_empty()
    )


def lay_out_table(path: str) -> Document:
    """A whole table: what it comes to, and every row of it, to be sorted and filtered. Raises SamebitsError."""
    document = lay_out_list(make_visible(read_table(path)))
    rows = list_texts(path)
    grid = Grid(tuple(SHOWN_COLUMNS), rows, toned="verdict")
    kept = [section for section in document.sections if section.title != LOOK_AT]
    return replace(document, sections=[*kept, Section("All rows", [grid])] if rows else kept)


def lay_out_changes(found: ChangesFinding) -> Document:
    """How many rows changed in which column, and the first of them."""
    counts = [(Cell(name), Cell(f"{count:,}")) for name, count in found.counts.items()]
    counts += [(Cell("new rows"), Cell(f"{found.added:,}")), (Cell("rows that are gone"), Cell(f"{found.lost:,}"))]
    rows = [
        (*_name_row(r), Cell(name), Cell(before or "-"), Cell(after or "-"))
        for r in found.first
        for name, before, after in zip(r.what, r.before, r.after, strict=True)
    ]  # fmt: skip
    sections = [
        Section("What changed", [Table(("in", "rows"), counts)]),
        Section("Rows", [Table(("subject", "unit", "side", "column", "before", "after"), rows)] if rows else []),
    ]
    return (
        Document(
            f"{found.a} -> {found.b}",
            name_changes(found)[0],
            "good" if found.same else "care",
            found.summary,
            f"{found.rows_a:,} and {found.rows_b:,} rows",
            sections,
            found.samebits_version,
            again=f"samebits diff {shlex.quote(found.a)} {shlex.quote(found.b)}",
        )
        .stamped(found.made)
        .without_empty()
    )


def _name_row(row: ListRow | ChangedRow) -> tuple[Cell, ...]:
    return (Cell(row.subject), Cell(row.unit or "-"), Cell(row.side or "-", code=True))
