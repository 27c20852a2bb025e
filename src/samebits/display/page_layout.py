"""A report as parts of a page: title, answer, tables, labelled remarks. Wrapped at spaces only; nothing is ever cut.

A page fits one screen: what matters least is left to `--verbose` until it does, and the page says what was left.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

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


# Lines of a screen; and the rank of what nobody sees who does not ask for everything.
SCREEN_LINES, ONLY_VERBOSE = 24, 9


@dataclass(frozen=True)
class Remark:
    """A label and what is said under it; `verbatim` text can be copied as it stands and is never wrapped.

    `rank` 0 is always shown; of others those of the highest rank go first where a screen is too small for all.
    """

    label: str
    says: str
    verbatim: bool = False
    style: str = ""
    rank: int = 0


@dataclass(frozen=True)
class Part:
    """Things that stand without a blank line between them; `name` is what is said of them where they are left out."""

    pieces: list[RenderableType | list[Remark]]
    rank: int = 0
    name: str = ""

    def cut(self, highest: int) -> Part | None:
        """The part without what has a higher rank; None where nothing is left."""
        if self.rank > highest:
            return None
        pieces = [[r for r in p if r.rank <= highest] if isinstance(p, list) else p for p in self.pieces]
        kept = [p for p in pieces if p != []]
        return Part(kept, self.rank, self.name) if kept else None

    def list_ranks(self) -> set[int]:
        """The ranks of the part and of all that stands in it."""
        return {self.rank, *(r.rank for p in self.pieces if isinstance(p, list) for r in p)}

    def name_cut(self, highest: int) -> list[str]:
        """What `cut` leaves out."""
        if self.rank > highest:
            return [self.name or "further parts"]
        return [r.label for p in self.pieces if isinstance(p, list) for r in p if r.rank > highest and r.label]


def ranked(rank: int, remarks: Iterable[Remark]) -> list[Remark]:
    """The remarks with another rank."""
    return [replace(remark, rank=rank) for remark in remarks]


def open_console() -> Console:
    """Standard output; a width that leaves no room for a word, such as COLUMNS=0, counts as unknown."""
    console = Console(highlight=False)
    return console if console.width >= _NARROWEST else Console(highlight=False, width=_USUAL_WIDTH)


@dataclass
class Page:
    """Parts in the sequence in which they are printed, a blank line between them."""

    parts: list[Part] = field(default_factory=list[Part])

    def add(self, *pieces: RenderableType | list[Remark], rank: int = 0, name: str = "") -> None:
        """One more part; several things in it stand without a blank line between them."""
        self.parts.append(Part(list(pieces), rank, name))

    def print_to(self, console: Console, *, verbose: bool = True) -> None:
        """Prints it; without colours and trailing spaces where nobody looks at a terminal.

        All parts where it is `verbose`, else as much as fits a screen, and never less than what has rank 0.
        """
        parts = self.parts if verbose else _fit(self.parts, console.width)
        if console.is_terminal:
            _print_parts(parts, console)
            return
        lines = _render(parts, console.width)
        console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def _render(parts: list[Part], width: int) -> list[str]:
    plain = Console(file=io.StringIO(), width=width, highlight=False, no_color=True)
    _print_parts(parts, plain)
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue().splitlines()


def _fit(parts: list[Part], width: int) -> list[Part]:
    """The parts that a screen holds, and a line that names what it does not."""
    ranks = sorted({r for part in parts for r in part.list_ranks() if 0 < r < ONLY_VERBOSE}, reverse=True)
    kept = parts
    for highest in (ONLY_VERBOSE - 1, *(rank - 1 for rank in ranks)):
        left = dict.fromkeys(name for part in parts for name in part.name_cut(highest) if name)
        more = [Remark("more", f"{', '.join(left)}: with --verbose")] if left else []
        kept = [part for part in (p.cut(highest) for p in parts) if part is not None]
        if more and not kept:
            kept = [Part([more])]
        elif more:
            *before, last = kept
            kept = [*before, Part([*last.pieces, more]) if not _ends_in_remarks(last) else _extend(last, more)]
        if len(_render(kept, width)) <= SCREEN_LINES:
            break
    return kept


def _ends_in_remarks(part: Part) -> bool:
    return isinstance(part.pieces[-1], list)


def _extend(part: Part, more: list[Remark]) -> Part:
    *before, last = part.pieces
    assert isinstance(last, list)
    return Part([*before, [*last, *more]])


def _print_parts(parts: list[Part], console: Console) -> None:
    for number, part in enumerate(parts):
        if number:
            console.print()
        for piece in part.pieces:
            if isinstance(piece, list):
                _print_remarks(piece, console)
            else:
                console.print(piece)


def _print_remarks(remarks: list[Remark], console: Console) -> None:
    """Labels in a column of their own, once for equal ones in a row; text next to them, wrapped at spaces."""
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
