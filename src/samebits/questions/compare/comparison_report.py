"""A comparison for people: the answer, the table, the orders, the evidence, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.display.order_drawing import draw_order
from samebits.display.page_layout import (
    INDENT,
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
    ranked,
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
from samebits.engines.registry.runner_text import can_be_typed
from samebits.findings import Comparison, Side, is_agreement
from samebits.findings.words.fix_words import find_helping, say_result
from samebits.findings.words.number_words import say_count
from samebits.findings.words.place_words import EMULATE, name_engine, shorten_names
from samebits.problems import Problem
from samebits.problems.any_problem import is_formula
from samebits.problems.attention import is_attention
from samebits.problems.problem import PRODUCTS
from samebits.problems.problem_text import parse_problem_text
from samebits.problems.row_functions import is_row_function
from samebits.sums.recipes import format_order, parse_recipe

_MOST_DRAWN = 3
_COLUMN_GAP = 3
_SETTLED_WORDS = {
    "rounding_test": "by one float64 sum",
    "exactness": "because the sum is exact",
    "double_double": "in double-double",
    "exactly": "in exact arithmetic",
    "special": "as infinities or NaN",
    "float64": "by float64 with a bound of its error",
    "pairs": "in pairs of float64 numbers",
    "exact": "in integers of any size",
}


def show_comparison(found: Comparison, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints a comparison to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    outputs = say_count(found.outputs, "output")
    page.add(
        Text(found.problem, style="bold"),
        Text(f"{outputs}, {say_terms(found)} each; operands: {found.data}", style="dim"),
    )
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(_show_sides(found, console.width))
    if found.truth is not None:
        page.add([Remark("the truth", format_values(found.truth)), *_list_values(found)], rank=4, name="values")
    for drawn in _draw_orders(found, console.width):
        page.add(drawn, rank=3, name="orders drawn")
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def _show_sides(found: Comparison, width: int) -> Padding | list[Remark]:
    """Verdict, errors and behaviour on exact data of every side: a table where it fits, else a line for each."""
    replayed, short = any(s.replay for s in found.sides), shorten_names(found.sides)
    headings = ("engine", "verdict", "max error", "error / bound", "exact data", *(("replayed",) if replayed else ()))
    for shown in (headings, headings[:-1]) if replayed else (headings,):
        table = make_table(*shown)
        for side in found.sides:
            verdict = Text("-") if side.failure else Text(side.verdict, style=VERDICT_STYLES[side.verdict])
            cells = (*_format_numbers(side), _format_replay(side))
            add_row(table, Text(_format_name(side, short[side.name])), verdict, *cells[: len(shown) - 2])
        if fits(table, width):
            return indent(table)
    return [Remark(short[side.name], _say_side(side)) for side in found.sides]


def _say_side(side: Side) -> str:
    if side.failure:
        return side.failure.kind
    max_error, _, exact = _format_numbers(side)
    said = f"{side.verdict}, max error {max_error}, {say_of_bound(side.error.max_over_bound if side.error else None)}"
    return f"{said}, exact data {exact}" if exact else said


def _format_replay(side: Side) -> str:
    return f"{side.replay.count:,}/{side.replay.elements:,}" if side.replay else ""


def _format_name(side: Side, short: str) -> str:
    """An engine with its version, each of its settings in a line of its own; a recorded result as such."""
    if not side.engine:
        return f"{side.name} (recorded)"
    return short if side.name.partition(":")[0] == EMULATE else name_engine(side, side.name)


def _format_numbers(side: Side) -> tuple[str, str, str]:
    if side.failure:
        return side.failure.kind, "", ""
    exact = side.exact_data
    if not exact:
        said = ""
    elif exact.differing:
        said = f"{exact.differing:,} wrong" if side.verdict == "wrong" else f"{exact.differing:,} differ"
    else:
        said = "right"
    return format_max_error(side), format_share(side.error), said


def _list_values(found: Comparison) -> Iterator[Remark]:
    names = shorten_names(found.sides)
    return (Remark(names[side.name], format_values(side.values)) for side in found.sides if side.values)


def _draw_orders(found: Comparison, width: int) -> Iterator[list[Remark] | Padding]:
    """The orders in which sides add: side by side if there is room, else below each other."""
    if is_formula(found.problem):
        return
    problem, short = parse_problem_text(found.problem), shorten_names(found.sides)
    names: dict[tuple[str, ...], list[str]] = {}
    for side in found.sides:
        if side.recipe and side.replay and side.replay.is_whole:
            names.setdefault(tuple(_draw_recipe(problem, side.recipe)), []).append(short[side.name])
    drawn = [(", ".join(sides), lines) for lines, sides in list(names.items())[:_MOST_DRAWN]]
    needed = sum(max(map(len, (title, *lines))) + _COLUMN_GAP for title, lines in drawn)
    if drawn and needed + INDENT <= width:
        table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="dim")
        for title, _ in drawn:
            table.add_column(Text(title), no_wrap=True)
        add_row(table, *("\n".join(lines) for _, lines in drawn))
        yield indent(table)
    else:
        for title, lines in drawn:
            yield [Remark("", "\n".join([title, *lines]), verbatim=True)]
    left = [name for sides in list(names.values())[_MOST_DRAWN:] for name in sides]
    if left:
        yield [Remark("", f"not drawn: {', '.join(left)}; their recipes stand below")]


def _draw_recipe(problem: Problem, recipe: str) -> list[str]:
    parsed = parse_recipe(recipe)
    if parsed.algorithm is not None:
        return [recipe]
    products = "fused" if parsed.product == "fused" else "rounded first"
    lines = [f"products {products}:", *draw_order(problem, format_order(parsed.orders[0]))]
    return [*lines, f"and {len(parsed.orders) - 1} more orders"] if len(parsed.orders) > 1 else lines


def _list_remarks(found: Comparison) -> Iterator[Remark]:
    """Which sides agree, why the others do not, the worst element, the settings, how the truth was settled."""
    yield from ranked(2, _say_groups(found))
    for evidence in (e for e in found.evidence if e.kind != "setting"):
        yield Remark("why", (f"cause {found.cause}: " if found.cause else "") + evidence.says)
    yield from _say_fixes(found)
    yield from ranked(5, _say_recipes(found))
    short = shorten_names(found.sides)
    for side in found.sides:
        yield from _say_trouble(side, short[side.name])
    worst = _find_worst_side(found)
    if worst:
        yield Remark("worst", _say_worst(worst, short[worst.name]), rank=6)
    for side in found.sides:
        yield from _say_settings(side)
        if side.repeats and side.calls:
            said = f"{short[side.name]}: the same bits in all {side.calls:,} calls on the same operands"
            yield Remark("repeats", said, rank=ONLY_VERBOSE)
    settled = [f"{count:,} {_SETTLED_WORDS[way]}" for way, count in found.settled.items() if count]
    yield Remark("truth", f"outputs settled: {', '.join(settled)}", rank=ONLY_VERBOSE)
    yield _say_next(found)


def _say_recipes(found: Comparison) -> Iterator[Remark]:
    """The recipes that were asked for, and those that were found."""
    short = shorten_names(found.sides)
    for side in found.sides:
        if side.name.startswith(f"{EMULATE}:"):
            yield Remark("emulated", f"{short[side.name]}: {side.name.partition(':')[2]}", verbatim=True)
    for side in found.sides:
        if side.recipe and side.replay:
            label = "recipe of" if side.replay.is_whole else "partly by"
            yield Remark(label, f"{short[side.name]} ({_format_replay(side)}): {side.recipe}", verbatim=True)


def _say_trouble(side: Side, name: str) -> Iterator[Remark]:
    """A failure, and the evidence for what is wrong or open."""
    if side.failure:
        yield Remark(side.failure.kind, f"{name}: {side.failure.says}")
    if side.verdict in ("wrong", "undecided"):
        says = (e.says for e in side.evidence if e.kind in ("structure", "statistic"))
        # What was found first says most.
        yield from (Remark("why", f"{name}: {said}", rank=0 if i == 0 else 3) for i, said in enumerate(says))


def _say_settings(side: Side) -> Iterator[Remark]:
    name = side.name.partition(":")[0]
    if side.settings and name != EMULATE:
        listed = ", ".join(f"{key}={value}" for key, value in side.settings.items())
        yield Remark("settings", f"{name}: {listed}", rank=ONLY_VERBOSE)
    yield from (Remark("note", e.says) for e in side.evidence if e.kind == "setting")


def _say_fixes(found: Comparison) -> Iterator[Remark]:
    """What was tried and helped: the setting, what holds after it, what it costs."""
    for fix in found.fixes:
        also = f" and {', '.join(fix.together_with)}" if fix.together_with else ""
        said = f"{fix.text or fix.setting}{also}"
        after = say_result(fix, "all")
        took = ""
        if fix.time_before_s and fix.time_after_s:
            took = f"; time {fix.time_after_s / fix.time_before_s:.2g} x"
        yield Remark("fix", f"{said}   tried: {after}{took}. {fix.why[:1].upper()}{fix.why[1:]}; {fix.also}")
    yield from (Remark("tried", e.says, rank=3 if found.fixes else 0) for e in found.evidence if e.kind == "setting")


def _say_groups(found: Comparison) -> Iterator[Remark]:
    """The sides that have the same bits as each other, if any have."""
    same = {(d.a, d.b) for d in found.differences if d.differing == 0}
    groups: list[list[str]] = []
    for side in (s for s in found.sides if not s.failure):
        home = next((g for g in groups if (g[0], side.name) in same), None)
        if home:
            home.append(side.name)
        else:
            groups.append([side.name])
    equal, short = [g for g in groups if len(g) > 1], shorten_names(found.sides)
    yield from (Remark("same bits", " = ".join(short[name] for name in group)) for group in equal)
    if len(groups) > 1 and not equal:
        yield Remark("same bits", "no two of them")


def _find_worst_side(found: Comparison) -> Side | None:
    def share(side: Side) -> float:
        value = side.worst.over_bound if side.worst else 0.0
        return float("inf") if value is None else value

    # What is wrong on exact integers, or in other calls, is not in outputs that are within their bound.
    telling = (s for s in found.sides if s.worst and s.error and not (s.verdict == "wrong" and share(s) <= 1))
    return max(telling, key=share, default=None)


def _say_worst(side: Side, name: str) -> str:
    worst = side.worst
    assert worst is not None
    windows = "; ".join(f"{name}[{', '.join(f'{a}:{b}' for a, b in ranges)}]" for name, ranges in worst.window.items())
    value, truth = format_value(worst.value), format_value(worst.truth)
    return f"{name} at {worst.index}: {value} where the truth is {truth}; it reads {windows}"


def _say_next(found: Comparison) -> Remark:
    kind = found.problem.split()[0].partition(".")[0]
    helps = find_helping(found.fixes)
    if helps is not None:
        texts = [helps.text or "", *helps.together_with]
        return Remark("next", f"run with the fix: {' '.join(f'--on {shlex.quote(t)}' for t in texts)}", verbatim=True)
    if is_agreement(found.verdict) and is_row_function(found.problem):
        return Remark("next", f"`--on truth` computes the correctly rounded {kind}, the same bits on any machine")
    if is_agreement(found.verdict):
        any_ = "batch or machine" if kind in PRODUCTS else "batch, padding or machine"
        operands = "q, k, v" if is_attention(found.problem) else "x, w"
        says = f"samebits.{kind}({operands}, ...) returns the truth itself, the same bits for any {any_}"
        return Remark("next", says)
    deviating = [s for s in found.sides if not is_agreement(s.verdict) and s.engine and not s.failure]
    if not deviating and any(s.engine and not s.failure for s in found.sides):
        return Remark("next", "samebits explain the case file: it looks for what made a recorded result")
    if not deviating:
        return Remark(
            "next", "run an engine on the same case with --on ENGINE; samebits doctor lists those that are here"
        )
    if any(e.kind == "setting" for s in deviating for e in s.evidence):
        return Remark("next", "compare again with the setting named in the note")
    first = deviating[0]
    if not can_be_typed(first.engine or ""):
        asks = "reduce" if first.verdict == "wrong" else "profile"
        given = f'"{found.problem}", {first.name}' if asks == "reduce" else f'{first.name}, "{found.problem}"'
        return Remark("next", f"samebits.{asks}({given})", verbatim=True)
    if first.verdict == "wrong":
        # A smallest problem and its condition are what whoever wrote the kernel needs.
        return Remark("next", f'samebits reduce "{found.problem}" --on "{first.engine}"', verbatim=True)
    if first.recipe is None:
        return Remark("next", f'samebits profile "{first.engine}" "{found.problem}"', verbatim=True)
    return Remark("next", "samebits doctor lists the settings of every engine; compare again with another one")
