"""Engines compared on a network, for people: the answer, the first unit, the sides, what was tried, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from samebits.display.page_layout import (
    VERDICT_STYLES,
    Page,
    Remark,
    add_row,
    fits,
    indent,
    make_answer,
    make_table,
    open_console,
    ranked,
)
from samebits.display.visible_text import make_visible, say_of_bound
from samebits.findings import is_agreement
from samebits.findings.model_schema import ModelComparison, ModelSide, UnitFinding, UnitSide
from samebits.findings.words.fix_words import find_helping, say_result
from samebits.findings.words.level_words import say_level
from samebits.findings.words.place_words import name_engine, shorten_names
from samebits.networks.model_sentences import say_share, say_size, say_unit_name

_MOST_UNITS = 8


def show_model(found: ModelComparison, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was found of a network to the console (standard output by default), whole or what fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    says = f"{say_size(found)}; inputs: {found.data}"
    page.add(Text(found.model, style="bold"), Text(says, style="dim"))
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(_show_sides(found, console.width))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def _show_sides(found: ModelComparison, width: int) -> Padding | list[Remark]:
    replayed = any(s.replayed is not None for s in found.sides)
    headings = (
        "engine",
        "verdict",
        "deviating",
        "error / bound",
        "cause",
        *(("replayed",) if replayed else ()),
    )
    table = make_table(*headings)
    lines: list[Remark] = [Remark("", ", ".join(headings[1:]))]
    for side in found.sides:
        name = _format_name(side)
        if side.failure:
            cells = ["-", side.failure.kind, "", ""]
        else:
            judged = [s for u in found.units for s in u.sides if s.name == side.name]
            largest = max((s.own.max_over_bound or 0.0 for s in judged if s.own), default=0.0)
            share = _short(largest) if any(s.own for s in judged) else ""
            cells = [side.verdict, f"{side.deviating} of {len(judged)}", share, side.cause or ""]
        if replayed:
            cells.append("" if side.replayed is None else f"{side.replayed} of {_count_products(found, side.name)}")
        style = VERDICT_STYLES[side.verdict] if not side.failure else ""
        add_row(table, Text(name), Text(cells[0], style=style), *cells[1:])
        lines.append(Remark(" ".join(name.split()), ", ".join(c for c in cells if c)))
    return indent(table) if fits(table, width) else lines


def _short(value: float) -> str:
    """A share or a distance, in as many digits as anybody reads."""
    return "NaN/Inf" if value == float("inf") else f"{value:.3g}"


def _count_products(found: ModelComparison, side: str) -> int:
    return sum(1 for u in found.units if u.problem and any(s.name == side for s in u.sides))


def _format_name(side: ModelSide) -> str:
    # What it runs in place of the network has a line of its own, as each of its settings has.
    own = [f"  on {Path(side.file).name}"] if side.file else []
    return "\n".join([name_engine(side, side.name.removesuffix("".join(own)[1:])), *own])


def _list_remarks(found: ModelComparison) -> Iterator[Remark]:
    first = next((u for u in found.units if u.name == found.first), None)
    if first is not None:
        yield from _say_first(found, first)
    for side in found.sides:
        yield from ranked(2, _say_others(found, side))
    for output in found.outputs:
        if output.differing:
            share = f", {output.rel_l2:.2g} of it" if output.rel_l2 is not None else ""
            counted = f"{output.differing:,} of {output.elements:,} differ between {output.a} and {output.b}"
            yield Remark("outputs", f"{output.output}: {counted}{share}", rank=3)
    if found.outputs and not any(o.differing for o in found.outputs):
        yield Remark("outputs", "the same bits from every side", rank=3)
    yield from (Remark("model", e.says, rank=5) for e in found.evidence if e.kind == "structure")
    yield from ranked(5, _say_observation(found))
    for side in found.sides:
        if side.failure:
            yield Remark(side.failure.kind, f"{side.name}: {side.failure.says}")
        yield from (Remark("note", e.says) for e in side.evidence if e.kind == "setting")
        yield from (Remark("replay", f"{side.name}: {e.says}", rank=4) for e in side.evidence if e.kind == "replay")
    yield from _say_fixes(found)
    yield from (Remark("saved", path, verbatim=True, rank=3) for path in found.saved)
    yield _say_next(found, first)


def _say_first(found: ModelComparison, unit: UnitFinding) -> Iterator[Remark]:
    """The first unit that deviates, or whose bits differ, and what each side did there."""
    yield Remark("first", say_unit_name(unit.name, unit.operators))
    if unit.problem:
        yield Remark("", unit.problem, verbatim=True)
    short = shorten_names(found.sides)
    said: dict[tuple[Remark, ...], list[str]] = {}
    for side in unit.sides:
        said.setdefault(tuple(_say_of_side(found, side)), []).append(short[side.name])
    for (heading, *more), names in said.items():
        yield replace(heading, says=f"{', '.join(names)}: {heading.says}")
        yield from more


def _say_of_side(found: ModelComparison, side: UnitSide) -> Iterator[Remark]:
    """What a side did in the first unit: its verdict, and why."""
    yield Remark("", _say_unit_side(side))
    if not is_agreement(side.verdict):
        others = sum(s.deviating for s in found.sides if s.name == side.name) - 1
        yield from (Remark("why", says) for says in _choose_evidence(side, others))
    if side.recipe and side.replay:
        share = f"({side.replay.count:,}/{side.replay.elements:,})"
        yield Remark("recipe", f"{share} {side.recipe}", verbatim=True, rank=4)


def _choose_evidence(side: UnitSide, others: int) -> list[str]:
    """What was measured first, what was replayed, the unit's share of the whole; the rest stands in the JSON."""
    shares = [] if side.share is None else [say_share(side.share, others)]
    replayed = [e.says for e in side.evidence[1:] if e.kind == "replay"]
    return [*(e.says for e in side.evidence[:1]), *replayed, *shares]


