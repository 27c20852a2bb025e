"""A pick as a document."""

from __future__ import annotations

import shlex

from samebits.display.document import Cell, Code, Document, Section, Table, tell_evidence
from samebits.questions.pick.pick_schema import Choice, Pick
from samebits.questions.pick.pick_sentences import say_choice, say_contract, say_slower, say_time


def lay_out_pick(found: Pick) -> Document:
    """What was picked for every problem, what is slower, what was rejected and why."""
    lacks = any(choice.engine is None for choice in found.choices)
    sections = [
        Section("Choices", [_tabulate_choices(found.choices)]),
        Section("Slower, or rejected", [_tabulate_others(found.choices)], folded=True),
        Section("Recipes", [Code(c.problem, c.recipe) for c in found.choices if c.recipe], folded=True),
        tell_evidence(found.evidence),
    ]
    word, tone = ("none", "bad") if lacks else ("picked", "good")
    contract = f"contract: {say_contract(found.contract)}"
    return (
        Document(
            found.subject,
            word,
            tone,
            found.summary,
            contract,
            sections,
            found.samebits_version,
            again=_say_command(found),
        )
        .stamped(found.made)
        .without_empty()
    )


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
        (Cell(c.problem, code=True), Cell(s.engine), Cell(f"{say_slower(s)}: {say_time(s.time_s)}"))
        for c in choices
        for s in c.slower
    ]
    rows += [(Cell(c.problem, code=True), Cell(r.engine), Cell(r.why, "care")) for c in choices for r in c.rejected]
    return Table(("problem", "candidate", "why not"), rows)
