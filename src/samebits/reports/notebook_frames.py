"""A finding's page in a frame, for notebooks."""

from __future__ import annotations

import html

import msgspec

from samebits.errors import FindingError
from samebits.findings.notebooks import show_with

_HEIGHT = 640


def render_frame(found: msgspec.Struct) -> str | None:
    """The page as an HTML frame that brings its own styles and needs no network; None where packages are missing."""
    from samebits.reports.html_page import render_page

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
