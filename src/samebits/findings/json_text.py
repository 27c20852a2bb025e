"""Findings as JSON text, and back."""

from __future__ import annotations

from typing import TypeVar

import msgspec

FindingT = TypeVar("FindingT", bound=msgspec.Struct)


def json_from_finding(finding: msgspec.Struct) -> str:
    """Indented JSON of a finding; infinities and NaN, which JSON lacks, become null."""
    return msgspec.json.format(msgspec.json.encode(finding), indent=2).decode()


def finding_from_json(text: str | bytes, kind: type[FindingT]) -> FindingT:
    """The finding of that kind in a JSON text; raises msgspec.ValidationError or DecodeError."""
    return msgspec.json.decode(text, type=kind)
