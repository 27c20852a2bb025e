"""A comparison for people: the answer, the table, the evidence, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import Comparison, Error, Side, is_agreement
from samebits.problems.problem_text import parse_problem_text
from samebits.recipes import format_order, parse_recipe
from samebits.reports.order_drawing import draw_order

VERDICT_STYLES = {
    "identical": "bold green",
    "rounding": "bold yellow",
    "downgrade": "bold red",
    "wrong": "bold red",
    "undecided": "bold magenta",
}


# Beyond this a count of representable numbers says that the sum is small, not that the error is large.
MANY_ULPS = 1000
_MOST_DRAWN = 3
_LONGEST_RECIPE = 160


def show_comparison(found: Comparison, console: Console | None = None) -> None:
    """Prints a comparison to the console (standard output by default)."""
    console = console or Console(highlight=False)
    outputs = f"{found.outputs:,} output{'s' if found.outputs != 1 else ''}"
    console.print(Text(found.problem, style="bold"))
    console.print(Text(f"{outputs}, {found.reduction_length:,} products each; operands: {found.data}", style="dim"))
    console.print()
    verdict = Text(f"{found.verdict.upper():<11}", style=VERDICT_STYLES[found.verdict])
    console.print(verdict.append(Text(found.summary, style="not bold default")))
    console.print()
    console.print(Padding(_table(found), (0, 0, 0, 2), expand=False))
    if found.truth is not None:
        console.print()
        console.print(Padding(_values(found), (0, 0, 0, 2), expand=False))
    drawn = _draw_orders(found)
    if drawn is not None:
        console.print()
        console.print(Padding(drawn, (0, 0, 0, 2), expand=False))
    console.print()
    console.print(Padding(_notes(found), (0, 0, 0, 2), expand=False))


def _table(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("engine", overflow="fold")
    for heading in ("verdict", "from truth", "of bound", "exact data"):
        table.add_column(heading, no_wrap=True)
    for side in found.sides:
        verdict = Text("-") if side.failure else Text(side.verdict, style=VERDICT_STYLES[side.verdict])
        table.add_row(Text(_format_name(side)), verdict, *_format_numbers(side))
    return table


def _draw_orders(found: Comparison) -> Table | None:
    """The orders in which sides add, side by side, one column for each that differs; None where nothing was found."""
    problem = parse_problem_text(found.problem)
    names: dict[str, list[str]] = {}
    for side in found.sides:
        if side.recipe and side.replay and side.replay.matched == 1.0:
            names.setdefault(side.recipe, []).append(side.name)
    if not names:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for sides in list(names.values())[:_MOST_DRAWN]:
        table.add_column(", ".join(sides), overflow="fold")
    cells: list[Text] = []
    for recipe in list(names)[:_MOST_DRAWN]:
        parsed = parse_recipe(recipe)
        if parsed.algorithm is not None:
            cells.append(Text(recipe))
            continue
        lines = draw_order(problem, format_order(parsed.orders[0]))
        products = "fused" if parsed.product == "fused" else "rounded first"
        more = f"and {len(parsed.orders) - 1} more orders" if len(parsed.orders) > 1 else ""
        cells.append(Text("\n".join([f"adds up, products {products}:", *lines, *([more] if more else [])])))
    table.add_row(*cells)
    return table


def _values(found: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("engine", no_wrap=True)
    table.add_column("values", overflow="fold")
    table.add_row("the truth", format_values(found.truth))
    for side in found.sides:
        if side.values:
            table.add_row(Text(side.name), format_values(side.values))
    return table


def _format_name(side: Side) -> str:
    if not side.engine:
        return f"{side.name} (recorded)"
    name, _, settings = side.name.partition(":")
    version = f" {side.version}" if side.version and name != "truth" else ""
    lines = [f"{name}{version}", *(f"  {part}" for part in settings.split(",") if part)]
    return "\n".join(lines)


def _format_numbers(side: Side) -> tuple[str, str, str]:
    if side.failure:
        return side.failure.kind, "", ""
    error = side.error
    assert error is not None
    ulp, share = format_error(error)
    exact = side.exact_data
    if not exact:
        said = ""
    elif exact.differing:
        said = f"{exact.differing:,} wrong" if side.verdict == "wrong" else f"{exact.differing:,} differ"
    else:
        said = "right"
    return ulp, share, said


def format_error(error: Error) -> tuple[str, str]:
    """The distance from the truth in representable numbers, and the share of the bound."""
    ulp = "no number" if error.max_ulp is None or error.max_ulp == float("inf") else _format_ulps(error.max_ulp)
    share = "beyond any" if error.max_over_bound in (None, float("inf")) else f"{error.max_over_bound:.2g}"
    return ulp, share


def _format_ulps(count: float) -> str:
    return f"{count:,.0f} ulp" if count < MANY_ULPS else f"{count:.1e} ulp"


def format_values(values: list[float | None] | None) -> str:
    return " ".join("nan/inf" if v is None else f"{v:.9g}" for v in values or [])


def _notes(found: Comparison) -> Table:
    """Labelled remarks: which sides agree, why, the worst element, the settings effective."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("about", style="dim", no_wrap=True)
    table.add_column("says", overflow="fold")
    for about, says in _remarks(found):
        table.add_row(about, Text(says))
    return table


