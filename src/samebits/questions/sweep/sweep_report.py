"""A sweep, for people: the answer, the classes with their recipes, what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.networks.model_sentences import say_unit_name
from samebits.problems.attention import KIND, is_attention
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.problem import KINDS
from samebits.questions.sweep.sweep_schema import Sweep, SweepClass
from samebits.questions.sweep.sweep_sentences import say_cell, say_cells, say_places

_MOST_CLASSES, _MOST_FAILURES, _LONGEST_RECIPE = 8, 3, 400


def show_sweep(found: Sweep, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints a sweep to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    for one in (found, *found.more):
        version = f" {one.version}" if one.version and one.version not in one.engine else ""
        page.add(Text(one.sweep, style="bold"), Text(f"{one.engine}{version}; {say_points(one)}", style="dim"))
        page.add(make_answer(*name_answer(one), one.summary))
        page.add(list(_list_remarks(one)))
    page.print_to(console, verbose=verbose)


def name_answer(found: Sweep) -> tuple[str, str]:
    """The answer in a word, and its style."""
    if found.invariant is None:
        return "unknown", "bold magenta"
    return ("same bits", "bold green") if found.invariant else ("changes", "bold yellow")


def say_points(found: Sweep) -> str:
    """How much was run and looked at."""
    outputs = f"{found.outputs:,} output{'' if found.outputs == 1 else 's'} in all of them"
    return f"{found.points:,} points, {outputs}"


def _list_remarks(found: Sweep) -> Iterator[Remark]:
    for number, one in enumerate(found.classes[:_MOST_CLASSES]):
        has_none = is_of_network(found) or is_integer_problem(found.sweep) or is_attention(found.sweep)
        recipe = "" if has_none else f"   {say_recipe(one)}"
        yield Remark(f"class {number + 1}", f"{say_cells(one.cells)}{recipe}", rank=0 if number < 4 else 2)
    if len(found.classes) > _MOST_CLASSES:
        yield Remark("", f"{len(found.classes) - _MOST_CLASSES:,} more: --json lists them")
    if found.uneven:
        yield Remark("position", f"{say_uneven(found)} at {say_cells(found.uneven)}")
    for failed in found.failures[:_MOST_FAILURES]:
        where = say_cell({name: [value, value] for name, value in failed.at.items()})
        yield Remark(failed.failure.kind, f"{where}: {failed.failure.says}", rank=1)
    yield from (
        Remark("what", e.says, rank=0 if e.kind == "setting" or is_attention(found.sweep) else 3)
        for e in found.evidence
    )
    for fix in found.fixes:
        yield Remark("fix", f"{fix.says}: the same bits at every point (tried here)")
        yield Remark("", f'samebits sweep {_type_subject(found)} --on "{fix.engine}"', verbatim=True)
    tried = f"; {found.tried:,} more were tried" if found.tried else ""
    yield Remark("took", f"{found.time_s:.1f} s, {found.engine_time_s:.1f} s of it in the engine{tried}", rank=5)
    yield from _list_units(found)
    yield from _list_next(found)


def _type_subject(found: Sweep) -> str:
    """What was swept, as it is typed."""
    if not is_of_network(found):
        return f'"{found.sweep}"'
    # A path may hold spaces, the size does not.
    model, _, size = found.sweep.rpartition(" ")
    if not size.endswith("}"):
        return shlex.quote(found.sweep)
    return f"{shlex.quote(model)} --size '{size}'"


def say_uneven(found: Sweep) -> str:
    """What `uneven` is, as the begin of a sentence."""
    if is_of_network(found):
        return "items that not all batches have get other bits than in the largest one"
    return say_places()


def _list_units(found: Sweep) -> Iterator[Remark]:
    for unit in found.units[:_MOST_CLASSES]:
        named = say_unit_name(unit.name, unit.operators)
        yield Remark("unit", f"{named} fed the same, other bits at {say_cells(unit.cells)}", rank=1)
    if len(found.units) > _MOST_CLASSES:
        yield Remark("", f"{len(found.units) - _MOST_CLASSES:,} more units: --json lists them", rank=2)


def _list_next(found: Sweep) -> Iterator[Remark]:
    problem = next((u.problem for u in found.units if u.problem), None)
    if is_of_network(found) and found.invariant is False and found.tried is None:
        yield Remark("next", f'samebits sweep {_type_subject(found)} --on "{found.engine}" --fix', verbatim=True)
    if len(found.classes) > 1 and (is_of_network(found) or is_integer_problem(found.sweep)) and "{" in found.engine:
        sides = " ".join(f'--on "{name_engine(found, one)}"' for one in found.classes[:2])
        yield Remark("next", f"samebits compare {_type_subject(found)} {sides}", verbatim=True)
    elif problem is not None:
        yield Remark("next", f'samebits sweep "{problem}" --batch-invariant --on {found.engine}', verbatim=True)
    elif len(found.classes) > 1 and is_attention(found.sweep):
        yield Remark("next", f'samebits compare "{found.classes[0].example}" --on "{found.engine}"', verbatim=True)
    elif len(found.classes) > 1 and not is_of_network(found):
        first = found.classes[0]
        yield Remark("next", f'samebits profile "{name_engine(found, first)}" "{first.example}"', verbatim=True)
        if found.tried is None:
            yield Remark("next", f'samebits sweep "{found.sweep}" --on "{found.engine}" --fix', verbatim=True)


def name_engine(found: Sweep, one: SweepClass) -> str:
    """The engine's text at a class's first point, without ranges."""
    text = found.engine
    for name, run in (one.cells[0] if one.cells else {}).items():
        value = str(run[0])
        text = re.sub(rf"(?<=[:,]){re.escape(name)}=\{{[^}}]*\}}", lambda _, n=name, v=value: f"{n}={v}", text)
    return text


def is_of_network(found: Sweep) -> bool:
    """Whether a network was swept, and no problem."""
    return found.sweep.split()[0].partition(".")[0] not in (*KINDS, KIND)


def say_recipe(one: SweepClass) -> str:
    """The recipe of a class, and whether it gives the bits."""
    if one.recipe is None:
        return "(no recipe found)"
    said = one.recipe if len(one.recipe) <= _LONGEST_RECIPE else f"a tree of {len(one.recipe):,} characters: see --json"
    proof = {True: "replayed", False: "not replayed", None: "not tried on these operands"}[one.replayed]
    return f"{said} ({proof})"
