"""A profile for people: the answer, the order drawn, where it holds, the proof, what changes the bits."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from samebits.display.order_drawing import draw_map, draw_order
from samebits.display.page_layout import VERDICT_STYLES, Page, Remark, make_answer, open_console
from samebits.display.visible_text import make_visible
from samebits.engines.probes.invariances import TIMES_RUN
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.problem_text import parse_problem_text
from samebits.questions.profile.profile_schema import Profile
from samebits.questions.profile.profile_sentences import name_outcome

_INVARIANCES = (
    ("batch_size", "batch size"),
    ("batch_position", "position in batch"),
    ("length", "length"),
    ("threads", "threads"),
    ("repeat", "repeat"),
    ("layout", "layout"),
    ("channel_order", "channel order"),
)
_BIAS_WORDS = {
    "first": "starts the sum",
    "after": "joins the running sum part of the way",
    "last": "added to the sum",
    "rounded": "added after the sum is rounded to the result's format",
}
_UNKNOWN = "undetermined"
_STYLES = {"replayed": "bold green", "wrong": VERDICT_STYLES["wrong"]}
_MOST_DRAWN = 3
# A recipe beyond this is a tree of its own, for machines.
_LONGEST_RECIPE = 2000
# Orders are named by letters, as on the map.
_LETTER_A = 65


def show_profile(found: Profile, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints a profile to the console (standard output by default), whole or as much as fits a screen."""
    found, console = make_visible(found), console or open_console()
    version = f" {found.version}" if found.version else ""
    device = f" · {found.device}" if found.device else ""
    word = name_outcome(found)
    page = Page()
    page.add(Text(found.problem, style="bold"), Text(f"{found.engine}{version}{device}", style="dim"))
    page.add(make_answer(word, _STYLES.get(word, "bold yellow"), found.summary))
    page.add(list(_list_remarks(found)))
    page.print_to(console, verbose=verbose)


def _list_remarks(found: Profile) -> Iterator[Remark]:
    if not found.has_own_recipe:
        yield from _say_invariances(found)
        yield Remark("next", _make_compare(found), verbatim=True)
        return
    if is_integer_problem(found.problem):
        yield from _say_integers(found)
        return
    yield from _say_orders(found)
    if found.replay:
        yield Remark("proof", _say_replay(found))
    yield from _say_numbers(found)
    yield from _say_invariances(found)
    yield from (Remark(name, says, rank=5) for name, says in found.special_values.items() if says)
    for evidence in found.evidence:
        if evidence.kind == "open":
            yield Remark(_UNKNOWN, evidence.says, rank=2)
        elif evidence.kind == "setting":
            yield Remark("setting", evidence.says, rank=2)
    if found.failure:
        yield Remark("failed", found.failure)
    if found.recipe:
        shown = len(found.recipe) <= _LONGEST_RECIPE
        yield Remark(
            "recipe", found.recipe if shown else f"{len(found.recipe):,} characters: see --json", verbatim=True, rank=3
        )
        command = _make_compare(found)
        yield Remark("next", f'{command} --on "emulate:{found.recipe}"' if shown else command, verbatim=True)


def _say_integers(found: Profile) -> Iterator[Remark]:
    if found.replay:
        counts = f"{found.replay.count:,} of {found.replay.elements:,}"
        yield Remark("proof", f"replayed {counts} codes, {found.calls} calls")
    yield Remark("sums in", found.accumulator or _UNKNOWN)
    yield from (Remark(_UNKNOWN, e.says, rank=2) for e in found.evidence if e.kind == "open")
    if found.failure:
        yield Remark("failed", found.failure)
    yield Remark("next", _make_compare(found), verbatim=True)


def _make_compare(found: Profile) -> str:
    return f'samebits compare "{found.problem}" --on "{found.engine}"'


def _say_orders(found: Profile) -> Iterator[Remark]:
    problem = parse_problem_text(found.problem)
    many = len(found.order_uses) > 1
    for i, use in enumerate(found.order_uses[:_MOST_DRAWN]):
        label = f"order {chr(_LETTER_A + i)}" if many else "order"
        yield Remark(label, f"{use.says}   ({use.outputs:,} outputs)" if many else use.says)
        drawn = "\n".join(draw_order(problem, use.order))
        yield Remark(label, drawn, verbatim=True, style="cyan", rank=1 if i == 0 else 4)
    if found.orders and found.orders > _MOST_DRAWN:
        yield Remark("", f"and {found.orders - _MOST_DRAWN} more")
    if found.where is not None and found.orders:
        yield Remark("where", "\n".join(draw_map(problem, found.where)), verbatim=True, rank=4)
    if found.order_calls:
        cost = f"{found.order_calls} calls, {1000 * (found.order_time_s or 0):.0f} ms"
        yield Remark("found in", f"{cost} (all probes: {found.calls} calls, {found.time_s:.2f} s)", rank=6)


def _say_replay(found: Profile) -> str:
    replay, case = found.replay, found.replay_case
    assert replay is not None
    said = f"replayed {replay.count:,} of {replay.elements:,} outputs on random data"
    return f"{said}; {case.count:,} of {case.elements:,} on the case's own" if case else said


def _say_numbers(found: Profile) -> Iterator[Remark]:
    yield Remark("sums in", found.accumulator or _UNKNOWN)
    yield Remark("operands", ", ".join(f"{n} as {f or _UNKNOWN}" for n, f in found.operands.items()) or _UNKNOWN)
    if found.fma is not None:
        yield Remark("products", "fused into the sum (FMA)" if found.fma else "rounded before they are added")
    if found.bias:
        yield Remark("bias", _BIAS_WORDS[found.bias])
    yield Remark("subnormals", found.subnormals or _UNKNOWN)


def _say_invariances(found: Profile) -> Iterator[Remark]:
    known = [(name, getattr(found.invariant_to, field)) for field, name in _INVARIANCES]
    answers = [(name, kept) for name, kept in known if kept is not None]
    if any(kept for _, kept in answers):
        yield Remark("bitwise invariant to", ", ".join(name for name, kept in answers if kept), style="green")
    if any(not kept for _, kept in answers):
        yield Remark("bits change with", ", ".join(name for name, kept in answers if not kept), style="red")
    if found.distinct_results and found.distinct_results > 1:
        yield Remark("", f"{found.distinct_results} different results in {TIMES_RUN} runs of the same operands")
