"""The one way of text to a terminal: what it would obey, or not show, is written out as Python does (\x1b, \u202e).

Names, settings, logs and messages come from files and programs that nobody has checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from samebits.findings import Comparison, Error, Side, is_agreement
from samebits.findings.words.number_words import say_count, say_times
from samebits.problems.attention import is_attention
from samebits.problems.row_functions import is_row_function

FindingT = TypeVar("FindingT", bound=msgspec.Struct)


def show_controls(text: str) -> str:
    """The text with every character that is not printable written out; ends of lines and tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(_show_character(c) for c in text)


def make_visible(found: FindingT) -> FindingT:
    """The finding with all its texts as `show_controls` makes them; of those in `_lines` the ends of lines stay."""
    fields = {name: _make_visible(getattr(found, name)) for name in found.__struct_fields__}
    for name in getattr(found, "_lines", ()):
        if isinstance(text := getattr(found, name), str):
            fields[name] = "\n".join(map(show_controls, text.split("\n")))
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


# Beyond this a count of representable numbers says that the sum is small, not that the error is large.
MANY_ULPS = 1000


def format_max_error(side: Side) -> str:
    """The largest error in representable numbers; where products cancel within the bound, a dash: it says nothing."""
    ulps = side.error.max_ulp if side.error else None
    if ulps is None or ulps == float("inf"):
        return "NaN/Inf"
    if ulps >= MANY_ULPS and is_agreement(side.verdict):
        return "-"
    return f"{ulps:,.0f} ulp" if ulps < MANY_ULPS else f"{ulps:.1e} ulp"


def format_share(error: Error | None) -> str:
    """The largest error as a share of its own bound."""
    share = error.max_over_bound if error else None
    return "beyond any" if share is None or share == float("inf") else say_times(share)


def say_of_bound(share: float | None) -> str:
    """A share of an error bound in words: 0.024 of its bound, or 461 times its bound."""
    if share is None or share == float("inf"):
        return "beyond any bound"
    return f"{say_times(share)} {'of' if share <= 1 else 'times'} its bound"


def say_terms(found: Comparison) -> str:
    """What each output is made of: so many products, or so many keys of an attention."""
    return say_count(found.reduction_length, _name_terms(found.problem))


def _name_terms(problem: str) -> str:
    if is_row_function(problem):
        return "number"
    return "key" if is_attention(problem) else "product"


def format_value(value: float | None) -> str:
    """One value, in enough digits to tell it from its neighbours in float32."""
    return "NaN/Inf" if value is None else f"{value:.9g}"


def format_values(values: Sequence[float | None] | None) -> str:
    """All values of a small result."""
    return " ".join(map(format_value, values or []))
