"""What a setting that was tried brought about."""

from __future__ import annotations

from collections.abc import Iterable

from samebits.findings.causes import is_agreement
from samebits.findings.comparison_schema import Fix


def say_result(fix: Fix, all_parts: str) -> str:
    """What holds after a fix that was tried; `all_parts` names what is within rounding: "all", "all units"."""
    if not fix.same_bits:
        return f"{all_parts} within rounding ({fix.verdict_after})"
    still = "" if puts_right(fix) else f", still {fix.verdict_after}"
    return f"the same bits from every side{still}"


def find_helping(fixes: Iterable[Fix]) -> Fix | None:
    """The first fix that was tried, can be typed, and leaves no side that deviates."""
    return next((fix for fix in fixes if fix.verified and fix.text and puts_right(fix)), None)


def puts_right(fix: Fix) -> bool:
    """Whether no side deviates with it; sides may have the same bits and all be wrong."""
    return fix.verdict_after is not None and is_agreement(fix.verdict_after)
