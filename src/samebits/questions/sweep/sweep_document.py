"""A sweep as a document: the map of points to classes, the classes, where positions matter."""

from __future__ import annotations

import shlex

from samebits.display.document import (
    Block,
    Cell,
    Chart,
    Code,
    Document,
    Prose,
    Remedy,
    Section,
    Table,
    Tone,
    tell_evidence,
)
from samebits.questions.sweep.sweep_chart import chart_classes
from samebits.questions.sweep.sweep_report import is_of_network, name_answer, say_points, say_uneven
from samebits.questions.sweep.sweep_schema import Sweep
from samebits.questions.sweep.sweep_sentences import say_cell, say_cells

_MOST_CELLS = 4000


def lay_out_sweep(found: Sweep) -> Document:
    """The answer, the map, the classes with their recipes, of each engine that was asked."""
    sections: list[Section] = []
    every = (found, *found.more)
    for one in every:
        of = f" of {one.engine}" if found.more else ""
        sections += [
            Section(f"Classes{of}", _show_classes(one)),
            Section(f"Recipes{of}", [Code(say_cells(c.cells), c.recipe) for c in one.classes if c.recipe], folded=True),
            Section(f"Units{of}", _show_units(one)),
            Section(f"The same bits at every point{of}", _show_fixes(one)),
            Section(f"Positions in a batch{of}", _show_uneven(one)),
            Section(f"Failures{of}", _show_failures(one)),
            tell_evidence(one.evidence, of),
        ]
    engines = " ".join(f"--on {shlex.quote(one.engine)}" for one in every)
    # The answer in a word is that of an engine whose bits change, if there is one.
    told = min(every, key=lambda one: (False, None, True).index(one.invariant))
    tones: dict[bool | None, Tone] = {True: "good", False: "care", None: "open"}
    return (
        Document(
            found.sweep,
            name_answer(told)[0],
            tones[told.invariant],
            "; ".join(f"{one.engine}: {one.summary}" for one in every),
            f"{found.engine} {found.version or ''}; {say_points(found)}",
            sections,
            found.samebits_version,
            remedy=next((Remedy(fix.says, fix.engine) for one in every for fix in one.fixes), None),
            again=f"samebits sweep {_say_subject(found)} {engines}",
        )
        .stamped(found.made)
        .without_empty()
    )


def _show_fixes(found: Sweep) -> list[Block]:
    rows = [(Cell(fix.says), Cell(fix.engine, code=True), Cell(fix.version or "")) for fix in found.fixes]
    return [Table(("change", "engine", "version"), rows)] if rows else []


def _show_classes(found: Sweep) -> list[Block]:
    cells = sum(len(c.cells) for c in found.classes)
    count = f"{len(found.classes):,} class{'es' if len(found.classes) != 1 else ''}"
    says = f"{count} of points at which the same outputs have the same bits."
    rows = [
        (
            Cell(f"{number + 1}"),
            Cell(say_cells(one.cells)),
            Cell(f"{one.points:,}"),
            Cell({True: "yes", False: "no", None: "-"}[one.replayed]),
        )
        for number, one in enumerate(found.classes)
    ]
    table = Table(("class", "points", "how many", "recipe replayed"), rows)
    if not 0 < cells <= _MOST_CELLS or len(found.axes) > 2:
        return [table] if rows else []
    return [Chart("Which points are alike", says, chart_classes(found)), table]


def _say_subject(found: Sweep) -> str:
    if not is_of_network(found):
        return shlex.quote(found.sweep)
    network, _, size = found.sweep.rpartition(" ")
    if not size.endswith("}"):
        return shlex.quote(found.sweep)
    return f"{shlex.quote(network)} --size {shlex.quote(size)}"


def _show_units(found: Sweep) -> list[Block]:
    rows = [
        (Cell(u.name, code=True), Cell(", ".join(u.operators)), Cell(say_cells(u.cells)), Cell(u.problem or "-"))
        for u in found.units
    ]
    return [Table(("unit", "operators", "fed the same, other bits at", "problem"), rows)] if rows else []


def _show_uneven(found: Sweep) -> list[Block]:
    if not found.uneven:
        return []
    says = say_uneven(found)
    return [Prose("", (f"{says[0].upper()}{says[1:]} at {say_cells(found.uneven)}.",))]


def _show_failures(found: Sweep) -> list[Block]:
    rows = [
        (
            Cell(say_cell({n: [v, v] for n, v in f.at.items()})),
            Cell(f.failure.kind, "bad"),
            Cell(f.failure.says),
        )
        for f in found.failures
    ]
    return [Table(("point", "what", "the engine says"), rows)] if rows else []
