"""Two runs held against each other, for people: where they part, why, which settings differ, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.runs.diff_schema import RunDiff
from samebits.questions.runs.run_sentences import say_next

_MOST_SETTINGS = 12


def show_diff(found: RunDiff, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was found of two runs to the console (standard output by default), whole or what fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(f"{found.a}  {found.b}", style="bold"))
    word, style = ("SAME", "bold green") if found.same else ("DIFFER", "bold red")
    page.add(make_answer(word, style, found.summary))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def _list_remarks(found: RunDiff) -> Iterator[Remark]:
    yield from (Remark("what", e.says) for e in found.evidence)
    for setting in found.settings[:_MOST_SETTINGS]:
        how = f"; {setting.set}" if setting.set else ""
        yield Remark("settings", f"{setting.name}: {setting.a} and {setting.b}{how}", rank=1)
    if len(found.settings) > _MOST_SETTINGS:
        yield Remark("settings", f"{len(found.settings) - _MOST_SETTINGS} more differ: --json lists them")
    yield from (Remark("next", line) for line in say_next(found.first, found.settings, found.captured))
