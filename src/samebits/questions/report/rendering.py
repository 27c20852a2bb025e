"""A finding as a page, as Markdown, as a terminal's text, and as a part of a notebook."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec

from samebits.display.document import Document, report_missing
from samebits.display.html_fragment import fragment_from_document
from samebits.display.html_page import render_html
from samebits.display.markdown import markdown_from_document
from samebits.errors import ArgumentError, FindingError
from samebits.findings.shown import Renderers, show_with
from samebits.regular_files import write_text

_TEXT_WIDTH = 80


def write_page(found: msgspec.Struct | Document, path: str | Path) -> None:
    """Writes the page of a finding; raises ArgumentError where the file cannot be written."""
    page = render_page(found)
    try:
        write_text(path, page)
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror}") from None


def render_page(found: msgspec.Struct | Document) -> str:
    """The page's HTML. Raises FindingError for a finding without a page, or where packages are missing."""
    return render_html(_lay_out(found))


def render_markdown(found: msgspec.Struct | Document) -> str:
    """The finding's Markdown (GitHub's), charts as the sentences that say the same. Raises FindingError."""
    return markdown_from_document(_lay_out(found))


def _lay_out(found: msgspec.Struct | Document) -> Document:
    if isinstance(found, Document):
        return found
    try:
        from samebits.questions.report.any_finding import document_from_finding
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    return document_from_finding(found)


def render_fragment(found: msgspec.Struct) -> str | None:
    """The finding as a small piece of HTML for a notebook's cell, without charts; None for one without a layout."""
    try:
        return fragment_from_document(_lay_out(found))
    except FindingError:
        return None


def render_text(found: msgspec.Struct) -> str:
    """What the finding's command prints, as much of it as fits a screen, in plain text."""
    from rich.console import Console

    from samebits.questions.report.any_finding import print_text

    console = Console(file=io.StringIO(), width=_TEXT_WIDTH, highlight=False, no_color=True)
    print_text(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def show_everywhere() -> None:
    """Findings show themselves so from now on."""
    show_with(Renderers(render_text, render_fragment, render_page, render_markdown))
