"""A document as one self-contained HTML page: no network; readable on a phone, by keyboard, in the dark, on paper."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

from samebits.display.document import TONES, Block, Chart, Document, Grid, report_missing

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
        specs=_write_data(specs),
        grids=_write_data(_list_grids(document)),
        library=_load_library() if specs else "",
    )


def _write_data(data: object) -> str:
    """JSON for a script element, which "</" or "<!--" in a text would end."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _list_blocks(document: Document) -> list[Block]:
    return [block for section in document.sections for block in section.blocks]


def _list_specs(document: Document) -> list[dict[str, Any]]:
    return [block.spec for block in _list_blocks(document) if isinstance(block, Chart)]


def _list_grids(document: Document) -> list[dict[str, Any]]:
    """For each column the different texts in it, and for each row which of them it has."""
    grids: list[dict[str, Any]] = []
    for block in _list_blocks(document):
        if isinstance(block, Grid):
            columns = [[row[place] for row in block.rows] for place in range(len(block.headings))]
            codes = [{text: code for code, text in enumerate(dict.fromkeys(column))} for column in columns]
            rows = [[code[text] for text in column] for code, column in zip(codes, columns, strict=True)]
            toned = block.headings.index(block.toned) if block.toned else None
            grids.append({"texts": [list(code) for code in codes], "rows": rows, "toned": toned, "tones": TONES})
    return grids


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
