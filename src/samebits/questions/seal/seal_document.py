"""A seal as a certificate for people who do not know floating point, and a check as a document."""

from __future__ import annotations

import shlex

from samebits.display.document import Cell, Code, Document, Prose, Section, Table, Tone, tell_evidence
from samebits.questions.seal.seal_report import name_check, name_run, say_sealed
from samebits.questions.seal.seal_schema import Check, Run, Seal

_TONES: dict[str, Tone] = {
    "same": "good", "same-tried": "plain", "different": "bad", "failed": "care", "not-tried": "care"
}  # fmt: skip


def lay_out_seal(found: Seal) -> Document:
    """What is promised, for which inputs, and what would break it."""
    whole = [unit for unit in found.units if unit.is_whole]
    tried = [unit for unit in found.units if not unit.is_whole]
    promise = [
        f"For {len(whole):,} of {len(found.units):,} computations it is written down how every sum is added and"
        " rounded, and executing that gave every bit: wherever the engine follows the same recipe, all bits are the"
        " same, for every input.",
    ]
    if tried:
        promise.append(
            f"For {len(tried):,} the bits on fixed operands are kept: equal bits there promise nothing of other inputs."
        )
    if found.model is not None and found.model.outputs:
        promise.append(
            "Of the model whole the bits of its outputs on fixed inputs are kept, and how each of its"
            f" {len(found.model.steps):,} units is computed, as far as that was found."
        )
    breaks = [
        f"Another release of the engine than {found.version}, another processor than {found.processor}, or other"
        " settings may choose other kernels, which add in another order: samebits check says so, problem by problem.",
        "Another batch, length or layout is another problem: a seal is of these sizes.",
    ]
    if found.variables:
        breaks.append("Set when it was sealed: " + ", ".join(f"{n}={v}" for n, v in found.variables.items()) + ".")
    rows = [(Cell(u.problem, code=True), Cell(say_sealed(u)), Cell(", ".join(u.used_by) or "-")) for u in found.units]
    settings = ", ".join(f"{k}={v}" for k, v in found.settings.items())
    sections = [
        Section("What is promised", [Prose("", tuple(promise))]),
        Section("What would break it", [Prose("", tuple(breaks))]),
        Section("What is sealed", [Table(("problem", "how", "used by"), rows)]),
        Section("Settings", [Prose("", (settings or "none",))], folded=True),
        Section("Content", [Code("SHA-256", found.content)], folded=True),
        tell_evidence(found.evidence),
    ]
    texts = " ".join(map(shlex.quote, found.subject.split("; ")))
    again = f"samebits seal {texts} --on {shlex.quote(found.engine)} -o net.seal"
    facts = f"{found.engine} {found.version} on {found.processor}"
    return (
        Document(found.subject, "sealed", "good", found.summary, facts, sections, found.samebits_version, again=again)
        .stamped(found.made)
        .without_empty()
    )


def lay_out_check(found: Check) -> Document:
    """Every problem with what came of it here, and what is otherwise here than where the seal was made."""
    rows = [
        (
            Cell(u.problem, code=True),
            Cell(u.outcome, _TONES[u.outcome]),
            Cell(u.says),
            Cell(", ".join(u.used_by) or "-"),
        )
        for u in found.units
    ]
    outputs = [(Cell(o.name, code=True), Cell(o.outcome, _TONES[o.outcome])) for o in found.outputs]
    sections = [
        Section("Problems", [Table(("problem", "outcome", "how it is known", "used by"), rows)]),
        Section("Outputs of the model", [Table(("output", "outcome"), outputs)] if outputs else []),
        tell_evidence(found.evidence),
    ]
    tone: Tone = "care" if found.holds is None else "good" if found.holds else "bad"
    version = f" {found.version}" if found.version else ""
    facts = f"{found.engine}{version} on {found.processor}; seal {found.sealed[:12]}"
    return (
        Document(
            found.subject, name_check(found)[0].lower(), tone, found.summary, facts, sections, found.samebits_version
        )
        .stamped(found.made)
        .without_empty()
    )


def lay_out_run(found: Run) -> Document:
    """The outputs, and every unit with how it was executed."""
    outputs = [
        (
            Cell(o.name, code=True),
            Cell(f"{o.dtype} {'x'.join(map(str, o.shape))}"),
            _say_exact(o.is_exact),
            Cell(o.digest, code=True),
        )
        for o in found.outputs
    ]
    steps = [(Cell(step.name, code=True), _say_exact(step.is_exact), Cell(step.says)) for step in found.steps]
    sections = [
        Section("Outputs", [Table(("output", "type", "sealed", "digest"), outputs)]),
        Section("Units", [Table(("unit", "sealed", "how"), steps)]),
        tell_evidence(found.evidence),
    ]
    word, _ = name_run(found)
    tone: Tone = "good" if word in ("SAME", "COMPUTED") else "bad" if word == "OTHER" else "care"
    facts = f"as {found.engine} {found.version}; inputs: {found.data}; {found.seconds:.1f} s; seal {found.sealed[:12]}"
    return (
        Document(found.subject, word.lower(), tone, found.summary, facts, sections, found.samebits_version)
        .stamped(found.made)
        .without_empty()
    )


def _say_exact(is_exact: bool) -> Cell:
    return Cell("every bit", "good") if is_exact else Cell("close", "care")
