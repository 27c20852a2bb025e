"""A document: a verdict, one sentence, and sections of tables, texts, drawings and charts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.errors import FindingError
from samebits.findings import Certainty, Fix

# What each evidence level is called.
LEVEL_WORDS: dict[Certainty, str] = {"bits": "bits", "bounds": "bounds", "statistics": "inferred", "open": "open"}
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
    """A chart as a Vega-Lite specification, and the sentence that says the same to whoever does not see it."""

    label: str
    says: str
    spec: dict[str, Any]


Block = Table | Prose | Code | Chart


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: list[Block]


@dataclass(frozen=True)
class Document:
    """What a finding is laid out as. `verdict` is a word, `title` what was asked about."""

    title: str
    verdict: str
    tone: Tone
    summary: str
    facts: str
    sections: list[Section] = field(default_factory=list[Section])
    version: str = ""

    def without_empty(self) -> Document:
        """The document without sections that have nothing in them."""
        return replace(self, sections=[s for s in self.sections if s.blocks])


def tabulate_fixes(fixes: list[Fix]) -> Table:
    """Settings, why they help, and whether they were tried."""
    rows = []
    for fix in fixes:
        tried = f"tried: {fix.verdict_after}" if fix.verified else "not tried here"
        if fix.time_before_s and fix.time_after_s:
            tried += f", {fix.time_after_s / fix.time_before_s:.2g} times as long"
        rows.append((Cell(fix.engine), Cell(fix.setting, code=True), Cell(fix.why), Cell(tried)))
    return Table(("engine", "setting", "why", "tried"), rows)


def report_missing(error: ModuleNotFoundError) -> FindingError:
    """The error that names the missing package and the extra that brings it."""
    return FindingError(
        f"pages and Markdown need more packages: pip install 'samebits[report]' ({error.name} is missing)"
    )
