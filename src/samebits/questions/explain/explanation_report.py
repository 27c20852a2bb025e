"""An explanation for people: the answer, the sides, how each part of it is known, what to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from samebits.display.page_layout import (
    ONLY_VERBOSE,
    VERDICT_STYLES,
    Page,
    Remark,
    add_row,
    fits,
    indent,
    make_answer,
    make_table,
    open_console,
)
from samebits.display.visible_text import (
    format_max_error,
    format_share,
    format_value,
    format_values,
    make_visible,
    say_of_bound,
    say_terms,
)
from samebits.findings import Comparison, Side, is_agreement
from samebits.findings.words.level_words import say_level

# What is shown of advice unless more is asked for.
_MOST_FIXES = 3


def show_explanation(found: Comparison, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints an explanation, and those of a log's other mismatches, to the console (standard output by default).

    Whole where it is `verbose`, else as much as fits a screen.
    """
    found, console = make_visible(found), console or open_console()
    page = Page()
    for one in (found, *found.more):
        _add_one(page, one, console.width)
    page.print_to(console, verbose=verbose)


def _add_one(page: Page, found: Comparison, width: int) -> None:
    where = f"line {found.line}: " if found.line else ""
    title = Text(f"{where}{found.problem}", style="bold")
    if found.outputs:
        says = f"{found.outputs:,} outputs, {say_terms(found)} each; operands: {found.data}"
        page.add(title, Text(says, style="dim"))
    else:
        page.add(title)
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(_show_sides(found, width))
    page.add(list(_list_remarks(found)))


def _show_sides(found: Comparison, width: int) -> Padding | list[Remark]:
    """Verdict, cause and errors of every side: a table where it fits, else a line for each."""
    judged = any(s.error for s in found.sides)
    table = make_table("side", "verdict", "cause", *(("max error", "error / bound") if judged else ()))
    for side in found.sides:
        verdict = Text(side.verdict, style=VERDICT_STYLES[side.verdict])
        verdict.append(f" ({say_level(side.certainty)})", style="not bold default")
        errors = (format_max_error(side), format_share(side.error)) if judged else ()
        add_row(table, Text(side.name), verdict, _say_cause(side), *errors)
    if fits(table, width):
        return indent(table)
    return [Remark(side.name, _say_side(side)) for side in found.sides]


def _say_side(side: Side) -> str:
    cause = f", cause {_say_cause(side)}" if side.cause else ""
    share = f", largest error {say_of_bound(side.error.max_over_bound)}" if side.error else ""
    return f"{side.verdict} ({say_level(side.certainty)}){cause}{share}"


def _say_cause(side: Side) -> str:
    """The cause, and how it is known: often less well than the verdict."""
    return f"{side.cause} ({say_level(side.cause_certainty)})" if side.cause else "-"


def _list_remarks(found: Comparison) -> Iterator[Remark]:
    if found.truth is not None:
        yield Remark("truth", format_values(found.truth), rank=5)
        yield from (Remark(side.name, format_values(side.values), rank=5) for side in found.sides if side.values)
    yield from (Remark("why", evidence.says, rank=1) for evidence in found.evidence)
    yield from _say_evidence(found)
    for side in found.sides:
        if side.recipe:
            altered = ", with what it does otherwise" if side.verdict == "wrong" else ""
            share = f" ({side.replay.count:,}/{side.replay.elements:,}{altered})" if side.replay else ""
            rank = 6 if is_agreement(side.verdict) else 2
            yield Remark("recipe of", f"{side.name}{share}: {side.recipe}", verbatim=True, rank=rank)
    worst = next((s for s in found.sides if s.worst and not is_agreement(s.verdict)), None)
    if worst is not None:
        yield Remark("worst", _say_worst(worst), rank=6)
    for number, fix in enumerate(found.fixes):
        rank = 0 if number == 0 else 2 if number < _MOST_FIXES else ONLY_VERBOSE
        yield Remark("change", f"{fix.engine}: {fix.setting} ({fix.why}; not tried here)", rank=rank)
    if found.verdict == "undecided" and found.data == "recorded":
        yield Remark("next", f'samebits compare "{found.problem}" --on ENGINE', verbatim=True)


def _say_evidence(found: Comparison) -> Iterator[Remark]:
    """The evidence of all sides; what both share is said once, and a replay's recipe stands elsewhere, to be copied."""
    said: set[str] = set()
    for side in found.sides:
        first = True
        for evidence in side.evidence:
            if evidence.says not in said and not (evidence.kind == "replay" and "replaying" in evidence.says):
                said.add(evidence.says)
                # What was found first says most, and of the side that deviates.
                rank = 4 if not first else 3 if is_agreement(side.verdict) else 0
                yield Remark("why", f"{side.name}: {evidence.says}", rank=rank)
                first = False


def _say_worst(side: Side) -> str:
    worst = side.worst
    assert worst is not None
    return f"{side.name} at {worst.index}: {format_value(worst.value)} where the truth is {format_value(worst.truth)}"
