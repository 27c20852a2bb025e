"""A profile as a document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from samebits.display.document import Block, Cell, Code, Document, Prose, Section, Table, Tone, tell_evidence
from samebits.display.order_drawing import draw_map, draw_order
from samebits.problems.problem_text import parse_problem_text
from samebits.questions.profile.profile_schema import Profile
from samebits.questions.profile.profile_sentences import name_outcome

_MOST_DRAWN = 6
_LONGEST_RECIPE = 20_000
_TONES: dict[str, Tone] = {"replayed": "good", "wrong": "bad"}


def lay_out_profile(found: Profile) -> Document:
    """The answer, the orders drawn, where each holds, what changes the bits, special values."""
    word = name_outcome(found)
    version = f" {found.version}" if found.version else ""
    sections = [
        Section("Orders of addition", list(_draw_orders(found)) if found.has_own_recipe else []),
        Section("What it does", [_tabulate_answers(found)]),
        Section("What changes the bits", [_tabulate_invariances(found)]),
        Section("Recipe", _show_recipe(found)),
        tell_evidence(found.evidence),
    ]
    facts = f"{found.engine}{version}; {found.calls:,} calls, {found.time_s:.1f} s"
    return (
        Document(
            found.problem,
            word,
            _TONES.get(word, "care"),
            found.summary,
            facts,
            sections,
            found.samebits_version,
            again=f"samebits profile {shlex.quote(found.engine)} {shlex.quote(found.problem)}",
        )
        .stamped(found.made)
        .without_empty()
    )


def _show_recipe(found: Profile) -> list[Block]:
    if found.recipe is None or not found.has_own_recipe or len(found.recipe) > _LONGEST_RECIPE:
        return []
    return [Code("", found.recipe)]


def _draw_orders(found: Profile) -> Iterator[Block]:
    if not found.order_uses and found.where is None:
        return
    problem = parse_problem_text(found.problem)
    for use in found.order_uses[:_MOST_DRAWN]:
        yield Prose(use.says, (f"used by {use.outputs:,} outputs",))
        yield Code(f"Order of {use.outputs:,} outputs", "\n".join(draw_order(problem, use.order)), drawing=True)
    if found.where is not None:
        yield Code("Which output uses which order", "\n".join(draw_map(problem, found.where)), drawing=True)


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
