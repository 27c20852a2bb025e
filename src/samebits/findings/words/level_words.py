"""How well something is known, in words."""

from __future__ import annotations

from samebits.findings.comparison_schema import Certainty

_LEVELS: dict[Certainty, str] = {
    "bits": "proved by bits", "bounds": "proved by bounds", "statistics": "inferred", "open": "open",
}  # fmt: skip


def say_level(certainty: Certainty | None) -> str:
    """The evidence level of a verdict or a cause; nothing known is open.

    >>> say_level("bits"), say_level(None)
    ('proved by bits', 'open')
    """
    return _LEVELS[certainty or "open"]
