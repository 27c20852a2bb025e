"""The one way of text to a terminal: what it would obey, or not show, is written out as Python does (\\x1b, \\u202e).

Names, settings, logs and messages come from files and programs that nobody has checked.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

FindingT = TypeVar("FindingT", bound=msgspec.Struct)


def show_controls(text: str) -> str:
    """The text with every character that is not printable written out; ends of lines and tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(_show_character(c) for c in text)


def make_visible(found: FindingT) -> FindingT:
    """The finding with all its texts as `show_controls` makes them."""
    fields = {name: _make_visible(getattr(found, name)) for name in found.__struct_fields__}
    return msgspec.structs.replace(found, **fields)


def _show_character(character: str) -> str:
    if character in "\n\t":
        return " "
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _make_visible(value: Any) -> Any:
    if isinstance(value, str):
        return show_controls(value)
    if isinstance(value, msgspec.Struct):
        return make_visible(value)
    if isinstance(value, dict):
        return {_make_visible(k): _make_visible(v) for k, v in value.items()}
    return [_make_visible(v) for v in value] if isinstance(value, list) else value
