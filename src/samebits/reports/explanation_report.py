"""An explanation for people: the answer, the sides, how sure it is, what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import CERTAINTY_SAYS, Comparison, Side
from samebits.reports.comparison_report import VERDICT_STYLES, format_error, format_values

_MOST_FIXES = 4
_LONGEST_RECIPE = 160


def show_explanation(found: Comparison, console: Console | None = None) -> None:
    """Prints an explanation, and those of a log's other mismatches, to the console (standard output by default)."""
    console = console or Console(highlight=False)
    for number, one in enumerate([found, *found.more]):
        if number:
            console.print()
        _show_one(one, console)


def _show_one(found: Comparison, console: Console) -> None:
    where = f"line {found.line}: " if found.line else ""
    console.print(Text(f"{where}{found.problem}", style="bold"))
    if found.outputs:
        says = f"{found.outputs:,} outputs, {found.reduction_length:,} products each; operands: {found.data}"
        console.print(Text(says, style="dim"))
    console.print()
    verdict = Text(f"{found.verdict.upper():<11}", style=VERDICT_STYLES[found.verdict])
    console.print(verdict.append(Text(found.summary, style="not bold default")))
    console.print()
    console.print(Padding(_sides(found), (0, 0, 0, 2), expand=False))
    console.print()
    notes = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    notes.add_column("about", style="dim", no_wrap=True)
    notes.add_column("says", overflow="fold")
    for about, says in _remarks(found):
        notes.add_row(about, Text(says))
    console.print(Padding(notes, (0, 0, 0, 2), expand=False))


def _sides(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("side", overflow="fold")
    judged = any(s.error for s in found.sides)
    for heading in ("verdict", "cause", "how sure", *(("from truth", "of bound") if judged else ())):
        table.add_column(heading, overflow="fold")
    for side in found.sides:
        error = side.error
        distance, share = format_error(error) if error else ("", "")
        table.add_row(
            Text(side.name),
            Text(side.verdict, style=VERDICT_STYLES[side.verdict]),
            side.cause or "-",
            CERTAINTY_SAYS[side.certainty] if side.certainty else "-",
            *((distance, share) if judged else ()),
        )
    return table


def _remarks(found: Comparison) -> Iterator[tuple[str, str]]:
    if found.truth is not None:
        yield "truth", format_values(found.truth)
        yield from ((side.name, format_values(side.values)) for side in found.sides if side.values)
    yield from (("why", evidence.says) for evidence in found.evidence)
    said: set[str] = set()
    for side in found.sides:
        for evidence in side.evidence:
            if evidence.says not in said:
                said.add(evidence.says)
                yield "why", f"{side.name}: {evidence.says}"
        if side.recipe:
            yield "recipe", f"{side.name}: {textwrap.shorten(side.recipe, _LONGEST_RECIPE, placeholder='...')}"
    if _find_worst(found) is not None:
        yield "worst", _say_worst(found)
    for number, fix in enumerate(found.fixes[:_MOST_FIXES]):
        yield ("" if number else "change"), f"{fix.engine}: {fix.setting} ({fix.why}; not tried here)"
    if len(found.fixes) > _MOST_FIXES:
        yield "", f"and {len(found.fixes) - _MOST_FIXES} more with --json"


def _find_worst(found: Comparison) -> Side | None:
    return next((s for s in found.sides if s.worst and s.verdict not in ("identical", "rounding")), None)


def _say_worst(found: Comparison) -> str:
    side = _find_worst(found)
    assert side is not None
    assert side.worst is not None
    value, truth = ("nan/inf" if v is None else f"{v:.9g}" for v in (side.worst.value, side.worst.truth))
    return f"{side.name} at {side.worst.index}: {value} where the truth is {truth}"
