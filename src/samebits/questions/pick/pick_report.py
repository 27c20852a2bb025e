"""Choices for people: what was picked, how fast it is, what was rejected and why, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.pick.pick_schema import Choice, Pick
from samebits.questions.pick.pick_sentences import say_bytes, say_choice, say_contract, say_slower, say_time

_MOST_SHOWN = 6


def show_pick(found: Pick, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was picked to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(found.subject, style="bold"))
    lacks = any(choice.engine is None for choice in found.choices)
    word, style = ("NONE", "bold red") if lacks else ("PICKED", "bold green")
    page.add(make_answer(word, style, found.summary))
    remarks = [Remark("contract", say_contract(found.contract))]
    if len(found.choices) == 1:
        remarks += _list_one(found.choices[0])
    else:
        remarks += [Remark("choice", f"{c.problem}: {say_choice(c)}") for c in found.choices]
    remarks += [Remark("what", e.says, rank=2) for e in found.evidence]
    remarks += _list_next(found)
    page.add(remarks)
    page.print_to(console, verbose=verbose)


def _list_one(choice: Choice) -> Iterator[Remark]:
    if choice.engine is not None:
        yield Remark("choice", say_choice(choice))
    if choice.replay is not None and choice.recipe is not None:
        matched = f"{choice.replay.count:,} of {choice.replay.elements:,} outputs"
        yield Remark("recipe", f"{choice.recipe} ({matched} replayed bit for bit)", rank=3)
    if choice.peak_bytes is not None:
        yield Remark("memory", f"its first run took {say_bytes(choice.peak_bytes)} at most, result included", rank=5)
    for slower in choice.slower[:_MOST_SHOWN]:
        yield Remark(say_slower(slower), f"{slower.engine} {say_time(slower.time_s)}", rank=4)
    if len(choice.slower) > _MOST_SHOWN:
        yield Remark("slower", f"{len(choice.slower) - _MOST_SHOWN} more: --json lists them")
    for rejection in choice.rejected[:_MOST_SHOWN]:
        cause = f" [{rejection.cause}]" if rejection.cause else ""
        yield Remark("rejected", f"{rejection.engine}: {rejection.why}{cause}", rank=1)
    if len(choice.rejected) > _MOST_SHOWN:
        yield Remark("rejected", f"{len(choice.rejected) - _MOST_SHOWN} more: --json lists them")


def _list_next(found: Pick) -> Iterator[Remark]:
    if found.lock is None and any(choice.engine is not None for choice in found.choices):
        yield Remark("next", "-o samebits.lock keeps the choice; from then on it is taken from there, without timing")
    rejected = next((c for c in found.choices if c.engine is None and c.rejected), None)
    if rejected is not None:
        name = rejected.rejected[0].engine
        yield Remark("next", f"samebits compare '{rejected.problem}' --on {name} --on truth says what its results are")
