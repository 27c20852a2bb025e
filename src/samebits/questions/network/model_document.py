"""A network between engines as a document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from samebits.display.charts import chart_units
from samebits.display.document import (
    LEVEL_WORDS,
    TONES,
    Block,
    Cell,
    Chart,
    Code,
    Document,
    Prose,
    Section,
    Table,
    tabulate_fixes,
)
from samebits.findings.model_schema import ModelComparison, UnitSide
from samebits.networks.model_sentences import say_size


def lay_out_model(found: ModelComparison) -> Document:
    """The answer, the sides, errors along the network, its units, outputs, what to change."""
    spec = chart_units(found)
    says = f"Own and inherited errors of {len(found.units)} units on {len(found.sides)} sides."
    if found.first:
        says += f" The first that deviates is {found.first}."
    sections = [
        Section("Sides", [_tabulate_sides(found)]),
        Section("Errors along the network", [Chart("largest error of each unit", says, spec)] if spec else []),
        Section("Units", [_tabulate_units(found)] if found.units else []),
        Section("Outputs of the network", [_tabulate_outputs(found)] if found.outputs else []),
        Section("What to change", [tabulate_fixes(found.fixes)] if found.fixes else []),
        Section("How this is known", list(_list_evidence(found))),
        Section("Do it again", [Code("", _say_command(found))]),
    ]
    count = f"{say_size(found)}; {found.data}"
    return Document(
        found.model, found.verdict, TONES[found.verdict], found.summary, count, sections, found.samebits_version
    ).without_empty()


def _tabulate_sides(found: ModelComparison) -> Table:
    rows = []
    for side in found.sides:
        version = f" {side.version}" if side.version and side.engine != "truth" else ""
        verdict = side.failure.kind if side.failure else side.verdict
        rows.append(
            (
                Cell(side.name + version),
                Cell(verdict, TONES[side.verdict]),
                Cell(side.cause or "-"),
                Cell(side.first or "-"),
                Cell(f"{side.deviating:,}"),
                Cell("-" if side.repeats is None else "yes" if side.repeats else "no"),
            )
        )
    return Table(("side", "verdict", "cause", "first unit", "deviating units", "same bits again"), rows)


def _tabulate_units(found: ModelComparison) -> Table:
    rows = []
    for unit in found.units:
        for side in unit.sides:
            rows.append(
                (
                    Cell(unit.name, code=True),
                    Cell(", ".join(unit.operators)),
                    Cell(side.name),
                    Cell(side.verdict, TONES[side.verdict]),
                    Cell(f"{side.cause} ({LEVEL_WORDS[side.cause_certainty or 'open']})" if side.cause else "-"),
                    Cell(_say_share(side)),
                    Cell(_say_inherited(side)),
                )
            )
    return Table(("unit", "operators", "side", "verdict", "cause", "own error / bound", "inherited error"), rows)


def _say_share(side: UnitSide) -> str:
    share = side.own.max_over_bound if side.own else None
    return "-" if share is None else f"{share:.2g}"


def _say_inherited(side: UnitSide) -> str:
    size = side.inherited.max_abs if side.inherited else None
    return "-" if size is None else f"{size:.2g}"


def _tabulate_outputs(found: ModelComparison) -> Table:
    rows = [
        (
            Cell(o.output, code=True),
            Cell(f"{o.a} and {o.b}"),
            Cell(f"{o.differing:,} of {o.elements:,}"),
            Cell("-" if o.max_abs is None else f"{o.max_abs:.3g}"),
            Cell("-" if o.rel_l2 is None else f"{o.rel_l2:.2g}"),
        )
        for o in found.outputs
    ]
    return Table(("output", "between", "differing", "largest difference", "relative (L2)"), rows)


def _list_evidence(found: ModelComparison) -> Iterator[Block]:
    if found.evidence:
        yield Prose("All sides", tuple(e.says for e in found.evidence))
    for side in found.sides:
        said = [e.says for e in side.evidence] + ([side.failure.says] if side.failure else [])
        if said:
            yield Prose(side.name, tuple(said))
    for unit in found.units:
        if unit.name == found.first:
            for side in unit.sides:
                if side.evidence:
                    yield Prose(f"{unit.name} on {side.name}", tuple(e.says for e in side.evidence))


def _say_command(found: ModelComparison) -> str:
    sides = " ".join(f"--on {shlex.quote(s.name)}" for s in found.sides if s.engine)
    return f"samebits compare {shlex.quote(found.model)} {sides}"
