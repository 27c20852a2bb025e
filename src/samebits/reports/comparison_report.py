"""A comparison for people: the answer, the table, the orders, the evidence, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import Comparison, Side, is_agreement
from samebits.problems import Problem
from samebits.problems.problem_text import parse_problem_text
from samebits.recipes import format_order, parse_recipe
from samebits.reports.error_words import format_max_error, format_share, format_value, format_values
from samebits.reports.order_drawing import draw_order
from samebits.reports.page_layout import INDENT, VERDICT_STYLES, Page, Remark, indent, make_answer, make_table

_MOST_DRAWN = 3
# On narrower terminals the table leaves out what stands elsewhere too.
_WIDE = 84
_COLUMN_GAP = 3
_EMULATE = "emulate"
_SETTLED_WORDS = {
    "rounding_test": "by one float64 sum",
    "exactness": "because the sum is exact",
    "double_double": "in double-double",
    "exactly": "in exact arithmetic",
    "special": "as infinities or NaN",
}


def show_comparison(found: Comparison, console: Console | None = None) -> None:
    """Prints a comparison to the console (standard output by default)."""
    console = console or Console(highlight=False)
    page = Page()
    outputs = f"{found.outputs:,} output{'s' if found.outputs != 1 else ''}"
    page.add(
        Text(found.problem, style="bold"),
        Text(f"{outputs}, {found.reduction_length:,} products each; operands: {found.data}", style="dim"),
    )
    page.add(make_answer(found.verdict, VERDICT_STYLES[found.verdict], found.summary))
    page.add(indent(_make_sides_table(found, console.width)))
    if found.truth is not None:
        page.add([Remark("the truth", format_values(found.truth)), *_list_values(found)])
    for drawn in _draw_orders(found, console.width):
        page.add(drawn)
    page.add(list(_list_remarks(found)))
    page.print_to(console)


def _make_sides_table(found: Comparison, width: int) -> Table:
    shows_exact = width >= _WIDE or any(s.exact_data and s.exact_data.differing for s in found.sides)
    shows_replay = width >= _WIDE and any(s.replay for s in found.sides)
    headings = ["engine", "verdict", "max error", "error / bound"]
    headings += ["exact data"] if shows_exact else []
    headings += ["replayed"] if shows_replay else []
    table, short = make_table(*headings), _shorten_names(found)
    for side in found.sides:
        verdict = Text("-") if side.failure else Text(side.verdict, style=VERDICT_STYLES[side.verdict])
        max_error, share, exact = _format_numbers(side)
        cells: list[Text | str] = [Text(_format_name(side, short[side.name])), verdict, max_error, share]
        cells += [exact] if shows_exact else []
        cells += [_format_replay(side)] if shows_replay else []
        table.add_row(*cells)
    return table


def _format_replay(side: Side) -> str:
    return f"{side.replay.count:,}/{side.replay.elements:,}" if side.replay else ""


def _format_name(side: Side, short: str) -> str:
    """An engine with its version, each of its settings in a line of its own; a recorded result as such."""
    if not side.engine:
        return f"{side.name} (recorded)"
    name, _, settings = side.name.partition(":")
    if name == _EMULATE:
        return short
    version = f" {side.version}" if side.version and name != "truth" else ""
    return "\n".join([f"{name}{version}", *(f"  {part}" for part in settings.split(",") if part)])


def _shorten_names(found: Comparison) -> dict[str, str]:
    """What each side is called beside its name: the engine alone where no other side has the same; emulators numbered.

    A recipe is too long for a label; it stands in full among the remarks.
    """
    bases = [s.name.partition(":")[0] for s in found.sides]
    names: dict[str, str] = {}
    for number, (side, base) in enumerate(zip(found.sides, bases, strict=True)):
        if side.engine and bases.count(base) == 1:
            names[side.name] = base
        else:
            names[side.name] = f"{base} {bases[: number + 1].count(base)}" if base == _EMULATE else side.name
    return names


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
    names = _shorten_names(found)
    return (Remark(names[side.name], format_values(side.values)) for side in found.sides if side.values)


def _draw_orders(found: Comparison, width: int) -> Iterator[list[Remark] | Padding]:
    """The orders in which sides add: beside each other if there is room, else below each other."""
    problem, short = parse_problem_text(found.problem), _shorten_names(found)
    names: dict[str, list[str]] = {}
    for side in found.sides:
        if side.recipe and side.replay and side.replay.is_whole:
            names.setdefault(side.recipe, []).append(short[side.name])
    drawn = [(", ".join(sides), _draw_recipe(problem, recipe)) for recipe, sides in list(names.items())[:_MOST_DRAWN]]
    needed = sum(max(map(len, (title, *lines))) + _COLUMN_GAP for title, lines in drawn)
    if drawn and needed + INDENT <= width:
        table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="dim")
        for title, _ in drawn:
            table.add_column(title, no_wrap=True)
        table.add_row(*(Text("\n".join(lines)) for _, lines in drawn))
        yield indent(table)
        return
    for title, lines in drawn:
        yield [Remark("", "\n".join([title, *lines]), verbatim=True)]


def _draw_recipe(problem: Problem, recipe: str) -> list[str]:
    parsed = parse_recipe(recipe)
    if parsed.algorithm is not None:
        return [recipe]
    products = "fused" if parsed.product == "fused" else "rounded first"
    lines = [f"products {products}:", *draw_order(problem, format_order(parsed.orders[0]))]
    return [*lines, f"and {len(parsed.orders) - 1} more orders"] if len(parsed.orders) > 1 else lines


def _list_remarks(found: Comparison) -> Iterator[Remark]:
    """Which sides agree, why the others do not, the worst element, the settings, how the truth was settled."""
    yield from _say_groups(found)
    for evidence in found.evidence:
        yield Remark("why", (f"cause {found.cause}: " if found.cause else "") + evidence.says)
    yield from _say_recipes(found)
    for side in found.sides:
        yield from _say_trouble(side)
    worst = _find_worst_side(found)
    if worst:
        yield Remark("worst", _say_worst(worst))
    for side in found.sides:
        yield from _say_settings(side)
    settled = [f"{count:,} {_SETTLED_WORDS[way]}" for way, count in found.settled.items() if count]
    yield Remark("truth", f"outputs settled: {', '.join(settled)}")
    yield _say_next(found)


def _say_recipes(found: Comparison) -> Iterator[Remark]:
    """The recipes that were asked for, and those that were found."""
    short = _shorten_names(found)
    for side in found.sides:
        if side.name.startswith(f"{_EMULATE}:"):
            yield Remark("emulated", f"{short[side.name]}: {side.name.partition(':')[2]}", verbatim=True)
    for side in found.sides:
        if side.recipe and side.replay:
            yield Remark("recipe of", f"{short[side.name]} ({_format_replay(side)}): {side.recipe}", verbatim=True)


def _say_trouble(side: Side) -> Iterator[Remark]:
    """A failure, and the evidence for what is wrong or open."""
    if side.failure:
        yield Remark(side.failure.kind, f"{side.name}: {side.failure.says}")
    if side.verdict in ("wrong", "undecided"):
        says = (e.says for e in side.evidence if e.kind in ("structure", "statistic"))
        yield from (Remark("why", f"{side.name}: {said}") for said in says)


def _say_settings(side: Side) -> Iterator[Remark]:
    name = side.name.partition(":")[0]
    if side.settings and name != _EMULATE:
        listed = ", ".join(f"{key}={value}" for key, value in side.settings.items())
        yield Remark("settings", f"{name}: {listed}")
    yield from (Remark("note", e.says) for e in side.evidence if e.kind == "setting")


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
    equal, short = [g for g in groups if len(g) > 1], _shorten_names(found)
    yield from (Remark("same bits", " = ".join(short[name] for name in group)) for group in equal)
    if len(groups) > 1 and not equal:
        yield Remark("same bits", "no two of them")


def _find_worst_side(found: Comparison) -> Side | None:
    def share(side: Side) -> float:
        value = side.worst.over_bound if side.worst else 0.0
        return float("inf") if value is None else value

    return max((s for s in found.sides if s.worst and s.error), key=share, default=None)


def _say_worst(side: Side) -> str:
    worst = side.worst
    assert worst is not None
    windows = "; ".join(f"{name}[{', '.join(f'{a}:{b}' for a, b in ranges)}]" for name, ranges in worst.window.items())
    value, truth = format_value(worst.value), format_value(worst.truth)
    return f"{side.name} at {worst.index}: {value} where the truth is {truth}; it reads {windows}"


def _say_next(found: Comparison) -> Remark:
    kind = found.problem.split()[0].partition(".")[0]
    if is_agreement(found.verdict):
        says = f"samebits.{kind}(x, w, ...) returns the truth itself, the same bits for any batch, padding or machine"
        return Remark("next", says)
    deviating = [s for s in found.sides if not is_agreement(s.verdict) and s.engine and not s.failure]
    if not deviating:
        return Remark(
            "next", "run an engine on the same case with --on ENGINE; samebits doctor lists those that are here"
        )
    if any(e.kind == "setting" for s in deviating for e in s.evidence):
        return Remark("next", "compare again with the setting named in the note")
    first = deviating[0]
    if first.recipe is None:
        return Remark("next", f'samebits profile "{first.engine}" "{found.problem}"', verbatim=True)
    return Remark("next", "samebits doctor lists the settings of every engine; compare again with another one")
