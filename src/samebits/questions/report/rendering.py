"""A finding as a page, as Markdown, and as a frame in a notebook."""

from __future__ import annotations

import html
from pathlib import Path

import msgspec

from samebits.display.document import Document, report_missing
from samebits.display.html_page import render_html
from samebits.display.markdown import markdown_from_document
from samebits.errors import ArgumentError, FindingError
from samebits.findings.json_text import show_with
from samebits.regular_files import write_text

_HEIGHT = 640


def write_page(found: msgspec.Struct, path: str | Path) -> None:
    """Writes the page of a finding; raises ArgumentError where the file cannot be written."""
    page = render_page(found)
    try:
        write_text(path, page)
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror}") from None


def render_page(found: msgspec.Struct) -> str:
    """The page's HTML. Raises FindingError for a finding without a page, or where packages are missing."""
    return render_html(_lay_out(found))


def render_markdown(found: msgspec.Struct) -> str:
    """The finding's Markdown (GitHub's), charts as the sentences that say the same. Raises FindingError."""
    return markdown_from_document(_lay_out(found))


def _lay_out(found: msgspec.Struct) -> Document:
    try:
        from samebits.questions.report.any_finding import document_from_finding
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    return document_from_finding(found)


def render_frame(found: msgspec.Struct) -> str | None:
    """The page as an HTML frame that brings its own styles and needs no network; None where packages are missing."""
    try:
        page = render_page(found)
    except FindingError:
        return None
    # In a frame of its own the page's styles and scripts cannot touch the notebook, nor the notebook's the page.
    return (
        f'<iframe title="samebits" sandbox="allow-scripts" style="width: 100%; height: {_HEIGHT}px; border: 0"'
        f' srcdoc="{html.escape(page, quote=True)}"></iframe>'
    )


def show_in_notebooks() -> None:
    """Findings are shown so from now on."""
    show_with(render_frame)
