"""A document as Markdown, for issues and pull requests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from samebits.display.document import Cell, Chart, Code, Document, Grid, Prose, Section, Table

# Tables in issues are read, not filtered.
_MOST_ROWS = 30
_MARKUP = re.compile(r"[\\`*_{}\[\]<>#|~$]")
_BACKTICKS = re.compile(r"`+")
# What makes a list or a heading of a line that begins with it.
_LINE_STARTS = re.compile(r"^(\d*)([-+=.)])")
_MENTIONS = re.compile(r"@(?=\w)")
_SCHEMES = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp):")
_WWW = re.compile(r"(?i)\b(www)\.")


def markdown_from_document(document: Document) -> str:
    """The document's Markdown (GitHub's), charts as the sentences that say the same."""
    lines = [f"**{document.verdict.upper()}** {_escape(document.summary)}", ""]
    if document.lead:
        lines += [_escape(document.lead), ""]
    if document.remedy:
        lines += [f"{_escape(document.remedy.label)}:", "", *_fence(document.remedy.text), ""]
    lines += [f"{_code(document.title)}  ", _escape(document.facts), ""]
    for folded, sections in itertools.groupby(document.sections, key=lambda section: section.folded):
        body = [line for section in sections for line in _render_section(section)]
        # GitHub takes what stands in a summary as HTML: no title may stand there, which may have anybody's text in it.
        lines += ["<details><summary>More</summary>", "", *body, "</details>", ""] if folded else body
    if document.list_commands():
        lines += ["### Do it again", ""]
        for command in document.list_commands():
            lines += [*_fence(command), ""]
    if document.made:
        lines += [_escape(f"Measured {document.made}."), ""]
    lines.append(f"Made by samebits {document.version}.")
    return "\n".join(lines) + "\n"


def _render_section(section: Section) -> list[str]:
    return [f"### {_escape(section.title)}", "", *(line for block in section.blocks for line in _render(block))]


def _render(block: object) -> Iterator[str]:
    if isinstance(block, Table):
        yield f"| {' | '.join(_escape(h) for h in block.headings)} |"
        yield "|" + "---|" * len(block.headings)
        for row in block.rows[:_MOST_ROWS]:
            yield f"| {' | '.join(_code(c.text, in_table=True) if c.code else _escape(c.text) for c in row)} |"
        if len(block.rows) > _MOST_ROWS:
            yield f"\n{len(block.rows) - _MOST_ROWS} more rows."
    elif isinstance(block, Prose):
        label = f"{_escape(block.label)}: " if block.label else ""
        yield from (f"- {label}{_escape(sentence)}" for sentence in block.says)
    elif isinstance(block, Code):
        if block.label:
            yield f"{_escape(block.label)}:"
            yield ""
        yield from _fence(block.text)
    elif isinstance(block, Grid):
        yield from _render(Table(block.headings, [tuple(Cell(text) for text in row) for row in block.rows]))
    elif isinstance(block, Chart):
        yield _escape(block.says)
    yield ""


def _fence(text: str) -> tuple[str, str, str]:
    fence = "`" * max(3, _find_longest_run(text) + 1)
    return fence, text, fence


def _escape(text: str) -> str:
    """Text that Markdown leaves as it is, in one line: no markup, no HTML, no mention, no formula."""
    text = " ".join(text.split())
    text = _MARKUP.sub(r"\\\g<0>", text.replace("&", "&amp;"))
    # Word joiners are not seen, and keep whoever is called so from being written to.
    text = _MENTIONS.sub("\u2060@\u2060", text)
    # An address would become a link; behind a backslash its mark is plain text.
    text = _WWW.sub(r"\1\\.", _SCHEMES.sub(r"\1\\:", text))
    return _LINE_STARTS.sub(r"\1\\\2", text)


def _code(text: str, *, in_table: bool = False) -> str:
    """A piece of code in a line; its fence is longer than any run of backticks in it (CommonMark 0.31, 6.1)."""
    text = " ".join(text.split())
    if not text:
        return ""
    text = text.replace("|", "\\|") if in_table else text
    fence = "`" * (_find_longest_run(text) + 1)
    # Next to a fence a backtick would lengthen it; of a space on both sides one is taken away.
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _find_longest_run(text: str) -> int:
    """How many backticks follow each other at most."""
    return max(map(len, _BACKTICKS.findall(text)), default=0)
