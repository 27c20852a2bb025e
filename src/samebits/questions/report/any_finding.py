"""The document of any finding, and the finding in a JSON text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from samebits.display.document import Document
from samebits.display.visible_text import make_visible, show_controls
from samebits.errors import FindingError
from samebits.questions.all_questions import FINDINGS
from samebits.regular_files import read_regular

# Findings of whole networks take some megabytes.
LARGEST_FINDING = 256 * 2**20


class _Named(msgspec.Struct):
    schema: str = ""


def read_finding(text: bytes) -> msgspec.Struct:
    """The finding of a JSON text, of whatever schema; raises FindingError in one line for what is none."""
    try:
        schema = msgspec.json.decode(text, type=_Named).schema
        if schema not in FINDINGS:
            known = ", ".join(FINDINGS)
            raise FindingError(
                f"schema {schema[:60]!r} is none that report knows ({known}); samebits writes them with --json"
            )
        return msgspec.json.decode(text, type=FINDINGS[schema].load()[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FindingError(f"no finding as samebits writes it with --json: {str(error)[:200]}") from None


def load(path: str | Path) -> msgspec.Struct:
    """The finding in a JSON file, as `--json` and `.save` write it; raises FindingError, in one line, for another.

    >>> import samebits
    >>> samebits.compare("linear x=2x3 w=2x3", ["truth"]).save("found.json")
    >>> samebits.load("found.json").verdict
    'identical'
    """
    if Path(path).suffix in (".html", ".md"):
        raise FindingError(f"{path} is a page made of a finding; its .json is needed, as --json and .save write it")
    try:
        text = read_regular(path, LARGEST_FINDING)
    except OSError as error:
        hint = "samebits compare ... --json > finding.json makes one"
        raise FindingError(f"{path} could not be read: {error.strerror}; {hint}") from None
    try:
        return read_finding(text)
    except FindingError as error:
        raise FindingError(f"{path}: {error}") from None


def print_text(found: msgspec.Struct, console: Any) -> None:
    """Prints a finding of any kind as its command does; as much as fits a screen."""
    _, lay_out, show = FINDINGS[getattr(found, "schema", "")].load()
    if show is not None:
        show(found, console, verbose=False)
    else:
        document = lay_out(make_visible(found))
        console.print(f"{document.title}\n\n{document.verdict.upper()}  {document.summary}", markup=False)


def document_from_finding(found: msgspec.Struct) -> Document:
    """The document of a finding of any kind; raises FindingError for one that has no layout."""
    schema = getattr(found, "schema", "")
    if schema not in FINDINGS:
        raise FindingError(f"a finding of schema {schema!r} has no page")
    try:
        return FINDINGS[schema].load()[1](make_visible(found))
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        # Its parts contradict each other, although the type of each is right, which was checked.
        says = f"{type(error).__name__}: {str(error)[:100]}"
        raise FindingError(f"the finding's parts do not fit each other ({show_controls(says)})") from error
