"""The text of a web page that shows a log: an issue, a thread, a documentation page, saved as HTML."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

_PAGE = re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE)
_CLOSED = re.compile(r"</(?:span|div|p|code|pre|td|a|li)>", re.IGNORECASE)
_FEWEST_CLOSED = 8
# Elements that begin a line of their own.
_BLOCKS = frozenset(("p", "div", "br", "li", "tr", "pre", "td", "th", "h1", "h2", "h3", "h4", "blockquote", "article"))
_SILENT = frozenset(("script", "style"))


def is_page(text: str) -> bool:
    """Whether a text is HTML: it says so at its beginning, or closes many elements."""
    closed = itertools.islice(_CLOSED.finditer(text), _FEWEST_CLOSED)
    return bool(_PAGE.search(text[:4096])) or len(list(closed)) == _FEWEST_CLOSED


def read_page(text: str) -> str:
    """What a page shows, without its markup; scripts and styles are left out."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return "".join(reader.parts)


class _Reader(HTMLParser):
    """Collects text; blocks begin on lines of their own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a line where the element does; silences scripts."""
        if tag in _BLOCKS:
            self.parts.append("\n")
        self._silent += tag in _SILENT

    def handle_endtag(self, tag: str) -> None:
        """Ends a line, or a script."""
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag in _SILENT:
            self._silent = max(self._silent - 1, 0)

    def handle_data(self, data: str) -> None:
        """Keeps what is shown."""
        if not self._silent:
            self.parts.append(data)
