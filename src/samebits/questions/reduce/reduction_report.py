"""A reduction, for people: the fault, the smallest problem, when it is there, what helps, what to send upstream."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import format_value, make_visible
from samebits.engines.registry.runner_text import can_be_typed
from samebits.questions.reduce.reduction_schema import OtherEngine, Reduction
from samebits.questions.reduce.reduction_sentences import say_versions

_MOST_RIGHT, _MOST_EXCEPTIONS = 3, 2
_FEWEST_CALLS = 200


def show_reduction(
    found: Reduction, console: Console | None = None, *, verbose: bool = True, written: str | None = None
) -> None:
    """Prints a reduction to the console (standard output by default), whole or as much as fits a screen.

    `written` is the file that has its script already.
    """
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(found.start, style="bold"), Text(f"{found.engine} {found.version or ''}".rstrip(), style="dim"))
    page.add(make_answer(*name_reduction(found), found.summary))
    if found.problem is not None:
        page.add(list(_list_remarks(found, written)))
    page.print_to(console, verbose=verbose)


def name_reduction(found: Reduction) -> tuple[str, str]:
    """The answer in a word, and its style."""
    return ("no fault", "bold green") if found.fault is None else (found.fault, "bold red")


def _list_remarks(found: Reduction, written: str | None) -> Iterator[Remark]:
    comes_and_goes = bool(found.calls and found.faulty_calls and found.faulty_calls < found.calls)
    by_chance = comes_and_goes and found.calls_each == 1
    yield Remark("seen at" if by_chance else "smallest", found.problem or "", verbatim=True)
    yield from _say_output(found)
    yield from _say_neighbours(found)
    if by_chance:
        yield from (Remark("how known", e.says) for e in found.evidence)
        yield from _say_script(found, written)
        yield _advise_calls(found)
        return
    if found.others:
        yield Remark("right with", list_engines(found.others, right=True) or "none of the settings that were tried")
    if wrong := list_engines(found.others, right=False):
        yield Remark("as wrong with", wrong, rank=2)
    if found.versions:
        yield Remark("versions", say_versions(found.versions))
    yield from (Remark("how known", e.says, rank=3) for e in found.evidence)
    if found.benchdnn:
        yield Remark("benchdnn", found.benchdnn, verbatim=True, rank=1)
    yield Remark("took", f"{found.time_s:.0f} s", rank=5)
    yield from _say_script(found, written)
    again = f"samebits reduce {shlex.quote(found.problem or '')} --on {shlex.quote(found.engine)} --markdown"
    if comes_and_goes:
        yield _advise_calls(found)
    if can_be_typed(found.engine):
        yield Remark("next", again, verbatim=True)


def _say_script(found: Reduction, written: str | None) -> Iterator[Remark]:
    if found.reproducer:
        says = {True: "fails as it should", False: "finds nothing wrong when run", None: "could not be run here"}
        yield Remark("script", f"{says[found.reproduced]}: {written or '-o FILE writes it'}")


def _say_neighbours(found: Reduction) -> Iterator[Remark]:
    if found.condition and found.condition not in found.summary:
        yield Remark("wherever" if found.is_exact else "only where", found.condition, rank=2 if found.is_exact else 4)
    for problem in found.exceptions[:_MOST_EXCEPTIONS]:
        yield Remark("but right", problem, verbatim=True, rank=2)
    for problem in found.right_with[:_MOST_RIGHT]:
        yield Remark("right", problem, verbatim=True, rank=1)


def _say_output(found: Reduction) -> Iterator[Remark]:
    if found.first_index is not None:
        at = ", ".join(map(str, found.first_index))
        values = f"{format_value(found.first_value)} where {format_value(found.first_truth)} is right"
        yield Remark("", f"output [{at}] is {values}; {found.where or 'within the bounds of a narrower format'}")


def _advise_calls(found: Reduction) -> Remark:
    calls = max(_FEWEST_CALLS, found.calls_each)
    compare = f"samebits compare {shlex.quote(found.problem or '')} --on {shlex.quote(found.engine)} --calls {calls}"
    if not can_be_typed(found.engine):
        compare = f'samebits.compare("{found.problem}", {found.engine}, calls={calls})'
    return Remark("next", f"{compare}   says which outputs vary", verbatim=True)


def list_engines(others: list[OtherEngine], *, right: bool) -> str:
    """The engines, versions and settings under which the smallest problem is right, or is not."""
    chosen = [other for other in others if other.right is right]
    return ", ".join(f"{o.engine} ({o.version})" if o.version else o.engine for o in chosen)
