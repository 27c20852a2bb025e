"""A profile for people: the answer, the order drawn, where it holds, the proof, what changes the bits."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import Profile
from samebits.problems.problem_text import parse_problem_text
from samebits.reports.order_drawing import draw_map, draw_order

_INVARIANCES = (
    ("batch_size", "batch size"),
    ("batch_position", "position in batch"),
    ("length", "length"),
    ("threads", "threads"),
    ("repeat", "repeat"),
    ("layout", "layout"),
    ("channel_order", "channel order"),
)
_MOST_DRAWN = 3
_LONGEST_RECIPE = 400


def show_profile(found: Profile, console: Console | None = None) -> None:
    """Prints a profile to the console (standard output by default)."""
    console = console or Console(highlight=False)
    version = f" {found.version}" if found.version else ""
    console.print(Text(found.problem, style="bold"))
    console.print(Text(f"{found.engine}{version}" + (f" · {found.device}" if found.device else ""), style="dim"))
    console.print()
    exact = found.replay is not None and found.replay.matched == 1.0
    word = Text(
        f"{'REPLAYED' if exact else 'PARTLY' if found.replay else 'UNKNOWN':<10}",
        style="bold green" if exact else "bold yellow",
    )
    console.print(word.append(Text(found.summary, style="not bold default")))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("about", style="dim", no_wrap=True)
    table.add_column("says", overflow="fold")
    for about, says in _remarks(found):
        table.add_row(about, says if isinstance(says, Text) else Text(says))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _remarks(found: Profile) -> Iterator[tuple[str, str | Text]]:
    yield from _say_orders(found)
    if found.replay:
        yield "proof", _say_replay(found)
    yield from _say_numbers(found)
    keeps = [Text(f"{name} {'✓' if kept else '✗'}", style="green" if kept else "red")
             for field, name in _INVARIANCES if (kept := getattr(found.invariant_to, field)) is not None]  # fmt: skip
    if keeps:
        yield "keeps bits", Text("   ").join(keeps)
    if found.distinct_results and found.distinct_results > 1:
        yield "", f"{found.distinct_results} different results in 5 runs of the same operands"
    for name, says in found.special_values.items():
        if says:
            yield name, says
    for evidence in found.evidence:
        if "could not" in evidence.says or "missing" in evidence.says or "no tree" in evidence.says:
            yield "undetermined", evidence.says
    yield from (("setting", e.says) for e in found.evidence if e.kind == "setting" and "compared with" not in e.says)
    if found.failure:
        yield "failed", found.failure
    if found.recipe:
        yield (
            "recipe",
            found.recipe if len(found.recipe) <= _LONGEST_RECIPE else f"{len(found.recipe):,} characters: see --json",
        )
        if len(found.recipe) <= _LONGEST_RECIPE:
            yield "next", f'samebits compare "{found.problem}" --on "{found.engine}" --on "emulate:{found.recipe}"'


def _say_orders(found: Profile) -> Iterator[tuple[str, str | Text]]:
    cost = f"{found.order_calls} calls, {1000 * (found.order_time_s or 0):.0f} ms" if found.order_calls else ""
    problem = parse_problem_text(found.problem)
    for i, use in enumerate(found.order_uses[:_MOST_DRAWN]):
        name = f"order {chr(65 + i)}" if len(found.order_uses) > 1 else "order"
        yield name, f"{use.says}" + (f"   ({use.outputs:,} outputs)" if len(found.order_uses) > 1 else "")
        for line in draw_order(problem, use.order):
            yield "", Text(line, style="cyan", no_wrap=True)
    if found.orders and found.orders > _MOST_DRAWN:
        yield "", f"and {found.orders - _MOST_DRAWN} more"
    if found.where is not None and found.orders:
        drawn = draw_map(problem, found)
        yield "where", drawn[0]
        for line in drawn[1:]:
            yield "", Text(line, no_wrap=True)
    if cost:
        yield "found in", cost + f" (all probes: {found.calls} calls, {found.time_s:.2f} s)"


def _say_replay(found: Profile) -> str:
    assert found.replay is not None
    replay = found.replay
    said = f"replayed {round(replay.matched * replay.elements):,} of {replay.elements:,} outputs on random data"
    if found.replay_case:
        case = found.replay_case
        said += f"; {round(case.matched * case.elements):,} of {case.elements:,} on the case's own"
    return said


def _say_numbers(found: Profile) -> Iterator[tuple[str, str]]:
    unknown = "undetermined"
    yield "sums in", found.accumulator or unknown
    yield "operands", ", ".join(f"{n} as {f or unknown}" for n, f in found.operands.items()) or unknown
    if found.fma is not None:
        yield "products", "fused into the sum (FMA)" if found.fma else "rounded before they are added"
    if found.bias:
        yield (
            "bias",
            {
                "first": "starts the sum",
                "after": "joins the running sum part of the way",
                "last": "added to the sum",
                "rounded": "added after the sum is rounded to the result's format",
            }[found.bias],
        )
    yield "subnormals", found.subnormals or unknown
