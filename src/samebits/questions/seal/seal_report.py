"""A seal, and what came of checking one, for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.seal.seal_schema import Check, CheckedUnit, Run, Seal, SealedUnit

_MOST_SHOWN = 8
_RANKS = {"different": 0, "failed": 0, "same-tried": 2, "same": 4, "not-tried": 1}


def show_seal(found: Seal, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was sealed to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(
        Text(found.subject, style="bold"), Text(f"{found.engine} {found.version} on {found.processor}", style="dim")
    )
    page.add(make_answer("SEALED", "bold green", found.summary))
    remarks = [Remark("sealed", f"{unit.problem}: {say_sealed(unit)}", rank=2) for unit in found.units[:_MOST_SHOWN]]
    if len(found.units) > _MOST_SHOWN:
        remarks.append(Remark("", f"{len(found.units) - _MOST_SHOWN:,} more: --json lists them"))
    if found.model is not None:
        remarks += [Remark("left out", says, rank=1) for says in found.model.left_out]
    remarks.append(Remark("content", found.content, verbatim=True, rank=5))
    page.add(remarks)
    page.print_to(console, verbose=verbose)


def say_sealed(unit: SealedUnit) -> str:
    """How one problem was sealed."""
    if unit.is_whole:
        return f"by recipe, {unit.recipe}"
    if unit.replay is not None:
        return f"by bits; its recipe reproduces {unit.replay.count:,} of {unit.replay.elements:,} outputs"
    return "by bits on seeded operands"


def show_check(found: Check, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints a check to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    version = f" {found.version}" if found.version else ""
    page.add(Text(found.subject, style="bold"), Text(f"{found.engine}{version} on {found.processor}", style="dim"))
    page.add(make_answer(*name_check(found), found.summary))
    chosen = sorted(found.units, key=lambda unit: _RANKS[unit.outcome])
    remarks = [_remark(unit) for unit in chosen[:_MOST_SHOWN]]
    if len(chosen) > _MOST_SHOWN:
        remarks.append(Remark("", f"{len(chosen) - _MOST_SHOWN:,} more: --json lists them"))
    remarks += [
        Remark(output.outcome, f"output {output.name}", rank=_RANKS[output.outcome]) for output in found.outputs
    ]
    # What is otherwise here matters where something differs.
    rank = 1 if found.holds is False else 3
    remarks += [Remark("otherwise", evidence.says, rank=rank) for evidence in found.evidence]
    page.add(remarks)
    page.print_to(console, verbose=verbose)


def _remark(unit: CheckedUnit) -> Remark:
    return Remark(unit.outcome, f"{unit.problem}: {unit.says}", rank=_RANKS[unit.outcome])


def name_check(found: Check) -> tuple[str, str]:
    """The answer in a word, and its style."""
    if found.holds is None:
        return "OPEN", "bold magenta"
    return ("HOLDS", "bold green") if found.holds else ("BROKEN", "bold red")


def show_run(found: Run, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what was executed to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(found.subject, style="bold"), Text(f"as {found.engine} {found.version}", style="dim"))
    page.add(make_answer(*name_run(found), found.summary))
    chosen = sorted(found.steps, key=lambda step: step.is_exact)
    shown = [step for step in chosen if not step.is_exact] or chosen
    remarks = [
        Remark("exact" if step.is_exact else "open", f"{step.name}: {step.says}", rank=3 if step.is_exact else 1)
        for step in shown[:_MOST_SHOWN]
    ]
    if len(found.steps) > len(remarks):
        remarks.append(Remark("", f"{len(found.steps) - len(remarks):,} more: --json lists them"))
    remarks += [
        Remark("output", f"{o.name[:80]}: {o.dtype} {'x'.join(map(str, o.shape)) or 'scalar'}, {o.digest}", rank=2)
        for o in found.outputs[:_MOST_SHOWN]
    ]
    if found.saved:
        remarks.append(Remark("saved", found.saved, verbatim=True, rank=0))
    page.add(remarks)
    page.print_to(console, verbose=verbose)


def name_run(found: Run) -> tuple[str, str]:
    """The answer in a word, and its style."""
    if found.holds is False:
        return "OTHER", "bold red"
    if found.holds:
        return "SAME", "bold green"
    return ("COMPUTED", "bold green") if all(o.is_exact for o in found.outputs) else ("CLOSE", "bold yellow")
