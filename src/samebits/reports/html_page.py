"""A finding as one self-contained HTML page: no network, readable on a phone, by keyboard, in the dark, and printed."""

from __future__ import annotations

import functools
import importlib.resources
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from samebits.errors import ArgumentError
from samebits.regular_files import write_text
from samebits.reports.missing_packages import report_missing

if TYPE_CHECKING:
    from samebits.reports.documents.document import Block, Document

# Tables longer than this can be filtered.
_FEWEST_FILTERED = 8


def write_page(found: msgspec.Struct, path: str | Path) -> None:
    """Writes the page of a finding; raises ArgumentError where the file cannot be written."""
    page = render_page(found)
    try:
        write_text(path, page)
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror}") from None


def render_page(found: msgspec.Struct) -> str:
    """The page's HTML. Raises FindingError for a finding without a page, or where packages are missing."""
    try:
        import jinja2

        from samebits.reports.documents import document_from_finding
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    document = document_from_finding(found)
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["kind"] = lambda block: type(block).__name__.lower()
    template = environment.from_string(_read("page.html.j2"))
    specs = _list_specs(document)
    return template.render(
        document=document,
        fewest_filtered=_FEWEST_FILTERED,
        style=_read("page.css"),
        script=_read("page.js"),
        # "</" would end the element that the text stands in.
        specs=json.dumps(specs).replace("</", "<\\/"),
        library=_load_library() if specs else "",
    )


def _list_specs(document: Document) -> list[dict[str, Any]]:
    from samebits.reports.documents.document import Chart

    blocks: list[Block] = [block for section in document.sections for block in section.blocks]
    return [block.spec for block in blocks if isinstance(block, Chart)]


def _read(name: str) -> str:
    return importlib.resources.files("samebits.reports").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _load_library() -> str:
    """The drawing library's JavaScript, as vl-convert brings it along."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    # Its stubs ask for a snippet, which may be left out.
    library = vl_convert.javascript_bundle(None)  # type: ignore[arg-type]
    return library.replace("</script", "<\\/script")