def _remarks(found: Comparison) -> Iterator[tuple[str, str]]:
    if found.differences:
        for number, group in enumerate(_group_sides(found)):
            yield ("" if number else "same bits"), " = ".join(group)
    for evidence in found.evidence:
        yield "why", (f"cause {found.cause}: " if found.cause else "") + evidence.says
    for side in found.sides:
        if side.recipe and side.replay:
            share = f"{round(side.replay.matched * side.replay.elements):,} of {side.replay.elements:,}"
            shown = side.recipe if len(side.recipe) <= _LONGEST_RECIPE else f"{side.recipe[: _LONGEST_RECIPE - 3]}..."
            yield "replayed", f"{side.name}: {share} outputs by {shown}"
    for side in found.sides:
        if side.failure:
            yield side.failure.kind, f"{side.name}: {side.failure.says}"
        if side.verdict in ("wrong", "undecided"):
            yield from (
                ("why", f"{side.name}: {e.says}") for e in side.evidence if e.kind in ("structure", "statistic")
            )
    if any(s.verdict == "rounding" and s.error and (s.error.max_ulp or 0) >= MANY_ULPS for s in found.sides):
        yield "ulp", "many ulp within the bound stand beside a small sum of large terms, which cancel"
    worst = _worst_side(found)
    if worst:
        yield "worst", _say_worst(worst)
    for side in found.sides:
        if side.settings:
            yield "effective", f"{side.name.partition(':')[0]}: {_format_settings(side)}"
        yield from (("note", e.says) for e in side.evidence if e.kind == "setting")
    yield "truth", _say_settled(found)
    yield "next", _say_next(found)


def _group_sides(found: Comparison) -> list[list[str]]:
    """The sides in groups of equal bits."""
    same = {(d.a, d.b) for d in found.differences if d.differing == 0}
    groups: list[list[str]] = []
    for side in found.sides:
        if side.failure:
            continue
        home = next((g for g in groups if (g[0], side.name) in same), None)
        if home:
            home.append(side.name)
        else:
            groups.append([side.name])
    return groups


def _format_settings(side: Side) -> str:
    return ", ".join(f"{name}={value}" for name, value in side.settings.items())


def _worst_side(found: Comparison) -> Side | None:
    candidates = [s for s in found.sides if s.worst and s.error]
    return max(candidates, key=lambda s: _or_infinity(s.worst.over_bound if s.worst else 0.0), default=None)


def _or_infinity(value: float | None) -> float:
    return float("inf") if value is None else value


def _say_worst(side: Side) -> str:
    worst = side.worst
    assert worst is not None
    windows = "; ".join(f"{name}[{', '.join(f'{a}:{b}' for a, b in ranges)}]" for name, ranges in worst.window.items())
    value, truth = ("nan/inf" if v is None else f"{v:.9g}" for v in (worst.value, worst.truth))
    return f"{side.name} at {worst.index}: {value} where the truth is {truth}; it reads {windows}"


def _say_next(found: Comparison) -> str:
    kind = found.problem.split()[0].partition(".")[0]
    if is_agreement(found.verdict):
        return f"samebits.{kind}(x, w, ...) returns the truth itself, the same bits for any batch, padding or machine"
    culprits = [s.name for s in found.sides if not is_agreement(s.verdict) and s.engine and not s.failure]
    if not culprits:
        return "samebits doctor shows the engines that are here; put the same case to them with --on ENGINE"
    noted = [s for s in found.sides if s.name in culprits and any(e.kind == "setting" for e in s.evidence)]
    if noted:
        return "ask again with the setting named in the note"
    return f"ask {culprits[0].partition(':')[0]} again under another setting; samebits doctor lists what it takes"


def _say_settled(found: Comparison) -> str:
    names = {
        "rounding_test": "by one float64 sum",
        "exactness": "because the sum is exact",
        "double_double": "in double-double",
        "exactly": "in exact arithmetic",
        "special": "as infinities or NaN",
    }
    parts = [f"{count:,} {names[way]}" for way, count in found.settled.items() if count]
    return "outputs settled: " + ", ".join(parts)