def _say_unit_side(side: UnitSide) -> str:
    said = [side.verdict]
    if side.own and side.own.max_over_bound is not None:
        said.append(f"own error {say_of_bound(side.own.max_over_bound)}")
    if side.cause:
        said.append(f"cause {side.cause} ({say_level(side.cause_certainty)})")
    if side.inherited and side.inherited.max_abs:
        said.append(f"inherited error up to {_short(side.inherited.max_abs)}")
    return ", ".join(said)


def _say_others(found: ModelComparison, side: ModelSide) -> Iterator[Remark]:
    """The other units of a side that deviate, those with one reason together."""
    deviating = [
        (s.says or s.cause or s.verdict, u)
        for u in found.units
        for s in u.sides
        if s.name == side.name and not is_agreement(s.verdict) and u.name != found.first
    ]
    for says, group in groupby(sorted(deviating, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        names = [u.name for _, u in group]
        shown = ", ".join(names[:_MOST_UNITS]) + (
            f" and {len(names) - _MOST_UNITS} more" if len(names) > _MOST_UNITS else ""
        )
        yield Remark("then", f"{shorten_names(found.sides)[side.name]} in {shown}: {says}")


def _say_observation(found: ModelComparison) -> Iterator[Remark]:
    if found.taps.changed_bits:
        left = found.taps.left_out
        shown = ", ".join(left[:_MOST_UNITS]) + (
            f" and {len(left) - _MOST_UNITS} more" if len(left) > _MOST_UNITS else ""
        )
        says = "looking at values in between changes the result"
        if left:
            may = "would" if found.taps.settled else "may"
            says = f"looking at {shown} {may} change the result: left unobserved, judged with what reads them"
        yield Remark("observed", says)
    for side in found.sides:
        if side.repeats is False:
            yield Remark("observed", f"{side.name} does not return the same bits twice")


def _say_fixes(found: ModelComparison) -> Iterator[Remark]:
    for fix in found.fixes:
        also = f" and {', '.join(fix.together_with)}" if fix.together_with else ""
        after = say_result(fix, "all units")
        took = ""
        if fix.time_before_s and fix.time_after_s:
            took = f"; time {fix.time_after_s / fix.time_before_s:.2g} x"
        tried = f"tried: {after}{took}. " if fix.verified else "untried. "
        yield Remark(
            "fix",
            f"{fix.text or fix.setting}{also}   {tried}{fix.why[:1].upper()}{fix.why[1:]}; {fix.also or ''}".rstrip(
                "; "
            ),
        )
    yield from (Remark("tried", e.says, rank=3 if found.fixes else 0) for e in found.evidence if e.kind == "setting")


def _say_next(found: ModelComparison, first: UnitFinding | None) -> Remark:
    helps = find_helping(found.fixes)
    if helps is not None:
        texts = [helps.text or "", *helps.together_with]
        return Remark("next", f"run with the fix: {' '.join(f'--on {shlex.quote(t)}' for t in texts)}", verbatim=True)
    failed = next((s for s in found.sides if s.failure), None)
    if is_agreement(found.verdict) and failed is not None:
        return Remark("next", f"{failed.name} gave no result: it was not compared")
    if any(s.joined for s in found.sides):
        more = "polygraphy run MODEL --trt --trt-outputs mark all --save-outputs FILE keeps them"
        return Remark("next", f"record values in between, too: then each unit is judged by itself ({more})")
    if is_agreement(found.verdict) and any(e.kind == "file" for e in found.evidence):
        return Remark("next", "correct the second file, or ask on --inputs that reach what differs")
    if is_agreement(found.verdict):
        return Remark("next", "nothing is broken: compare outputs by their own error, not by a tolerance")
    if found.saved:
        return Remark("next", f"samebits explain {shlex.quote(found.saved[0])}", verbatim=True)
    deviating = [s for s in first.sides if not is_agreement(s.verdict)] if first is not None else []
    if any(e.kind == "file" for s in deviating for e in s.evidence):
        return Remark("next", "correct the second file, or make it otherwise: no setting changes what it says")
    can_try = any(s.engine is not None and not is_agreement(s.verdict) for s in found.sides)
    if can_try and not any(e.kind == "setting" for e in found.evidence):
        what = "unit as a case file" if first is not None and first.problem else "units that deviate as case files"
        return Remark("next", f"the same with --fix tries settings; with --save-cases DIR it writes the {what}")
    return Remark("next", "the same with --save-cases DIR writes the units that deviate as case files")
