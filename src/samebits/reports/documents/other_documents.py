"""Profiles, two runs held against each other, and picks as documents."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from samebits.findings import Profile
from samebits.findings.diff_schema import RunDiff
from samebits.findings.pick_schema import Choice, Pick
from samebits.problems.problem_text import parse_problem_text
from samebits.reports.documents.document import Block, Cell, Code, Document, Prose, Section, Table, Tone
from samebits.reports.order_drawing import draw_map, draw_order
from samebits.wording.pick_sentences import say_choice, say_contract, say_time
from samebits.wording.run_sentences import say_next

_MOST_DRAWN = 6
_LONGEST_RECIPE = 20_000


def lay_out_profile(found: Profile) -> Document:
    """The answer, the orders drawn, where each holds, what changes the bits, special values."""
    whole = found.replay is not None and found.replay.is_whole
    word = "replayed" if whole else "partly" if found.replay else "unknown"
    version = f" {found.version}" if found.version else ""
    sections = [
        Section("Orders of addition", list(_draw_orders(found))),
        Section("What it does", [_tabulate_answers(found)]),
        Section("What changes the bits", [_tabulate_invariances(found)]),
        Section("Recipe", [Code("", found.recipe)] if found.recipe and len(found.recipe) <= _LONGEST_RECIPE else []),
        Section("How this is known", [Prose("", tuple(e.says for e in found.evidence))] if found.evidence else []),
        Section(
            "Do it again", [Code("", f"samebits profile {shlex.quote(found.engine)} {shlex.quote(found.problem)}")]
        ),
    ]
    facts = f"{found.engine}{version}; {found.calls:,} calls, {found.time_s:.1f} s"
    return Document(
        found.problem, word, "good" if whole else "care", found.summary, facts, sections, found.samebits_version
    ).without_empty()


def _draw_orders(found: Profile) -> Iterator[Block]:
    problem = parse_problem_text(found.problem)
    for use in found.order_uses[:_MOST_DRAWN]:
        yield Prose(use.says, (f"used by {use.outputs:,} outputs",))
        yield Code(f"Order of {use.outputs:,} outputs", "\n".join(draw_order(problem, use.order)), drawing=True)
    if found.where is not None:
        yield Code("Which output uses which order", "\n".join(draw_map(problem, found)), drawing=True)


def _tabulate_answers(found: Profile) -> Table:
    said = {
        "algorithm": found.family,
        "running sum": found.accumulator,
        "fused multiply-add": None if found.fma is None else "yes" if found.fma else "no",
        "bias": found.bias,
        "subnormal numbers": found.subnormals,
        **{f"operand {name}": way for name, way in found.operands.items()},
        **found.special_values,
        "proof": f"{found.replay.count:,} of {found.replay.elements:,} outputs replayed" if found.replay else None,
    }
    return Table(("question", "answer"), [(Cell(k), Cell(str(v))) for k, v in said.items() if v])


def _tabulate_invariances(found: Profile) -> Table:
    words: dict[bool | None, tuple[str, Tone]] = {
        True: ("same bits", "good"), False: ("other bits", "care"), None: ("not tried", "plain"),
    }  # fmt: skip
    rows = [
        (Cell(name.replace("_", " ")), Cell(*words[value]))
        for name, value in msgspec.structs.asdict(found.invariant_to).items()
    ]
    return Table(("when this changes", "the result has"), rows)


def lay_out_diff(found: RunDiff) -> Document:
    """Where two runs part, which settings differed, what to do next."""
    first = found.first
    rows: list[tuple[Cell, ...]] = []
    if first is not None:
        said = {
            "operation": first.what,
            "in the second run": first.other,
            "step": str(first.step),
            "direction": first.direction,
            "module": first.module,
            "line": first.line,
            "process": first.process,
            "what differs": first.kind,
            "because of": first.reason,
        }
        rows = [(Cell(k), Cell(v, code=k in ("operation", "line"))) for k, v in said.items() if v]
    settings = [(Cell(s.name, code=True), Cell(s.a), Cell(s.b), Cell(s.set or "", code=True)) for s in found.settings]
    sections = [
        Section("Where they part", [Table(("what", "first difference"), rows)] if rows else []),
        Section(
            "Settings that differ",
            [Table(("setting", "first", "second", "to make equal"), settings)] if settings else [],
        ),
        Section("How this is known", [Prose("", tuple(e.says for e in found.evidence))] if found.evidence else []),
        Section("What next", [Prose("", tuple(say_next(found.first, found.settings, found.captured)))]),
        Section("Do it again", [Code("", f"samebits diff {shlex.quote(found.a)} {shlex.quote(found.b)}")]),
    ]
    alone = found.only_a + found.only_b
    facts = f"{found.compared:,} operations in both, {found.differing:,} differ, {alone:,} in one only"
    word, tone = ("same", "good") if found.same else ("differ", "bad")
    title = f"{found.a} and {found.b}"
    return Document(title, word, tone, found.summary, facts, sections, found.samebits_version).without_empty()


def lay_out_pick(found: Pick) -> Document:
    """What was picked for every problem, what is slower, what was rejected and why."""
    lacks = any(choice.engine is None for choice in found.choices)
    sections = [
        Section("Choices", [_tabulate_choices(found.choices)]),
        Section("Slower, or rejected", [_tabulate_others(found.choices)]),
        Section("Recipes", [Code(c.problem, c.recipe) for c in found.choices if c.recipe]),
        Section("How this is known", [Prose("", tuple(e.says for e in found.evidence))] if found.evidence else []),
        Section("Do it again", [Code("", _say_command(found))]),
    ]
    word, tone = ("none", "bad") if lacks else ("picked", "good")
    contract = f"contract: {say_contract(found.contract)}"
    return Document(
        found.subject, word, tone, found.summary, contract, sections, found.samebits_version
    ).without_empty()


def _say_command(found: Pick) -> str:
    """The command with the engines that were asked, as far as the choices name them."""
    named = (
        e for c in found.choices for e in (c.engine, *(s.engine for s in c.slower), *(r.engine for r in c.rejected))
    )
    engines = dict.fromkeys(text.partition(":")[0] for text in named if text)
    return " ".join(["samebits pick", shlex.quote(found.subject), *(f"--on {name}" for name in engines)])


def _tabulate_choices(choices: list[Choice]) -> Table:
    rows = [
        (
            Cell(c.problem, code=True),
            Cell(say_choice(c), "good" if c.engine else "bad"),
            Cell(f"{c.replay.count:,} of {c.replay.elements:,}" if c.replay else "-"),
            Cell(", ".join(c.used_by) or "-"),
        )
        for c in choices
    ]
    return Table(("problem", "choice", "bits replayed", "used by"), rows)


def _tabulate_others(choices: list[Choice]) -> Table:
    rows = [
        (Cell(c.problem, code=True), Cell(s.engine), Cell(f"slower: {say_time(s.time_s)}"))
        for c in choices
        for s in c.slower
    ]
    rows += [(Cell(c.problem, code=True), Cell(r.engine), Cell(r.why, "care")) for c in choices for r in c.rejected]
    return Table(("problem", "candidate", "why not"), rows)
