"""An engine's releases as a document: the table, and what the comparison of the two found."""

from __future__ import annotations

import shlex

from samebits.display.document import Block, Cell, Document, Prose, Section, Table, Tone
from samebits.questions.compare.comparison_document import lay_out_comparison
from samebits.questions.compare.versions_report import name_answer, name_verdict, say_asked, say_bits, type_pair
from samebits.questions.compare.versions_schema import Versions
from samebits.questions.network.model_document import lay_out_model


def lay_out_versions(found: Versions) -> Document:
    """The answer, a row per release tried, and the comparison of the two between which it changes."""
    word, _ = name_answer(found)
    rows = [
        (
            Cell(row.version),
            Cell(name_verdict(row)),
            Cell(say_bits(row)),
            Cell(str(row.cause or "")),
            Cell(row.failure.says if row.failure else ""),
        )
        for row in found.rows
    ]
    news: list[Block] = [Prose("", (f"What is new in {found.after}: {found.notes}",))] if found.notes else []
    tones: dict[str, Tone] = {"changes": "care", "same bits": "good"}
    whole = lay_out_comparison(found.comparison).sections if found.comparison else []
    whole = lay_out_model(found.network).sections if found.network else whole
    options = f"--on {shlex.quote(found.engine)} --versions {shlex.quote(','.join(found.asked))}"
    return (
        Document(
            found.subject,
            word,
            tones.get(word, "open"),
            found.summary,
            say_asked(found),
            [
                Section("Releases", [Table(("release", "verdict", "bits", "cause", "failure"), rows)]),
                Section("What its makers say", news),
                *whole,
            ],
            found.samebits_version,
            again=f"samebits compare {shlex.quote(found.subject)} {options}",
            commands=(type_pair(found),) if found.changes else (),
        )
        .stamped(found.made)
        .without_empty()
    )
