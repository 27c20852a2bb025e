"""What every finding can do in Python: show itself, be saved, and become a dictionary or a table."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec

from samebits.errors import ArgumentError
from samebits.findings.json_text import json_from_finding
from samebits.findings.made import stamp
from samebits.regular_files import write_text

_LONGEST = 3900
_TABLES = ("pandas", "polars")


@dataclass(frozen=True)
class Renderers:
    """How findings are shown: as a terminal's text, as a part of a notebook, as a page and as Markdown."""

    text: Callable[[msgspec.Struct], str]
    fragment: Callable[[msgspec.Struct], str | None]
    page: Callable[[msgspec.Struct], str]
    markdown: Callable[[msgspec.Struct], str]


_renderers: list[Renderers] = []


def show_with(renderers: Renderers) -> None:
    """From now on findings are shown so."""
    _renderers[:] = [renderers]


class ShownFinding:
    """The methods of findings. `_rows` names the list that is the finding's table, if it has one."""

    __slots__ = ()
    _rows: ClassVar[str] = ""

    def __str__(self) -> str:
        text = _renderers[0].text(_as_struct(self)).rstrip() if _renderers else _describe(self)
        more = "\n... (all of it: .save('finding.html') or .to_dict())"
        return text if len(text) <= _LONGEST else text[: _LONGEST - len(more)] + more

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
        return _renderers[0].fragment(_as_struct(self)) if _renderers else None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain dictionaries and lists, as its JSON has it."""
        return json.loads(json_from_finding(_as_struct(self)))

    def save(self, path: str | Path) -> None:
        """Writes the finding: `.json` (which `samebits.load` reads back), `.html` (a page) or `.md` (Markdown).

        Raises ArgumentError for another ending, or where the file cannot be written.
        """
        ending = Path(path).suffix
        if ending == ".json":
            text = json_from_finding(_as_struct(self)) + "\n"
        elif ending in (".html", ".md") and _renderers:
            found = _as_struct(self)
            # A finding made in Python does not say where; its page does.
            found = stamp(found) if getattr(found, "made", None) is None else found
            text = (_renderers[0].page if ending == ".html" else _renderers[0].markdown)(found)
        else:
            raise ArgumentError(f"{path} must end in .json, .html or .md")
        try:
            write_text(path, text)
        except OSError as error:
            raise ArgumentError(f"{path} could not be written: {error.strerror}") from None

    def to_frame(self) -> Any:
        """A table of pandas or polars, whichever is there: a row for each side, unit, class or choice of the finding.

        What is nested has a dot in its column's name; lists stand in it as JSON. Raises ArgumentError where neither
        library is installed.
        """
        plain = self.to_dict()
        rows: list[dict[str, Any]] = plain[self._rows] if self._rows else [plain]
        flat = [dict(_flatten(row)) for row in rows]
        for name in _TABLES:
            try:
                library = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            return library.DataFrame(flat)
        raise ArgumentError("a table needs pandas or polars: pip install pandas")


def _flatten(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flatten(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value) if isinstance(value, list) else value


def _as_struct(found: ShownFinding) -> msgspec.Struct:
    assert isinstance(found, msgspec.Struct)
    return found


def _describe(found: ShownFinding) -> str:
    """A finding where nothing shows findings: its verdict and its sentence."""
    parts = [str(getattr(found, name)) for name in ("verdict", "summary") if getattr(found, name, None)]
    return f"<{type(found).__name__} {': '.join(parts)}>"
