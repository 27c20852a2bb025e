"""A reduction as a document: the fault, its condition, what it is right with, the script."""

from __future__ import annotations

import shlex

from samebits.display.document import Block, Cell, Code, Document, Prose, Section, Table, Tone, tell_evidence
from samebits.display.visible_text import format_value
from samebits.questions.reduce.reduction_report import name_reduction
from samebits.questions.reduce.reduction_schema import Reduction
from samebits.questions.reduce.reduction_sentences import say_versions
from samebits.questions.reduce.upstream_report import write_upstream_report


def lay_out_reduction(found: Reduction) -> Document:
    """The answer, the smallest problem, neighbours, other engines and settings, the script and the report."""
    tone: Tone = "good" if found.fault is None else "bad"
    sections = [
        Section("The smallest problem", _show_smallest(found)),
        Section("Right, one number changed", [Code("", "\n".join(found.right_with))] if found.right_with else []),
        Section(
            "Right, though the condition holds", [Code("", "\n".join(found.exceptions))] if found.exceptions else []
        ),
        Section("Other settings, versions and engines", _show_others(found)),
        Section("Script", [Code("", found.reproducer)] if found.reproducer else []),
        Section("Report for upstream", [Code("", write_upstream_report(found))] if found.problem else []),
        tell_evidence(found.evidence),
    ]
    return (
        Document(
            found.start,
            name_reduction(found)[0],
            tone,
            found.summary,
            f"{found.engine} {found.version or ''}".rstrip(),
            sections,
            found.samebits_version,
            again=f"samebits reduce {shlex.quote(found.start)} --on {shlex.quote(found.engine)}",
        )
        .stamped(found.made)
        .without_empty()
    )


def _show_smallest(found: Reduction) -> list[Block]:
    if found.problem is None:
        return []
    blocks: list[Block] = [Code("", found.problem)]
    if found.first_index is not None:
        at = ", ".join(map(str, found.first_index))
        values = (Cell(f"[{at}]"), Cell(format_value(found.first_value), "bad"), Cell(format_value(found.first_truth)))
        blocks.append(Table(("output", "value", "right is"), [values]))
    if found.condition:
        blocks.append(Prose("Wherever" if found.is_exact else "Only where", (found.condition,)))
    return [*blocks, Code("benchdnn", found.benchdnn)] if found.benchdnn else blocks


def _show_others(found: Reduction) -> list[Block]:
    words: dict[bool | None, tuple[str, Tone]] = {
        True: ("right", "good"), False: ("the same fault", "bad"), None: ("no answer", "open"),
    }  # fmt: skip
    rows = [
        (Cell(o.engine, code=True), Cell(o.version or "-"), Cell(*words[o.right]), Cell(o.says or "-"))
        for o in found.others
    ]
    said = [Prose("Versions", (say_versions(found.versions),))] if found.versions else []
    return [Table(("engine", "version", "the smallest problem is", "it says"), rows), *said] if rows else []
