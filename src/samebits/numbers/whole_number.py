"""Whole numbers in texts: ASCII digits and nothing else, few enough for 64 bits."""

from __future__ import annotations

# 10^18 - 1 is below 2^63.
MOST_DIGITS = 18


def is_whole_number(text: str, most_digits: int = MOST_DIGITS) -> bool:
    """Whether the text is a whole number; `str.isdigit` alone takes superscripts and digits of all scripts."""
    return text.isascii() and text.isdigit() and len(text) <= most_digits


# A fit to float32 results is good to four digits or more.
_NEAR = 1e-4


def as_decimal(value: float) -> float:
    """The number of three digits that a value is but for a ten-thousandth; else the value."""
    short = float(f"{value:.3g}")
    return short if abs(short - value) <= _NEAR * abs(value) else value
