"""An explanation for people: the answer, the sides, how each part of it is known, what to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samebits.findings import CERTAINTY_SAYS, Certainty, Comparison, Side, is_agreement
from samebits.reports.error_words import format_max_error, format_share, format_value, format_values
from samebits.reports.page_layout import VERDICT_STYLES, Page, Remark, indent, make_answer

_MOST_FIXES = 4
# Below this the evidence levels stand with the evidence and not in the table.
_NARROW = 76


def show_explanation(found: Comparison, console: Console | None = None) -> None:
    """Prints an explanation, and those of a log's other mismatches, to the console (standard output by default)."""
    console = console or Console(highlight=False)
    page = Page()
    for one in (found, *found.more):
        _add_one(page, one, console.width)
    page.print_to(console)


def _add_one(page: Page, found: Comparison, width: int) -> None:
    where = f"line {found.line}: " if found.line else ""
    title = Text(f"{where}{found.problem}", style="bold")
    if found.outputs:
        says = f"{found.outputs:,} outputs, {found.reduction_length:,} products each; operands: {found.data}"
        page.add(title, Text(says, style="dim"))
    else:
        page.add(title)
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(indent(_make_sides_table(found, wide=width >= _NARROW)))
    page.add(list(_list_remarks(found)))


def _make_sides_table(found: Comparison, *, wide: bool) -> Table:
    judged = any(s.error for s in found.sides)
    headings = ["side", "verdict", "cause"]
    headings += ["max error", "error / bound"] if judged else []
    headings += ["evidence level"] if wide else []
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for side in found.sides:
        cells = [Text(side.name), Text(side.verdict, style=VERDICT_STYLES[side.verdict]), side.cause or "-"]
        cells += [format_max_error(side), format_share(side.error)] if judged else []
        cells += [_say_level(side)] if wide else []
        table.add_row(*cells)
    return table


def _say_level(side: Side) -> str:
    """How the verdict is known; and how the cause is, where that is another matter."""

    def say(level: Certainty | None) -> str:
        return CERTAINTY_SAYS[level] if level else "-"

    if side.cause is None or side.cause_certainty in (None, side.certainty):
        return say(side.certainty)
    return f"{say(side.certainty)}; cause: {say(side.cause_certainty)}"


def _list_remarks(found: Comparison) -> Iterator[Remark]:
    if found.truth is not None:
        yield Remark("truth", format_values(found.truth))
        yield from (Remark(side.name, format_values(side.values)) for side in found.sides if side.values)
    yield from (Remark("why", evidence.says) for evidence in found.evidence)
    said: set[str] = set()
    for side in found.sides:
        for evidence in side.evidence:
            # Evidence that both sides share is said once; a replay's recipe stands below, to be copied.
            if evidence.says not in said and not (evidence.kind == "replay" and "replaying" in evidence.says):
                said.add(evidence.says)
                yield Remark("why", f"{side.name}: {evidence.says}")
        if side.recipe:
            share = f" ({side.replay.count:,} of {side.replay.elements:,} bits)" if side.replay else ""
            yield Remark("recipe of", f"{side.name}{share}: {side.recipe}", verbatim=True)
    worst = next((s for s in found.sides if s.worst and not is_agreement(s.verdict)), None)
    if worst is not None:
        yield Remark("worst", _say_worst(worst))
    for fix in found.fixes[:_MOST_FIXES]:
        yield Remark("change", f"{fix.engine}: {fix.setting} ({fix.why}; not tried here)")
    if len(found.fixes) > _MOST_FIXES:
        yield Remark("change", f"and {len(found.fixes) - _MOST_FIXES} more with --json")


def _say_worst(side: Side) -> str:
    worst = side.worst
    assert worst is not None
    return f"{side.name} at {worst.index}: {format_value(worst.value)} where the truth is {format_value(worst.truth)}"
