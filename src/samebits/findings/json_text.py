"""Findings as JSON text, and back."""

from __future__ import annotations

import json
import re
from typing import Annotated, TypeVar

import msgspec

FindingT = TypeVar("FindingT", bound=msgspec.Struct)
_NUMBER = r"(?:-?[\d.]+(?:[eE][+-]?\d+)?|null)"
_ROW = re.compile(rf"\[\n\s*({_NUMBER}(?:,\n\s*{_NUMBER})*)\n\s*\]")


def json_from_finding(finding: msgspec.Struct) -> str:
    """Indented JSON of a finding, rows of numbers in one line; infinities and NaN, which JSON lacks, become null.

    What a terminal might obey stands in it as \\u009b, which is the same to whoever reads the JSON.
    """
    try:
        text = msgspec.json.format(msgspec.json.encode(finding), indent=2).decode()
    except UnicodeEncodeError:
        # Bytes of an argument or a variable that are no UTF-8; Python's own JSON writes them out.
        plain = json.loads(json.dumps(msgspec.to_builtins(finding)), parse_constant=lambda _: None)
        text = json.dumps(plain, indent=2)
    # Texts have no line ends of their own in JSON.
    text = _ROW.sub(lambda row: f"[{' '.join(row[1].split())}]", text)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def finding_from_json(text: str | bytes, kind: type[FindingT]) -> FindingT:
    """The finding of that kind in a JSON text; raises msgspec.ValidationError or DecodeError."""
    return msgspec.json.decode(text, type=kind)


# How many of something.
Count = Annotated[int, msgspec.Meta(ge=0)]
# A part of a whole.
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
