"""A network between engines as a document."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

from samebits.display.charts import chart_branches, chart_units, name_anchor
from samebits.display.document import (
    TONES,
    Block,
    Cell,
    Chart,
    Code,
    Document,
    Prose,
    Section,
    Table,
    choose_remedy,
    tabulate_fixes,
)
from samebits.findings import is_agreement, worst_verdict
from samebits.findings.model_schema import ModelComparison, UnitFinding, UnitSide
from samebits.findings.words.level_words import say_level
from samebits.findings.words.number_words import say_times
from samebits.networks.model_sentences import say_size

# Units with a part of their own; what later ones do is mostly the same, and stands in their rows.
_MOST_TOLD = 50


def lay_out_model(found: ModelComparison) -> Document:
    """The answer, errors along the network, the sides, what to change, the units, each with a part of its own."""
    says = f"Own and inherited errors of {len(found.units):,} units on {len(found.sides)} sides."
    if exact := sum(not any(_has_error(side) for side in unit.sides) for unit in found.units):
        says += f" {exact:,} of them have none, and no mark."
    if found.first:
        says += f" The dashed line marks {found.first}, the first that {_say_differs(found)}."
    telling = [
        (number, unit)
        for number, unit in enumerate(found.units)
        if unit.name == found.first or not all(is_agreement(side.verdict) for side in unit.sides)
    ]
    told = {number: _tell_unit(number, unit) for number, unit in telling[:_MOST_TOLD]}
    told = {number: section for number, section in told.items() if section.blocks}
    spec = chart_units(found, told)
    sections = [
        Section(
            "Where along the network do errors arise?",
            [Chart("", says, spec, "A click on a unit that deviates tells more.")] if spec else [],
        ),
        Section("Which units feed others further on?", _draw_branches(found)),
        Section("Sides", [_tabulate_sides(found)]),
        Section("What to change", [tabulate_fixes(found.fixes)] if found.fixes else []),
        Section("How this is known", list(_list_evidence(found))),
        Section("Units", [_tabulate_units(found, told)] if found.units else [], folded=True),
        Section("Outputs of the network", [_tabulate_outputs(found)] if found.outputs else []),
        *told.values(),
    ]
    return (
        Document(
            _name_subject(found),
            found.verdict,
            TONES[found.verdict],
            found.summary,
            f"{say_size(found)}; {found.data}",
            sections,
            found.samebits_version,
            lead=_say_lead(found),
            remedy=choose_remedy(found.fixes, found.verdict),
            again=_say_command(found),
        )
        .stamped(found.made)
        .without_empty()
    )


def _name_subject(found: ModelComparison) -> str:
    """The network, and the other file that was compared with it, if any: either may be at fault."""
    files = dict.fromkeys(Path(side.file).name for side in found.sides if side.file)
    return f"{found.model} against {', '.join(files)}" if files else found.model


def _draw_branches(found: ModelComparison) -> list[Block]:
    spec = chart_branches(found)
    if spec is None:
        return []
    says = "An arc leads from a unit to each one behind the next that reads what it makes, as a skip connection does."
    return [Chart("", says, spec)]


def _has_error(side: UnitSide) -> bool:
    return any(error is not None and error.max_abs for error in (side.own, side.inherited))


def _say_differs(found: ModelComparison) -> str:
    return "differs" if is_agreement(found.verdict) else "deviates"


def _say_lead(found: ModelComparison) -> str:
    """The number that matters: the largest own error of a unit that deviates, in bounds, and how many do."""
    beyond = [
        (share, unit.name, side.name)
        for unit in found.units
        for side in unit.sides
        if not is_agreement(side.verdict)
        and side.own is not None
        and (share := side.own.max_over_bound) is not None
        and 1 < share < math.inf
    ]
    if not beyond:
        return ""
    share, unit, name = max(beyond)
    largest = (
        f"the largest error of a unit's own, of {unit} on {name}, is {say_times(share)} times what rounding can make."
    )
    # A unit may deviate within its bounds, as where numbers of a narrower format give it away.
    many = f"{len(beyond):,} results of units are beyond their own bounds; " if len(beyond) > 1 else ""
    return f"{many}{largest}" if many else f"{largest[:1].upper()}{largest[1:]}"


def _tell_unit(number: int, unit: UnitFinding) -> Section:
    """What is known of one unit beyond its row."""
    blocks: list[Block] = [Code("Problem", unit.problem)] if unit.problem else []
    for side in unit.sides:
        if side.evidence or side.says:
            said = [f"It {side.says}."] if side.says else []
            blocks.append(Prose(side.name, (*said, *(e.says for e in side.evidence))))
        if side.recipe:
            blocks.append(Code(f"Recipe on {side.name}", side.recipe))
    gravest = worst_verdict(side.verdict for side in unit.sides)
    title = f"Unit {unit.name}: {gravest}"
    return Section(title, blocks, folded=True, anchor=name_anchor(number))


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


def _tabulate_units(found: ModelComparison, told: Collection[int]) -> Table:
    rows = []
    for number, unit in enumerate(found.units):
        link = name_anchor(number) if number in told else ""
        for side in unit.sides:
            rows.append(
                (
                    Cell(unit.name, code=True, link=link),
                    Cell(", ".join(unit.operators)),
                    Cell(side.name),
                    Cell(side.verdict, TONES[side.verdict]),
                    Cell(f"{side.cause} ({say_level(side.cause_certainty)})" if side.cause else "-"),
                    Cell(_say_share(side)),
                    Cell(_say_inherited(side)),
                )
            )
    return Table(("unit", "operators", "side", "verdict", "cause", "own error / bound", "inherited error"), rows)


def _say_share(side: UnitSide) -> str:
    share = side.own.max_over_bound if side.own else None
    return "-" if share is None else say_times(share)


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


def _say_command(found: ModelComparison) -> str:
    sides = " ".join(f"--on {shlex.quote(s.name)}" for s in found.sides if s.engine)
    return f"samebits compare {shlex.quote(found.model)} {sides}"
