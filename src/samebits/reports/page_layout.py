"""A report as parts of a page: title, answer, tables, labelled remarks. Wrapped at spaces only; nothing is ever cut."""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import Verdict

VERDICT_STYLES: dict[Verdict, str] = {
    "identical": "bold green",
    "rounding": "bold yellow",
    "downgrade": "bold red",
    "wrong": "bold red",
    "undecided": "bold magenta",
}
INDENT = 2
_GAP = 2
_LEAST_WIDTH = 20
_NARROWEST, _USUAL_WIDTH = 10, 80
_ENDLESS = 10_000
_LEAST_FIRST = 14
# A longer label stands in a line of its own.
_LONGEST_LABEL = 24


@dataclass(frozen=True)
class Remark:
    """A label and what is said under it; `verbatim` text can be copied as it stands and is never wrapped."""

    label: str
    says: str
    verbatim: bool = False
    style: str = ""


def open_console() -> Console:
    """Standard output; a width that leaves no room for a word, such as COLUMNS=0, counts as unknown."""
    console = Console(highlight=False)
    return console if console.width >= _NARROWEST else Console(highlight=False, width=_USUAL_WIDTH)


@dataclass
class Page:
    """Parts in the sequence in which they are printed, a blank line between them."""

    parts: list[list[RenderableType | list[Remark]]] = field(default_factory=list[list[RenderableType | list[Remark]]])

    def add(self, *parts: RenderableType | list[Remark]) -> None:
        """One more part; several things in it stand without a blank line between them."""
        self.parts.append(list(parts))

    def print_to(self, console: Console) -> None:
        """Prints all parts; without colours and trailing spaces where nobody looks at a terminal."""
        if console.is_terminal:
            _print_parts(self.parts, console)
            return
        plain = Console(file=io.StringIO(), width=console.width, highlight=False, no_color=True)
        _print_parts(self.parts, plain)
        assert isinstance(plain.file, io.StringIO)
        lines = plain.file.getvalue().splitlines()
        console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def _print_parts(parts: list[list[RenderableType | list[Remark]]], console: Console) -> None:
    for number, part in enumerate(parts):
        if number:
            console.print()
        for piece in part:
            if isinstance(piece, list):
                _print_remarks(piece, console)
            else:
                console.print(piece)


def _print_remarks(remarks: list[Remark], console: Console) -> None:
    """Labels in a column of their own, once for equal ones in a row; text beside them, wrapped at spaces."""
    column = max((len(r.label) for r in remarks if len(r.label) <= _LONGEST_LABEL), default=0) + _GAP
    width = max(console.width - INDENT - column, _LEAST_WIDTH)
    before = None
    for remark in remarks:
        label = "" if remark.label == before else remark.label
        before = remark.label
        if len(label) > _LONGEST_LABEL:
            console.print(Text(" " * INDENT).append(label, style="dim"), soft_wrap=True)
            label = ""
        lines = remark.says.split("\n") if remark.verbatim else wrap_at_spaces(remark.says, width)
        for line in lines:
            shown = Text(" " * INDENT).append(label.ljust(column), style="dim").append(line, style=remark.style)
            console.print(shown, soft_wrap=True)
            label = ""


def wrap_at_spaces(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters; a longer word stands in a line of its own, whole."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def make_answer(word: str, style: str, says: str) -> Text:
    """The verdict in capitals, then the sentence that a person can repeat."""
    return Text(f"{word.upper():<11}", style=style).append(Text(says, style="not bold default"))


def make_table(*headings: str) -> Table:
    """A table without lines whose first column may fold; the others never do."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number > 0, min_width=0 if number else _LEAST_FIRST)
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """One more row; text is shown as it stands, brackets and colons too, which would be marks to rich."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def fits(table: Table, width: int) -> bool:
    """Whether a table stands in so many columns with no cell folded or cut."""
    endless = Console(width=_ENDLESS)
    return Measurement.get(endless, endless.options, table).maximum + INDENT <= width


def indent(part: RenderableType) -> Padding:
    """A part moved in by the usual margin."""
    return Padding(part, (0, 0, 0, INDENT), expand=False)
