"""A document as one self-contained HTML page: no network; readable on a phone, by keyboard, in the dark, on paper."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

from samebits.display.document import Block, Chart, Document, report_missing

# Tables longer than this can be filtered.
_FEWEST_FILTERED = 8


def render_html(document: Document) -> str:
    """The page's HTML. Raises FindingError where packages are missing."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
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
    blocks: list[Block] = [block for section in document.sections for block in section.blocks]
    return [block.spec for block in blocks if isinstance(block, Chart)]


def _read(name: str) -> str:
    return importlib.resources.files("samebits.display").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _load_library() -> str:
    """The drawing library's JavaScript, as vl-convert brings it along."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    # Its stubs ask for a snippet, which may be left out.
    library = vl_convert.javascript_bundle(None)  # type: ignore[arg-type]  (None: the libraries as they are)
    return library.replace("</script", "<\\/script")
