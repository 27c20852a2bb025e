"""A document: a verdict, one sentence, what helps, where it comes from, and sections of tables, texts and charts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.errors import FindingError
from samebits.findings import Evidence, Fix, Verdict, is_agreement
from samebits.findings.made import Made, say_made
from samebits.findings.words.fix_words import puts_right

# How a thing is coloured; always next to a word that says the same.
Tone = Literal["good", "care", "bad", "open", "plain"]
TONES: dict[str, Tone] = {
    "identical": "good",
    "rounding": "care",
    "downgrade": "bad",
    "wrong": "bad",
    "undecided": "open",
}


@dataclass(frozen=True)
class Cell:
    """A cell of a table; `code` is shown in type of one width."""

    text: str
    tone: Tone = "plain"
    code: bool = False
    # The anchor of a section that tells more.
    link: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headings; long ones can be filtered where the document is interactive."""

    headings: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    caption: str = ""


@dataclass(frozen=True)
class Prose:
    """Sentences, one paragraph each, under a label if there is one."""

    label: str
    says: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Text to copy: a recipe, a command, a tree. `drawing` can be enlarged, and is not copied."""

    label: str
    text: str
    drawing: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart as a Vega-Lite specification, and the sentence that says the same to whoever does not see it.

    `hint` says what a reader may do with it, where it is drawn.
    """

    label: str
    says: str
    spec: dict[str, Any]
    hint: str = ""


@dataclass(frozen=True)
class Grid:
    """Very many rows of plain texts: sorted and filtered where the document is interactive, cut elsewhere.

    The column `toned` holds verdicts, and is coloured as they are.
    """

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    toned: str = ""


Block = Table | Prose | Code | Chart | Grid


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `folded` where only who wants to know more opens it."""

    title: str
    blocks: list[Block]
    folded: bool = False
    anchor: str = ""


@dataclass(frozen=True)
class Remedy:
    """What to change, to be copied; `label` says what it is good for, and whether it was tried."""

    label: str
    text: str


@dataclass(frozen=True)
class Document:
    """What a finding is laid out as. `verdict` is a word, `title` what was asked about, `lead` the number that matters.

    `again` is the command that asks the same once more, `commands` ask further; `made` says when and where it was.
    """

    title: str
    verdict: str
    tone: Tone
    summary: str
    facts: str
    sections: list[Section] = field(default_factory=list[Section])
    version: str = ""
    lead: str = ""
    remedy: Remedy | None = None
    again: str = ""
    commands: tuple[str, ...] = ()
    made: str = ""

    def without_empty(self) -> Document:
        """The document without sections that have nothing in them."""
        return replace(self, sections=[s for s in self.sections if s.blocks])

    def stamped(self, made: Made | None) -> Document:
        """The document with when and where it was made, and by the command that was typed."""
        return self if made is None else replace(self, made=say_made(made), again=made.command or self.again)

    def list_commands(self) -> list[str]:
        """The command that asks again, and those that ask further."""
        return [command for command in (self.again, *self.commands) if command]


def tell_evidence(evidence: list[Evidence], of: str = "") -> Section:
    """The section of what a finding rests on, folded."""
    blocks: list[Block] = [Prose("", tuple(e.says for e in evidence))] if evidence else []
    return Section(f"How this is known{of}", blocks, folded=True)


def choose_remedy(fixes: list[Fix], verdict: Verdict) -> Remedy | None:
    """The first fix that was tried and helps; else, where something deviates, the first that is known to help."""
    fix = next((fix for fix in fixes if fix.verified and puts_right(fix)), None)
    untried = next((fix for fix in fixes if not fix.verified), None)
    if fix is None and untried is not None and not is_agreement(verdict):
        return Remedy(f"What is known to help ({_say_tried(untried)}): {untried.why}", untried.setting)
    if fix is None:
        return None
    texts = [text for text in (fix.text or fix.setting, *fix.together_with) if text]
    who = "the sides" if fix.engine == "any" else fix.engine
    return Remedy(f"What makes {who} agree ({_say_tried(fix)})", " ".join(texts))


def _say_tried(fix: Fix) -> str:
    if not fix.verified:
        return "not tried here"
    result = fix.verdict_after
    if fix.same_bits:
        result = "the same bits" if puts_right(fix) else f"the same bits, still {fix.verdict_after}"
    tried = f"tried: {result}" if result else "tried"
    if fix.time_before_s and fix.time_after_s:
        tried += f", {fix.time_after_s / fix.time_before_s:.2g} times as long"
    return tried


def tabulate_fixes(fixes: list[Fix]) -> Table:
    """Settings, why they help, and whether they were tried."""
    rows = [(Cell(f.engine), Cell(f.setting, code=True), Cell(f.why), Cell(_say_tried(f))) for f in fixes]
    return Table(("engine", "setting", "why", "tried"), rows)


def report_missing(error: ModuleNotFoundError) -> FindingError:
    """The error that names the missing package and the extra that brings it."""
    return FindingError(
        f"pages and Markdown need more packages: pip install 'samebits[report]' ({error.name} is missing)"
    )
