"""A number as logs print it, by a pattern that never tries a digit twice: no line costs more than its length."""

from __future__ import annotations

import re

# Possessive throughout: what a part has taken it does not give back.
NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+(?:[eE][-+]?+\d++)?+|inf|nan)"
_NUMBER = re.compile(NUMBER)


def read_number_after(word: str, text: str, start: int) -> tuple[float, int] | None:
    """The number behind the first `word` from `start` on, and where it ends; None if there is none."""
    at = text.find(word, start)
    number = _NUMBER.match(text, at + len(word)) if at >= 0 else None
    return (float(number[0]), number.end()) if number else None
