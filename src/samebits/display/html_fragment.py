"""A document as a small piece of HTML: a notebook's cell keeps it, so it has no script, no chart and few rows."""

from __future__ import annotations

import html
from collections.abc import Iterator

from samebits.display.document import Block, Cell, Chart, Code, Document, Grid, Prose, Table

_MOST_ROWS, _LONGEST_CODE, _LONGEST_LINE = 20, 2000, 1500
_LONGEST = 50_000
# Of sections that are not folded anyway, so many stand open: what a chart says, and the first table.
_OPEN = 2
_MORE = "<p>The rest, with charts: <code>.save('finding.html')</code></p>"
# Colours of words only: the notebook's own theme has the rest.
_COLOURS = {"good": "#1a7f37", "care": "#9a6700", "bad": "#cf222e", "open": "#8250df"}


def fragment_from_document(document: Document) -> str:
    """The document's HTML, at most about 50,000 characters of it; every text in it is escaped."""
    answer = f"<b{_style(document.tone)}>{_escape(document.verdict.upper())}</b> {_escape(document.summary)}"
    parts = [f"<p><code>{_escape(document.title)}</code><br>{_escape(document.facts)}</p>", f"<p>{answer}</p>"]
    if document.lead:
        parts.append(f"<p>{_escape(document.lead)}</p>")
    if document.remedy:
        parts.append(f"<p>{_escape(document.remedy.label)}: <code>{_escape(document.remedy.text)}</code></p>")
    length, is_cut = sum(map(len, parts)), False
    for number, section in enumerate(document.sections):
        body = "".join(text for block in section.blocks for text in _render(block))
        # What answers stands open, how it is known is folded.
        opened = " open" if number < _OPEN and not section.folded else ""
        part = f"<details{opened}><summary>{_escape(section.title)}</summary>{body}</details>"
        if length + len(part) > _LONGEST:
            is_cut = True
            continue
        parts.append(part)
        length += len(part)
    if document.list_commands():
        again = "".join(f"<pre>{_escape(command)}</pre>" for command in document.list_commands())
        parts.append(f"<details><summary>Do it again</summary>{again}</details>")
    has_charts = any(isinstance(block, Chart) for section in document.sections for block in section.blocks)
    return f'<div class="samebits">{"".join(parts)}{_MORE if is_cut or has_charts else ""}</div>'


def _render(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        heads = "".join(f"<th>{_escape(h)}</th>" for h in block.headings)
        rows = "".join(f"<tr>{''.join(map(_render_cell, row))}</tr>" for row in block.rows[:_MOST_ROWS])
        yield f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        if len(block.rows) > _MOST_ROWS:
            yield f"<p>{len(block.rows) - _MOST_ROWS:,} more rows.</p>"
    elif isinstance(block, Prose):
        label = f"{_escape(block.label)}: " if block.label else ""
        yield "".join(f"<p>{label}{_escape(sentence)}</p>" for sentence in block.says)
    elif isinstance(block, Code):
        text = block.text if len(block.text) <= _LONGEST_CODE else block.text[:_LONGEST_CODE] + "\n..."
        yield f"<p>{_escape(block.label)}</p><pre>{html.escape(text)}</pre>"
    elif isinstance(block, Grid):
        yield from _render(Table(block.headings, [tuple(Cell(text) for text in row) for row in block.rows]))
    else:
        yield f"<p>{_escape(block.says)}</p>"


def _render_cell(cell: Cell) -> str:
    text = _escape(cell.text)
    inner = f"<code>{text}</code>" if cell.code else text
    return f"<td{_style(cell.tone)}>{inner}</td>"


def _style(tone: str) -> str:
    return f' style="color: {_COLOURS[tone]}"' if tone in _COLOURS else ""


def _escape(text: str) -> str:
    """Text in one line, not too long, that is no markup."""
    line = " ".join(text.split())
    return html.escape(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ...")
