"""Whole numbers in texts: ASCII digits and nothing else, few enough for 64 bits."""

from __future__ import annotations

# 10^18 - 1 is below 2^63.
MOST_DIGITS = 18


def is_whole_number(text: str, most_digits: int = MOST_DIGITS) -> bool:
    """Whether the text is a whole number; `str.isdigit` alone takes superscripts and digits of all scripts."""
    return text.isascii() and text.isdigit() and len(text) <= most_digits
