"""What a guard saw, as a document."""

from __future__ import annotations

import shlex

from samebits.display.document import TONES, Cell, Document, Section, Table, tell_evidence
from samebits.questions.guard.guard_report import say_effort
from samebits.questions.guard.guard_schema import Breach, GuardedResult, GuardReport
from samebits.questions.guard.guard_sentences import name_result


def lay_out_guard(found: GuardReport) -> Document:
    """The breaches, every result with its distance from both bounds, what was left out."""
    cases = [b.case for b in found.breaches if b.case]
    sections = [
        Section("Breaches", [_tabulate_breaches(found.breaches)] if found.breaches else []),
        Section("Results", [_tabulate_results(found.results)] if found.results else []),
        tell_evidence(found.evidence),
        Section(
            "Left out",
            [Table(("layer", "why"), [(Cell(name, code=True), Cell(why)) for name, why in found.left_out.items()])]
            if found.left_out
            else [],
        ),
    ]
    return Document(
        found.module,
        found.verdict,
        TONES[found.verdict],
        found.summary,
        say_effort(found),
        sections,
        found.samebits_version,
        commands=tuple(f"samebits explain {shlex.quote(case)}" for case in cases),
    ).without_empty()


def _tabulate_breaches(breaches: list[Breach]) -> Table:
    rows = [
        (
            Cell(name_result(b.layer, b.direction)),
            Cell(f"{b.call:,}"),
            Cell(b.verdict, TONES[b.verdict]),
            Cell(b.cause or "-"),
            Cell(b.says),
        )
        for b in breaches
    ]
    return Table(("result", "call", "verdict", "cause", "what"), rows)


def _tabulate_results(results: list[GuardedResult]) -> Table:
    rows = [
        (
            Cell(name_result(r.layer, r.direction)),
            Cell(f"{r.checks:,} of {r.seen:,}"),
            Cell(f"{r.outputs:,}"),
            Cell(f"{r.breaches:,}", "bad" if r.breaches else "plain"),
            Cell("-" if r.max_over_bound is None else f"{r.max_over_bound:.2g}"),
            Cell("-" if r.max_over_likely is None else f"{r.max_over_likely:.2g}"),
        )
        for r in results
    ]
    return Table(("result", "checked", "outputs", "breaches", "of the worst-case bound", "of the likely bound"), rows)
