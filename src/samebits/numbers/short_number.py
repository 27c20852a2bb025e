"""The short decimal number that somebody will have written, for one that a fit has found."""

from __future__ import annotations

# A fit to float32 results is good to four digits or more.
_NEAR = 1e-4


def as_decimal(value: float) -> float:
    """The number of three digits that a value is but for a ten-thousandth; else the value."""
    short = float(f"{value:.3g}")
    return short if abs(short - value) <= _NEAR * abs(value) else value
