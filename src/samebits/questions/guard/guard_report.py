"""What a guard saw, for people: the answer, what was found, how near to the bounds the rest came, what to do next."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import VERDICT_STYLES, Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.guard.guard_schema import GuardedResult, GuardReport
from samebits.questions.guard.guard_sentences import name_result

_MOST_SHOWN, _WIDEST = 6, 100


def render_guard(found: GuardReport) -> str:
    """The report as plain text."""
    found, text = make_visible(found), io.StringIO()
    page = Page()
    page.add(Text(found.module, style="bold"))
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(list(_list_remarks(found)))
    width = min(open_console().width, _WIDEST)
    page.print_to(Console(file=text, width=width, highlight=False, no_color=True))
    return text.getvalue()


def _list_remarks(found: GuardReport) -> Iterator[Remark]:
    for breach in found.breaches[:_MOST_SHOWN]:
        cause = f" [{breach.cause}]" if breach.cause else ""
        what = f"{name_result(breach.layer, breach.direction)}, call {breach.call:,}"
        yield Remark("breach", f"{what}: {breach.verdict}{cause}, {breach.says}")
    if len(found.breaches) > _MOST_SHOWN:
        yield Remark("breach", f"{len(found.breaches) - _MOST_SHOWN:,} more are listed in the report's JSON")
    nearest = max(found.results, key=_measure_nearness, default=None)
    if nearest is not None and nearest.checks and not found.breaches:
        yield Remark(
            "nearest",
            f"{name_result(nearest.layer, nearest.direction)}: {_measure_nearness(nearest):.2g} of what independent"
            f" roundings reach, {nearest.max_over_bound or 0:.2g} of the worst-case bound",
        )
    yield Remark("checked", say_effort(found))
    yield from (Remark("what", e.says) for e in found.evidence)
    yield from (Remark("left out", f"{name}: {why}") for name, why in list(found.left_out.items())[:_MOST_SHOWN])
    if len(found.left_out) > _MOST_SHOWN:
        yield Remark("left out", f"{len(found.left_out) - _MOST_SHOWN:,} more: the report's JSON lists them")
    kept = next((b.case for b in found.breaches if b.case), None)
    if kept is not None:
        yield Remark("next", f"samebits explain {kept}", verbatim=True)


def say_effort(found: GuardReport) -> str:
    """How much was checked, and what it took."""
    taken = found.time_s / found.running_s if found.running_s else 0.0
    return (
        f"{found.checks:,} checks, of a share of {found.share:.3g} of all results, in {found.time_s:.2g} s"
        f" ({taken:.1%} of the time that the guard stood)"
    )


def _measure_nearness(result: GuardedResult) -> float:
    return result.max_over_likely or 0.0
